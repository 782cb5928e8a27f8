package layout

import (
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// TestNormsOfHeads holds that each head keeps its own norm, whose numbers follow the rows of q.
func TestNormsOfHeads(t *testing.T) {
	facts := func(name string) any {
		return map[string]any{"n_heads": int64(2), "head_dim": int64(4)}[name]
	}
	w := &Walk{Sizes: architectures.Find("chameleon").Sizes(architectures.ToGGUF, facts)}
	p := &part{module: &module{Tensor: &architectures.Tensor{Shape: []string{"heads", "head"}}}}
	stored := []byte("a.b.c.d.e.f.g.h.")
	x := &tensorfs.Tensor{DType: tensorfs.F16, Shape: []int64{2, 4}, Data: tensorfs.Bytes(stored)}
	for _, step := range []struct {
		move func(*Walk, *part, *tensorfs.Tensor) (*tensorfs.Tensor, error)
		want string
	}{{permuteColumns, "a.c.b.d.e.g.f.h."}, {unpermuteColumns, string(stored)}} {
		var err error
		if x, err = step.move(w, p, x); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(stored))
		if err := tensorfs.ReadFull(x.Data, got, 0); err != nil || string(got) != step.want || !slices.Equal(x.Shape, []int64{2, 4}) {
			t.Errorf("%q of shape %v, %v; want %q", got, x.Shape, err, step.want)
		}
	}
	if _, err := permuteColumns(w, p, &tensorfs.Tensor{DType: tensorfs.F16, Shape: []int64{1, 4}, Data: tensorfs.Bytes(stored[:8])}); err == nil {
		t.Error("there is no error about one norm for two heads")
	}
	unread := &tensorfs.Tensor{DType: tensorfs.U8, Shape: []int64{2, 4}, Data: tensorfs.Bytes(stored[:8]), Quant: &tensorfs.Quant{Mode: "unknown"}}
	if _, err := permuteColumns(w, p, unread); err == nil {
		t.Error("there is no error about norms that are not decoded")
	}
}
