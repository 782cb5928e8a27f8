package config

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// FloatType returns the type in which a config.json wants its model to be computed, such as
// "bfloat16", "" without one. The whole model's counts before the language model's.
func FloatType(get Lookup) string {
	all := scopes(get)
	for _, scope := range slices.Backward(all) {
		for _, name := range architectures.FloatTypes {
			if v, ok := get(scope + name); ok && v != nil {
				text, _ := v.(string)
				return strings.TrimPrefix(text, "torch.")
			}
		}
	}
	return ""
}

// scopes returns where to look for a field of the language model: in its object
// in a multimodal config.json, then at the top.
func scopes(get Lookup) []string {
	for _, object := range architectures.TextConfigs {
		if v, ok := get(object); ok && v != nil {
			return []string{object + ".", ""}
		}
	}
	return []string{""}
}

// Count returns the product of the counts under these keys that a config.json has
// for its language model; false if one is missing or the product is not a count.
func Count(get Lookup, keys ...string) (int64, bool) {
	m := &model{get: get, scopes: scopes(get)}
	n := int64(1)
	for _, key := range keys {
		v, ok := m.firstValue(nil, []string{key})
		c, isCount := toCount(v)
		product, fits := multiply(n, c, ok && isCount)
		if !fits {
			return 0, false
		}
		n = product.(int64)
	}
	return n, true
}

// firstValue returns the value of the first key that is present.
func (m *model) firstValue(gguf, hf []string) (any, bool) {
	if m.scopes == nil {
		for _, k := range gguf {
			if v, ok := m.get(m.arch + "." + k); ok {
				return v, true
			}
			if v, ok := m.get(k); ok {
				return v, true
			}
		}
		for _, k := range hf { // a few BitNet files have these keys, without a prefix
			if v, ok := m.get(k); ok {
				return v, true
			}
		}
		return nil, false
	}
	for path, i := range architectures.FieldPaths(hf, m.rope, m.scopes...) {
		if v, ok := m.at(path); ok && !slices.Contains(m.void, hf[i]) {
			return v, true
		}
	}
	return nil, false
}

// at returns the value of a path in config.json, false if it is missing or null.
func (m *model) at(path string) (any, bool) {
	if v, ok := m.lists[path]; ok {
		return v, true
	}
	v, ok := m.get(path)
	if !ok || v == nil {
		return nil, false
	}
	if _, isList := v.([]any); isList && m.lists != nil {
		m.lists[path] = v
	}
	return v, true
}

// isSet reports whether a path has a value, other than null and an empty object.
func (m *model) isSet(path string) bool {
	v, ok := m.at(path)
	object, isObject := v.(tensorfs.JSON)
	return ok && (!isObject || strings.Trim(string(object), "{} \t\r\n") != "")
}
