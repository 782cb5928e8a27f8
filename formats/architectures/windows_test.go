package architectures

import (
	"slices"
	"testing"
)

func TestWindowPeriod(t *testing.T) {
	for _, test := range []struct {
		layers string // W has a window, F full attention
		first  bool
		want   int64
	}{
		{"", false, 1},
		{"F", false, 1},
		{"FFF", false, 1},
		{"WWF", false, 3},
		{"WFWFW", false, 2},
		{"WWW", false, 4},
		{"WFF", false, 0},
		{"FWW", false, 0},
		{"", true, 1},
		{"FFF", true, 1},
		{"FWWF", true, 3},
		{"FWW", true, 4},
		{"FWFWW", true, 0},
		{"WWF", true, 0},
	} {
		var list []bool
		for _, c := range test.layers {
			list = append(list, c == 'W')
		}
		got := WindowPeriod(list, test.first)
		if got != test.want {
			t.Errorf("%q, first %v: %d, want %d", test.layers, test.first, got, test.want)
		}
		if got > 0 && !slices.Equal(Windows(len(list), got, test.first), list) {
			t.Errorf("%q, first %v: the period %d gives other layers", test.layers, test.first, got)
		}
	}
	if list := Windows(3, 0, false); slices.Contains(list, false) {
		t.Errorf("a period of 0 gives %v", list)
	}
}
