package metal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/metal"
	"github.com/tensorfs/tensorfs/views/tree"
)

// fakeTree is a tree of one view whose tensors are converted when they are read, except tensors
// that a file stores unchanged.
type fakeTree struct {
	t       *testing.T
	tensors map[string][]byte
	files   map[string]*fakeFile // of tensors, each with only its own bytes
	fail    func(name string, off int64) error

	mu     sync.Mutex
	read   map[string]bool // tensors
	closed bool
}

// fakeFile is a file on disk.
type fakeFile struct {
	path   string
	size   int64
	origin metal.Origin
}

func (f *fakeFile) Name() string            { return f.path }
func (f *fakeFile) Size() int64             { return f.size }
func (f *fakeFile) Open() (*os.File, error) { return os.Open(f.path) }

// newFakeTree has tensors of the given sizes, called "a", "b" and so on.
func newFakeTree(t *testing.T, sizes ...int) (*fakeTree, []metal.Ref) {
	tree := &fakeTree{t: t, tensors: map[string][]byte{}, files: map[string]*fakeFile{}}
	var refs []metal.Ref
	for i, n := range sizes {
		b := make([]byte, n)
		for k := range b {
			b[k] = byte(k*7 + k>>12 + i)
		}
		name := string(rune('a' + i))
		tree.tensors[name] = b
		refs = append(refs, metal.Ref{View: "f16", Name: name})
	}
	return tree, refs
}

// keep puts a tensor into a file.
func (f *fakeTree) keep(name string, origin metal.Origin) {
	path := filepath.Join(f.t.TempDir(), name)
	if err := os.WriteFile(path, f.tensors[name], 0o644); err != nil {
		f.t.Fatal(err)
	}
	f.files[name] = &fakeFile{path, int64(len(f.tensors[name])), origin}
}

func (f *fakeTree) Tree() *tree.Tree { return nil }

func (f *fakeTree) Model() *tensorfs.Model { return &tensorfs.Model{Path: "/fake"} }
func (f *fakeTree) Views() []string        { return []string{"f16"} }

func (f *fakeTree) Names(view string) []string {
	var names []string
	for name := range f.tensors {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (f *fakeTree) Tensor(ref metal.Ref) (tensorfs.Tensor, error) {
	b, ok := f.tensors[ref.Name]
	if !ok {
		return tensorfs.Tensor{}, fmt.Errorf("%q: %w", ref.Name, metal.ErrAbsent)
	}
	return tensorfs.Tensor{Name: ref.Name, DType: tensorfs.F16, Data: &fakeBytes{bytes.NewReader(b), f, ref.Name}}, nil
}

func (f *fakeTree) Extents(ref metal.Ref, _ *tensorfs.Tensor) []metal.Extent {
	if x := f.files[ref.Name]; x != nil {
		return []metal.Extent{{File: x, Origin: x.origin}}
	}
	return nil
}

func (f *fakeTree) Close() error {
	if f.closed {
		f.t.Error("the tree was closed twice")
	}
	f.closed = true
	return nil
}

// fakeBytes count the tensors that are read.
type fakeBytes struct {
	*bytes.Reader
	tree *fakeTree
	name string
}

func (b *fakeBytes) Size() int64 { return int64(b.Len()) }

func (b *fakeBytes) ReadAt(p []byte, off int64) (int, error) {
	b.tree.mu.Lock()
	if b.tree.read == nil {
		b.tree.read = map[string]bool{}
	}
	b.tree.read[b.name] = true
	b.tree.mu.Unlock()
	if b.tree.fail != nil {
		if err := b.tree.fail(b.name, off); err != nil {
			return 0, err
		}
	}
	return b.Reader.ReadAt(p, off)
}

// preparing is a fakeTree with a cache.
type preparing struct {
	*fakeTree
	calls [][]metal.Ref
}

func (p *preparing) Prepare(ctx context.Context, refs []metal.Ref, workers int, progress func(done, total int64) error) error {
	p.calls = append(p.calls, refs)
	var done, total int64
	for _, ref := range refs {
		total += int64(len(p.tensors[ref.Name]))
	}
	for _, ref := range refs {
		p.keep(ref.Name, metal.OriginCache)
		done += int64(len(p.tensors[ref.Name]))
		if err := progress(done, total); err != nil {
			return err
		}
	}
	return nil
}

// same checks the bytes of a set.
func (f *fakeTree) same(s *metal.Set) {
	f.t.Helper()
	for _, ref := range s.Refs() {
		b, ok := s.Buffer(ref)
		if err := b.View(func(p []byte) error {
			if !ok || !bytes.Equal(p, f.tensors[ref.Name]) {
				return errors.New("wrong bytes")
			}
			return nil
		}); err != nil {
			f.t.Errorf("%s: %v", ref, err)
		}
	}
}

// errorLike reports whether an error's text has all parts.
func errorLike(err error, parts ...string) bool {
	return err != nil && !slices.ContainsFunc(parts, func(s string) bool { return !strings.Contains(err.Error(), s) })
}
