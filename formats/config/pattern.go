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

// windows are the words of layer_types that matter here. A list with any other
// word is about something else (linear attention, convolutions).
var windows = map[string]bool{
	"sliding_attention": true,
	"full_attention":    false,
}

// toPattern returns the number, or the list, or both. skip is set for a list
// that is not about windows.
func toPattern(v any, begins int64) (p any, list []bool, skip, ok bool) {
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
			w, known := windows[e]
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
	switch p := period(list, begins); {
	case p == 1: // no layer has a window
		return int64(0), list, false, true
	case p > 1:
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
		if s := &m.block.Keys[i]; s.Name == "window_layers" && s.Always && m.holds(s.When) {
			if list, _ := m.eval(s.Value).([]any); slices.Contains(list, any(true)) {
				return list
			}
		}
	}
	return nil
}

// repeatPattern expands a field that is a single number to the list of all layers.
func (m *model) repeatPattern(name string) {
	p, _ := m.count(name)
	layers, _ := m.count("n_layers")
	if _, said := m.value(name + perLayer); said || p < 2 || layers < 1 || layers > maxLayers {
		return
	}
	list, begins := make([]bool, layers), m.begins()
	for i := range list {
		list[i] = (int64(i)+begins)%p != 0
	}
	m.set(name+perLayer, list)
}

// begins is 1 where the last layer of a period sees everything, and 0 where the first does.
func (m *model) begins() int64 {
	if architectures.Said(m.arch, "period", "first") {
		return 0
	}
	return 1
}

// period returns p if exactly every p-th entry of list is false, and 0 otherwise. begins is
// the position of that entry in the period, like begins of a model.
func period(list []bool, begins int64) int64 {
	p := slices.Index(list[min(1-begins, int64(len(list))):], false) + 1
	if p == 0 {
		return 0 // no layer sees everything
	}
	for i, window := range list {
		if window == ((int64(i)+begins)%int64(p) == 0) {
			return 0
		}
	}
	return int64(p)
}
