package metal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/metal/internal/testtree"
)

// bigTree has a model file of several chunks and a converted tensor of two, one of
// exactly one and one of none.
func bigTree() (*testtree.Tree, []Ref, int64) {
	model := make([]byte, 3*prefetchChunk+12345)
	for i := range model {
		model[i] = byte(i >> 12)
	}
	tree := &testtree.Tree{
		Sources: map[string][]byte{"m": model},
		Tensors: []testtree.Tensor{
			{View: "raw", Name: "a", DType: "U8", Shape: []int64{100}, Extents: []testtree.Extent{{File: "m", Offset: 64, Bytes: 100}}},
			{View: "raw", Name: "b", DType: "U8", Shape: []int64{2*prefetchChunk + 5}, Extents: []testtree.Extent{{File: "m", Offset: 4096, Bytes: 2*prefetchChunk + 5}}},
			{View: "packed", Name: "b", DType: "U8", Shape: []int64{2*prefetchChunk + 5}, Extents: []testtree.Extent{{File: "m", Offset: 4096, Bytes: 2*prefetchChunk + 5}}},
			{View: "f16", Name: "b", DType: "U8", Shape: []int64{prefetchChunk + 1}, Data: model[1 : prefetchChunk+2]},
			{View: "f16", Name: "whole", DType: "U8", Shape: []int64{prefetchChunk}, Data: model[:prefetchChunk]},
			{View: "f16", Name: "none", DType: "F16", Shape: []int64{0}, Data: []byte{}},
		},
	}
	refs := []Ref{{"raw", "a"}, {"raw", "b"}, {"packed", "b"}, {"f16", "b"}, {"f16", "none"}, {"f16", "whole"}, {"raw", "a"}}
	return tree, refs, 100 + 2*prefetchChunk + 5 + prefetchChunk + 1 + prefetchChunk
}

func TestPrefetch(t *testing.T) {
	tree, refs, want := bigTree()
	l, _, _ := openTree(t, tree, Options{})
	last, calls := int64(0), 0
	err := l.Prefetch(t.Context(), refs, func(done, total int64) {
		if done <= last || done > total || total != want {
			t.Errorf("progress %d of %d after %d; the total should be %d", done, total, last, want)
		}
		last = done
		calls++
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != want || calls != 1+3+2+1 {
		t.Errorf("progress ended at %d of %d after %d calls", last, want, calls)
	}
	if err := l.Prefetch(t.Context(), refs, nil); err != nil {
		t.Error(err)
	}
	if err := l.Prefetch(t.Context(), nil, func(int64, int64) { t.Error("progress of nothing") }); err != nil {
		t.Error(err)
	}
}

func TestPrefetchErrors(t *testing.T) {
	tree, refs, _ := bigTree()
	l, mount, _ := openTree(t, tree, Options{MountedOnly: true})
	if err := l.Prefetch(t.Context(), []Ref{{"raw", "nothing"}}, nil); !errors.Is(err, ErrAbsent) {
		t.Errorf("a tensor that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := l.Prefetch(ctx, refs, func(done, total int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	// A file that is cut while it is mapped.
	b := get(t, l, "f16", "b")
	if err := os.Truncate(filepath.Join(mount, "f16/b"), 4096); err != nil {
		t.Fatal(err)
	}
	err = l.Prefetch(t.Context(), []Ref{{"raw", "a"}, {"f16", "b"}}, nil)
	if err == nil || !strings.Contains(err.Error(), "f16/b") {
		t.Errorf("a cut file: %v", err)
	}
	if b.Size != prefetchChunk+1 {
		t.Error("the buffer changed")
	}
}

func TestReadThrough(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(3 << 20); err != nil {
		t.Fatal(err)
	}
	scratch := make([]byte, prefetchRead)
	for _, c := range []struct {
		off, n int64
		ok     bool
	}{{0, 3 << 20, true}, {1, 3<<20 - 1, true}, {3 << 20, 0, true}, {1, 3 << 20, false}, {4 << 20, 1, false}} {
		if err := readThrough(f, c.off, c.n, scratch); (err == nil) != c.ok {
			t.Errorf("%d bytes at %d: %v", c.n, c.off, err)
		}
	}
}
