package config

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs/formats/architectures"
)

// A sliding_window_pattern is an integer p: every p-th layer has full attention, the rest
// only a window. Files store it as that number, as a list of bools (true for a window), as
// a list of words (layer_types) or as a word like LLLG. A repeating list becomes p; any
// other list is kept as bools.

// toPattern returns the number, or the list, or both; first is architectures.Windows'. skip is set
// for a list that is not about windows.
func toPattern(v any, first bool) (p any, list []bool, skip, ok bool) {
	if s, isText := v.(string); isText {
		for _, c := range s {
			if c != 'L' && c != 'G' {
				return nil, nil, false, false
			}
		}
		if len(s) == 0 || strings.IndexByte(s, 'G') != len(s)-1 {
			return nil, nil, false, false
		}
		return int64(len(s)), nil, false, true
	}
	n, seq, isList := elements(v)
	if !isList {
		n, ok := toCount(v)
		return n, nil, false, ok
	}
	if n == 0 || n > maxLayers {
		return nil, nil, false, false
	}
	for e := range seq {
		switch e := e.(type) {
		case bool:
			list = append(list, e)
		case string:
			w, known := architectures.IsWindow(e)
			if !known {
				return nil, nil, true, true
			}
			list = append(list, w)
		default:
			c, ok := toCount(e)
			if !ok || c > 1 {
				return nil, nil, false, false
			}
			list = append(list, c == 1)
		}
	}
	switch p := architectures.WindowPeriod(list, first); {
	case p == 1: // no layer has a window
		return int64(0), list, false, true
	case p > 1 && p <= int64(n):
		return p, list, false, true
	}
	return list, list, false, true
}

// describedWindows returns which layers have a window in a config.json that does not list them, by the line of
// the description that computes the key of a GGUF file; nil if it computes none.
func (m *model) describedWindows() []any {
	if _, ok := m.firstValue(nil, keys("layer_types")); ok || m.scopes == nil || m.block == nil {
		return nil
	}
	for i := range m.block.Keys {
		if s := &m.block.Keys[i]; (s.Name == "window_layers" || s.Name == "window_period") && s.Always && m.holds(s.When) {
			if list, _ := m.eval(s.Value).([]any); slices.ContainsFunc(list, isWindow) {
				return list
			}
		}
	}
	return nil
}

// isWindow reports whether an element of such a list marks a layer with a window.
func isWindow(e any) bool {
	n, ok := toCount(e)
	return e == true || ok && n == 1
}

// repeatPattern expands a field that is a single number to the list of all layers.
func (m *model) repeatPattern(name string) {
	p, _ := m.count(name)
	layers, _ := m.count("n_layers")
	if _, said := m.value(name + perLayer); said || p < 2 || layers < 1 || layers > maxLayers {
		return
	}
	m.set(name+perLayer, architectures.Windows(int(layers), p, m.fullFirst()))
}

// fullFirst reports whether the first layer of a period has full attention, not the last.
func (m *model) fullFirst() bool { return architectures.Said(m.arch, "period", "first") }
