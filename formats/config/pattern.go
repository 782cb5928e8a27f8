package config

import "strings"

// A sliding_window_pattern is an integer p: every p-th layer sees everything, the
// others only a window. Files have it as that number, as a list of bools (true
// for a window), as a list of words (layer_types) or as a word like LLLG. A
// repeating list becomes p; any other list is kept as bools.

// windows are the words of layer_types that matter here. A list with any other
// word is about something else (linear attention, convolutions).
var windows = map[string]bool{
	"sliding_attention": true,
	"chunked_attention": true,
	"full_attention":    false,
}

// toPattern returns the number, or the list, or both. skip is set for a list
// that is not about windows.
func toPattern(v any) (p any, list []bool, skip, ok bool) {
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
	if p := period(list); p > 0 {
		return p, list, false, true
	}
	return list, list, false, true
}

// period returns p if exactly every p-th entry of list is false, and 0 otherwise.
func period(list []bool) int64 {
	p := 0
	for p < len(list) && list[p] {
		p++
	}
	p++
	if p > len(list) {
		return 0 // no layer sees everything
	}
	for i, window := range list {
		if window == ((i+1)%p == 0) {
			return 0
		}
	}
	return int64(p)
}
