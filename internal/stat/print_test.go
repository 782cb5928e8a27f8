package stat

import "testing"

func TestChart(t *testing.T) {
	got := chart([]int64{0, 1, 500, 1000}, unicodeBars)
	for i, want := range []string{"   █", "   █", "   █", "   █", "  ██", "  ██", "  ██", " ▁██"} {
		if got[i] != want {
			t.Errorf("line %d: %q, want %q", i, got[i], want)
		}
	}
	if got := chart([]int64{0, 0}, asciiBars); got[chartLines-1] != "  " {
		t.Errorf("%q", got)
	}
}
