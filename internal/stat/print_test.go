package stat

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
)

// TestFactor names the tensor that multiplies the numbers.
func TestFactor(t *testing.T) {
	m := &tensorfs.Model{Tensors: []tensorfs.Tensor{{Name: "a.weight", Source: "a", DType: tensorfs.F32, Shape: []int64{2}, Data: make(tensorfs.Bytes, 8), Factor: "a.scale"}}}
	rows, one, err := Select(m, "model", "a.weight")
	if err == nil {
		_, err = Measure(t.Context(), &bytes.Buffer{}, rows, one, views.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	var screen bytes.Buffer
	if err := rows[0].Print(&screen); err != nil || !strings.Contains(screen.String(), "\nfactor    a.scale, by which ") {
		t.Errorf("%v\n%s", err, &screen)
	}
	if text, err := json.Marshal(rows[0].JSON()); err != nil || !strings.Contains(string(text), `"factor":"a.scale"`) {
		t.Errorf("%v\n%s", err, text)
	}
}

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
