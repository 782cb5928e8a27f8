package config

import (
	"encoding/json"
	"iter"
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/tensorfs/tensorfs"
)

// maxLayers bounds lists with a value per layer. It is far beyond any model; a
// longer list is not about layers.
const maxLayers = 1 << 16

// toCount accepts integers and floats without a fraction.
func toCount(v any) (int64, bool) {
	if n, ok := v.(json.Number); ok {
		f, err := n.Float64()
		if err != nil {
			return 0, false
		}
		v = f
	}
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		n := r.Int()
		return n, n >= 0 && n <= maxCount
	case r.CanUint():
		n := r.Uint()
		return int64(n), n <= maxCount
	case r.CanFloat():
		f := r.Float()
		if f >= 0 && f <= maxCount && f == math.Trunc(f) {
			return int64(f), true
		}
	}
	return 0, false
}

// toReal returns a number with the precision of F32: the float64 that the
// shortest decimal form of the F32 denotes.
func toReal(v any) (float64, bool) {
	var f float32
	if n, ok := v.(json.Number); ok {
		x, err := strconv.ParseFloat(string(n), 32)
		if err != nil {
			return 0, false
		}
		f = float32(x)
	} else {
		switch r := reflect.ValueOf(v); {
		case r.CanInt():
			f = float32(r.Int())
		case r.CanUint():
			f = float32(r.Uint())
		case r.CanFloat():
			f = float32(r.Float())
		default:
			return 0, false
		}
	}
	if !(f >= 0 && f <= math.MaxFloat32) { // also NaN
		return 0, false
	}
	x, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	return math.Abs(x), err == nil // no -0
}

// elements returns the length and the values of any list.
func elements(v any) (int, iter.Seq[any], bool) {
	switch v := v.(type) {
	case tensorfs.Array:
		return v.Len(), v.Values(), true
	case []any:
		return len(v), slices.Values(v), true
	}
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Slice {
		return 0, nil, false
	}
	return r.Len(), func(yield func(any) bool) {
		for i := range r.Len() {
			if !yield(r.Index(i).Interface()) {
				return
			}
		}
	}, true
}

// toCounts accepts a count, or a list of counts, for which it also gives the largest.
func toCounts(v any) (largest int64, list []int64, ok bool) {
	n, seq, isList := elements(v)
	if !isList {
		largest, ok = toCount(v)
		return largest, nil, ok
	}
	if n == 0 || n > maxLayers {
		return 0, nil, false
	}
	for e := range seq {
		c, ok := toCount(e)
		if !ok {
			return 0, nil, false
		}
		list = append(list, c)
		largest = max(largest, c)
	}
	return largest, list, len(list) > 0
}
