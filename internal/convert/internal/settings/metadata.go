package settings

import (
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// metadata is a GGUF file's metadata by key. Arrays stay in the file until they are read.
type metadata struct {
	at     map[string]any
	prefix string          // of the architecture's own keys
	asked  map[string]bool // keys that were read
}

func newMetadata(list []tensorfs.Meta) metadata {
	return metadata{at: ByKey(list), asked: map[string]bool{}}
}

// ByKey returns metadata by key. The first of equal keys counts.
func ByKey(list []tensorfs.Meta) map[string]any {
	all := make(map[string]any, len(list))
	for _, m := range list {
		if _, ok := all[m.Key]; !ok {
			all[m.Key] = m.Value
		}
	}
	return all
}

// Beginnings of keys that are not the architecture's.
const (
	bareKeys    = "tokenizer."
	generalKeys = "general."
	clipKeys    = "clip."
)

// wholeKeys are those, and of keys that a fact has without the architecture's name.
var wholeKeys = []string{bareKeys, generalKeys, clipKeys, "vision.", "diffusion.", "xielu."}

// value returns the value of a key as the file has it, nil without it.
func (k metadata) value(key string) any {
	k.asked[key] = true
	return k.at[key]
}

// full returns a key as the file has it.
func (k metadata) full(name string) string { return withPrefix(k.prefix, name) }

// FullKey returns the key of a fact in a GGUF file of an architecture.
func FullKey(arch, name string) string { return withPrefix(arch+".", name) }

func withPrefix(prefix, name string) string {
	if slices.ContainsFunc(wholeKeys, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return name
	}
	return prefix + name
}

// find returns the value of the first key that is present, and the key. Without one
// the value is nil, and the key the first.
func (k metadata) find(names ...string) (any, string) {
	for _, name := range names {
		k.asked[k.full(name)] = true
		if v, ok := k.at[k.full(name)]; ok {
			return v, k.full(name)
		}
	}
	return nil, k.full(names[0])
}

// Sizes of a model are multiplied with each other, so they are bounded.
const (
	mostSize  = 1 << 31
	mostHeads = 1 << 16
)

// key returns the value of a fact's keys, nil without one: a number, text or bool, or a
// []any with one for each layer. A float has the width that it has in the file. An option
// of 0 counts as absent if it may be.
func (s *Model) key(f *architectures.Fact, zero bool) any {
	v, key := s.keys.find(f.Keys...)
	a, isList := v.(tensorfs.Array)
	if !isList {
		return s.typed(f, zero, key, v)
	}
	blocks, _ := s.known["blocks"].(int64)
	layers, _ := s.known["n_layers"].(int64) // without the layers that predict further tokens
	if n := int64(a.Len()); !f.List && (n == 0 || n != blocks && n != layers) || n > mostHeads {
		s.refuse("%s has %d values, and there are %d layers", key, n, blocks)
		return nil
	}
	var list []any
	least := int64(0)
	if f.Kind == architectures.Index {
		least = -1
	}
	for v := range a.Values() {
		if f.Kind != architectures.Real && f.Kind != architectures.Bound && f.Kind != architectures.Flag && f.Kind != architectures.Text {
			if n, ok := wholeNumber(v); !ok || n < least || n > mostSize {
				s.refuse("%s has the value %s, which is not a whole number", key, Shown(v))
				return nil
			}
		}
		if n, ok := wholeNumber(v); ok && f.Kind == architectures.Flag && (n == 0 || n == 1) {
			v = n == 1
		}
		if n, ok := wholeNumber(v); ok {
			v = n
		} else if v = s.typed(f, true, key, v); v == nil {
			return nil
		}
		list = append(list, v)
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// typed returns a value as one of the fact's kind, nil if it is of another kind or refused.
func (s *Model) typed(f *architectures.Fact, zero bool, key string, v any) any {
	ok := true
	switch f.Kind {
	case architectures.Real:
		return s.real(key, v, 0)
	case architectures.Bound:
		if v != nil && math.IsInf(double(v), -1) {
			return v
		}
		return s.real(key, v, math.Inf(-1))
	case architectures.Flag:
		if _, ok = v.(bool); v != nil && !ok {
			s.refuse("%s is %s, neither true nor false", key, Shown(v))
		}
	case architectures.Text:
		if _, ok = v.(string); v != nil && !ok {
			s.refuse("%s is %s, not a text", key, Shown(v))
		}
	default:
		least, most := int64(1), max(f.Most, mostHeads)
		if f.Most == 0 {
			most = mostSize
		}
		if f.Kind == architectures.Count || f.Kind == architectures.Option && zero {
			least = 0
		}
		n, isWhole := wholeNumber(v)
		if ok = isWhole && n >= least && n <= most; v != nil && !ok {
			s.refuse("%s is %s, not a whole number from %d to %d", key, Shown(v), least, most)
		}
		v, ok = n, ok && (n != 0 || f.Kind == architectures.Count)
	}
	if !ok {
		return nil
	}
	return v
}

// real returns a float32 or float64, which must be finite and more than a bound; nil if it
// is not a float or refused.
func (s *Model) real(key string, v any, above float64) any {
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
		s.refuse("%s is %s, not a finite number with a fraction", key, Shown(v))
		return nil
	case x <= above:
		s.refuse("%s is %s, not more than %v", key, Shown(v), above)
		return nil
	}
	return v
}

// number returns the key of a fact as real does.
func (s *Model) number(fact string, above float64) any {
	v, key := s.keyOf(fact)
	return s.real(key, v, above)
}

// keyOf returns the value of the first key of a fact that the file has, and the key. Without one
// the value is nil, and the key is the first.
func (s *Model) keyOf(fact string) (any, string) {
	return s.keys.find(architectures.FactOf(fact).Keys...)
}

// full returns the key of a fact as the file has it.
func (s *Model) full(fact string) string { return s.keys.full(architectures.FactOf(fact).Keys[0]) }

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
	case int64:
		return float64(f)
	}
	return 0
}
