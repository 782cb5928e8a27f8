package metal

import (
	"bytes"
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs/views"
)

// TestFused joins the parts of every tensor of fused/ and fused-f16/ of every golden
// model, and compares the result with the view's.
func TestFused(t *testing.T) {
	sections := map[int]int{}
	for _, model := range golden(t) {
		l, want := load(t, model, options(t)), build(t, model)
		for _, views := range [][2]string{{"fused", "packed"}, {"fused-f16", "f16"}} {
			for _, name := range l.Names(views[0]) {
				names, ok := parts(l, views[1], name)
				if !ok {
					continue
				}
				b, err := l.Fused(views[1], names...)
				if q := want[Ref{View: views[0], Name: name}].Quant; q != nil && q.Mode == "nvfp4" && err != nil {
					continue // whether there is a scale for the whole tensor, only the view knows
				}
				if err != nil {
					t.Errorf("%s: %v", model, err)
					continue
				}
				ref := Ref{View: views[0], Name: name}
				info, err := l.FusedInfo(views[1], names...)
				if err != nil {
					t.Fatal(err)
				}
				inView, err := l.Info(ref.View, ref.Name)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(b.Contents, want.bytes(t, ref)) || b.Origin != OriginMemory {
					t.Errorf("%s: %s of %d bytes is not the view's", model, ref, b.Size)
				}
				if info.DType != inView.DType || info.Data.Size() != b.Size || !slices.Equal(info.Shape, inView.Shape) ||
					len(info.Parts) > 0 && !slices.Equal(info.Parts, inView.Parts) {
					t.Errorf("%s: %s: %+v is not %+v", model, ref, info, inView)
				}
				sections[len(info.Parts)]++
				again, err := l.Fused(views[1], names...)
				if err != nil || &again.Contents[0] != &b.Contents[0] {
					t.Errorf("%s: it is made again, %v", ref, err)
				}
				for range 2 {
					if err := again.Release(); err != nil {
						t.Error(err)
					}
					again = b
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if sections[0] < 20 || sections[1] < 20 || sections[2] < 2 || sections[3] < 5 {
		t.Errorf("sections of joined tensors: %v", sections)
	}
}

// parts are the tensors that a joined tensor consists of, if a view has all of them but not the
// joined one.
func parts(l *Loader, view, name string) ([]string, bool) {
	names, dim := views.JoinedParts(name)
	if dim != 0 || l.Has(view, name) || len(names) < 2 {
		return nil, false
	}
	return names, !slices.ContainsFunc(names, func(n string) bool { return !l.Has(view, n) })
}
