package hfdir

import (
	"math"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/tree/whole"
)

// ggufKeys is a model's metadata by key. Arrays stay in the file until they are
// read.
type ggufKeys struct {
	at     map[string]any
	prefix string // of the architecture's own keys
}

func readKeys(meta []tensorfs.Meta) ggufKeys {
	k := ggufKeys{at: make(map[string]any, len(meta))}
	for _, m := range meta {
		if _, ok := k.at[m.Key]; !ok {
			k.at[m.Key] = m.Value
		}
	}
	return k
}

// Beginnings of keys that are not the architecture's.
const (
	bareKeys    = "tokenizer."
	generalKeys = "general."
)

// value returns the value of a key as the file has it, nil without it.
func (k ggufKeys) value(key string) any { return k.at[key] }

// full returns a key as the file has it.
func (k ggufKeys) full(name string) string {
	if strings.HasPrefix(name, bareKeys) || strings.HasPrefix(name, generalKeys) {
		return name
	}
	return k.prefix + name
}

// find returns the value of the first key that is present, and the key. Names are
// separated by spaces. Without one the value is nil, and the key the first.
func (k ggufKeys) find(names string) (any, string) {
	for name := range strings.FieldsSeq(names) {
		if v, ok := k.at[k.full(name)]; ok {
			return v, k.full(name)
		}
	}
	first, _, _ := strings.Cut(names, " ")
	return nil, k.full(first)
}

// Sizes of a model are multiplied with each other, so they are bounded.
const (
	mostSize  = 1 << 31
	mostHeads = 1 << 16
)

// integer returns the first key that is present, which must be a whole number of
// that range, or one for each layer that are all the same.
func (c *configMaker) integer(names string, least, most int64) (int64, bool) {
	v, key := c.keys.find(names)
	if v == nil {
		return 0, false
	}
	if a, ok := v.(tensorfs.Array); ok {
		if v = c.same(key, a); v == nil {
			return 0, false
		}
	}
	n, ok := wholeNumber(v)
	if !ok || n < least || n > most {
		c.refuse("%s is %s, not a whole number from %d to %d", key, whole.Shown(v), least, most)
		return 0, false
	}
	return n, true
}

// same returns the one value that an array has for every layer, nil without it.
func (c *configMaker) same(key string, a tensorfs.Array) any {
	if n := int64(a.Len()); n == 0 || n != c.dims["blocks"] {
		c.refuse("%s has %d values, and there are %d layers", key, n, c.dims["blocks"])
		return nil
	}
	var first any
	for v := range a.Values() {
		n, ok := wholeNumber(v)
		if !ok {
			c.refuse("%s has the value %s, which is not a whole number", key, whole.Shown(v))
			return nil
		}
		if first == nil {
			first = n
		}
		if first != n {
			c.refuse("%s differs from layer to layer, and config.json has one number", key)
			return nil
		}
	}
	return first
}

// number returns the first key that is present as a float32 or float64, which must
// be finite and more than a bound. nil: none is there, or it is refused.
func (c *configMaker) number(names string, above float64) any {
	v, key := c.keys.find(names)
	x := math.NaN()
	switch f := v.(type) {
	case nil:
		return nil
	case float32:
		x = float64(f)
	case float64:
		x = f
	}
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		c.refuse("%s is %s, not a finite number with a fraction", key, whole.Shown(v))
		return nil
	case x <= above:
		c.refuse("%s is %s, not more than %v", key, whole.Shown(v), above)
		return nil
	}
	return v
}

// flag returns the first key that is present, which must be a bool.
func (c *configMaker) flag(names string) (set, ok bool) {
	v, key := c.keys.find(names)
	set, ok = v.(bool)
	if v != nil && !ok {
		c.refuse("%s is %s, neither true nor false", key, whole.Shown(v))
	}
	return set, ok
}

// word returns the first key that is present, which must be a text.
func (c *configMaker) word(names string) string {
	v, key := c.keys.find(names)
	w, ok := v.(string)
	if v != nil && !ok {
		c.refuse("%s is %s, not a text", key, whole.Shown(v))
	}
	return w
}

// wholeNumber returns an integer of any width.
func wholeNumber(v any) (int64, bool) {
	switch n := v.(type) {
	case uint8:
		return int64(n), true
	case uint16:
		return int64(n), true
	case uint32:
		return int64(n), true
	case uint64:
		return int64(n), n <= math.MaxInt64
	case int8:
		return int64(n), true
	case int16:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	}
	return 0, false
}

// double returns a float of any width as a float64.
func double(v any) float64 {
	switch f := v.(type) {
	case float32:
		return float64(f)
	case float64:
		return f
	}
	return 0
}
