package tree

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/parallel"
	"github.com/tensorfs/tensorfs/views"
)

// Warming is what has to be brought in so that a view can be read without waiting
// for a disk or a server.
type Warming struct {
	Bytes int64 // stored ones

	tensors []*tensorfs.Tensor // in the order of the files
}

// WarmAll names all views together.
const WarmAll = "all"

// Warming returns the inputs of a view's tensors: with WarmAll, and for the views of
// groups, all tensors.
func (t *Tree) Warming(view string) (*Warming, error) {
	var shown views.Tensors
	if view != WarmAll {
		i := slices.IndexFunc(t.Views, func(b views.Built) bool { return b.Name == view })
		if i < 0 {
			return nil, fmt.Errorf("%q is not a view of this mount", view)
		}
		if !strings.HasPrefix(view, "fused") {
			shown = t.Views[i].Tensors
		}
	}
	w := &Warming{}
	for i := range t.Model.Tensors {
		x := &t.Model.Tensors[i]
		if shown != nil && !shows(shown, x) {
			continue
		}
		x = x.Stored() // adapters add to that
		w.tensors = append(w.tensors, x)
		w.Bytes += x.Data.Size()
	}
	slices.SortStableFunc(w.tensors, func(a, b *tensorfs.Tensor) int {
		x, y := place(a), place(b)
		return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Offset, y.Offset))
	})
	return w, nil
}

// shows reports whether a view needs a tensor: the tensor, or its module, is in the view,
// separately or in a group.
func shows(shown views.Tensors, x *tensorfs.Tensor) bool {
	for _, name := range []string{x.Name, x.Weight(), x.Owner} {
		for _, suffix := range []string{"", ".npy"} {
			if _, ok := views.Find(shown, name+suffix); ok && name != "" {
				return true
			}
		}
	}
	return false
}

// place is where a tensor begins.
func place(t *tensorfs.Tensor) tensorfs.Extent {
	if e := tensorfs.Extents(t.Data); len(e) > 0 {
		return e[0]
	}
	return tensorfs.Extent{}
}

const (
	warmPiece   = 8 << 20
	warmFlights = 4
)

// Run brings everything in, several pieces at a time, in the order of the files.
// came is told how many bytes came. It stops at the first error, or when ctx ends.
func (w *Warming) Run(ctx context.Context, came func(n int64)) error {
	type piece struct {
		d      tensorfs.Data
		off, n int64
	}
	var pieces []piece
	for _, t := range w.tensors {
		for off := int64(0); off < t.Data.Size(); off += warmPiece {
			pieces = append(pieces, piece{t.Data, off, min(warmPiece, t.Data.Size()-off)})
		}
	}
	var done atomic.Int64
	err := parallel.Each(ctx, warmFlights, len(pieces), func(ctx context.Context, i int) error {
		p := pieces[i]
		err := tensorfs.Fetch(ctx, p.d, p.off, p.n)
		if err == nil {
			done.Add(p.n)
			came(p.n)
		}
		return err
	})
	if done.Load() == w.Bytes { // ctx ended afterwards
		return nil
	}
	return err
}
