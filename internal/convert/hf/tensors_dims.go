package hf

import (
	"reflect"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

// ggufSizes are the numbers that the keys of a GGUF file say of its tensors.
type ggufSizes struct {
	m    *tensorfs.Model
	keys map[string]any
	arch string
}

// facts are the facts of the model for a walk: its config's, and its keys that the config
// lacks. A list of different numbers is only marked as present.
func (k *ggufSizes) facts() architectures.Facts {
	known := layout.FactsOf(k.m)
	return func(name string) any {
		if v := known(name); v != nil {
			return v
		}
		if f := architectures.FactOf(name); f != nil {
			for _, key := range f.Keys {
				if strings.HasPrefix(key, "tokenizer.") {
					return ofTokenizer(k.keys[key])
				}
				if n, ok := k.same(key); ok && n != 0 {
					return n
				}
				if f.List && k.keys[k.arch+"."+key] != nil {
					return true
				}
			}
		}
		return nil
	}
}

// ofTokenizer is a text or a whole number, otherwise nil.
func ofTokenizer(v any) any {
	if r := reflect.ValueOf(v); r.IsValid() && (r.CanInt() || r.CanUint()) {
		return countOf(v)
	}
	text, ok := v.(string)
	if !ok {
		return nil
	}
	return text
}

// number returns an integer of the architecture's keys, 0 without one. An array
// of equal ones, for each layer, is that number.
func (k *ggufSizes) number(key string) int64 {
	n, _ := k.same(key)
	return n
}

// same is number, and false where layers differ.
func (k *ggufSizes) same(key string) (n int64, ok bool) {
	value := k.keys[k.arch+"."+key]
	a, isArray := value.(tensorfs.Array)
	if !isArray {
		return countOf(value), true
	}
	first := true
	for v := range a.Values() {
		if m := countOf(v); first {
			n, first = m, false
		} else if m != n {
			return 0, false
		}
	}
	return n, true
}

// countOf returns an integer of any type, 0 if the value is not an integer or does not fit.
func countOf(v any) int64 {
	switch r := reflect.ValueOf(v); {
	case !r.IsValid():
	case r.CanInt():
		return r.Int()
	case r.CanUint() && r.Uint() <= 1<<62:
		return int64(r.Uint())
	}
	return 0
}
