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

	"github.com/tensorfs/tensorfs/metal"
)

// fakeTree is a tree of one view whose tensors are converted when they are read,
// but for those that a file holds.
type fakeTree struct {
	t       *testing.T
	tensors map[string][]byte
	files   map[string]*fakeFile // of tensors, each with its bytes alone
	fail    func(name string, off int64) error

	mu                   sync.Mutex
	opened, open, mostly int // tensors: in all, now, most at a time
	closed               bool
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

func (f *fakeTree) Model() metal.ModelInfo { return metal.ModelInfo{Path: "/fake"} }
func (f *fakeTree) Views() []string        { return []string{"f16"} }

func (f *fakeTree) Names(view string) []string {
	var names []string
	for name := range f.tensors {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (f *fakeTree) Info(view, name string) (metal.TensorInfo, error) {
	b, ok := f.tensors[name]
	if !ok {
		return metal.TensorInfo{}, fmt.Errorf("%q: %w", name, metal.ErrAbsent)
	}
	return metal.TensorInfo{Ref: metal.Ref{View: view, Name: name}, DType: "F16", Bytes: int64(len(b))}, nil
}

func (f *fakeTree) Extents(view, name string) ([]metal.Extent, error) {
	if x := f.files[name]; x != nil {
		return []metal.Extent{{File: x, Bytes: x.size, Origin: x.origin}}, nil
	}
	return nil, nil
}

func (f *fakeTree) Open(view, name string) (metal.Bytes, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	f.open++
	f.mostly = max(f.mostly, f.open)
	return &fakeBytes{Reader: bytes.NewReader(f.tensors[name]), tree: f, name: name}, nil
}

func (f *fakeTree) Config() ([]byte, error)            { return nil, nil }
func (f *fakeTree) Metadata(string) (any, bool, error) { return nil, false, nil }

func (f *fakeTree) Close() error {
	if f.closed {
		f.t.Error("the tree was closed twice")
	}
	f.closed = true
	return nil
}

// fakeBytes must be closed once.
type fakeBytes struct {
	*bytes.Reader
	tree *fakeTree
	name string
	once sync.Once
}

func (b *fakeBytes) Size() int64 { return int64(b.Len()) }

func (b *fakeBytes) ReadAt(p []byte, off int64) (int, error) {
	if b.tree.fail != nil {
		if err := b.tree.fail(b.name, off); err != nil {
			return 0, err
		}
	}
	return b.Reader.ReadAt(p, off)
}

func (b *fakeBytes) Close() error {
	err := errors.New("bytes were closed twice")
	b.once.Do(func() {
		b.tree.mu.Lock()
		defer b.tree.mu.Unlock()
		b.tree.open--
		err = nil
	})
	return err
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

var (
	_ metal.Tree     = (*fakeTree)(nil)
	_ metal.Preparer = (*preparing)(nil)
)

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
	if f.open != 0 {
		f.t.Errorf("%d tensors are left open", f.open)
	}
}

// errorLike reports whether an error's text has all parts.
func errorLike(err error, parts ...string) bool {
	return err != nil && !slices.ContainsFunc(parts, func(s string) bool { return !strings.Contains(err.Error(), s) })
}
