package metal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/views"
)

const testdata = "../testdata"

// goldenModels are the models below testdata that are sound, by their paths there.
var goldenModels = sync.OnceValue(func() (list []string) {
	_ = filepath.WalkDir(testdata, func(path string, d fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(d.Name(), "hostile-") {
			return filepath.SkipDir
		}
		if !testmodel.Sampled(path) {
			return nil
		}
		model := slices.Contains([]string{".gguf", ".safetensors"}, filepath.Ext(path)) || strings.Contains(path, "/manifests/")
		if !model && !d.IsDir() || strings.Contains(path, "-of-") && !strings.Contains(path, "-00001-of-") {
			return nil
		}
		if m, err := formats.Open(path); err == nil {
			list = append(list, path)
			m.Close()
		}
		return nil
	})
	return list
})

// golden returns them.
func golden(t testing.TB) []string {
	t.Helper()
	list := goldenModels()
	if len(list) < 50 {
		t.Fatalf("only %d models: %q", len(list), list)
	}
	return list
}

// macLike is a device that is as strict as Metal on Apple silicon, with small
// buffers.
func macLike(t testing.TB) Device {
	t.Helper()
	h, err := NewHost(HostOptions{PageSize: 16384, MaxBufferLength: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// options have a strict device and a cache of the test's own.
func options(t testing.TB) Options {
	t.Helper()
	return Options{Device: macLike(t), CacheDir: filepath.Join(t.TempDir(), "cache")}
}

// load opens a model and closes it when the test ends.
func load(t testing.TB, model string, o Options) *Loader {
	t.Helper()
	l, err := Open(model, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return l
}

// all are the tensors of a loader, of all views or of some.
func all(l *Loader, of ...string) (refs []Ref) {
	for _, v := range l.Views() {
		if of != nil && !slices.Contains(of, v) {
			continue
		}
		for _, n := range l.Names(v) {
			refs = append(refs, Ref{View: v, Name: n})
		}
	}
	return refs
}

// listed are the tensors in a directory's index.json whose files exist.
func listed(t testing.TB, dir string) (refs []Ref) {
	t.Helper()
	var index struct {
		Views map[string]map[string]any `json:"views"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err = errors.Join(err, json.Unmarshal(text, &index)); err != nil {
		t.Fatal(err)
	}
	for view, names := range index.Views {
		for name := range names {
			if _, err := os.Stat(filepath.Join(dir, view, name)); err != nil {
				t.Error(err)
			}
			refs = append(refs, Ref{View: view, Name: name})
		}
	}
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.String(), b.String()) })
	return refs
}

// built are the views of a model, made for comparison.
type built map[Ref]tensorfs.Tensor

func build(t testing.TB, model string, names ...string) built {
	t.Helper()
	m, err := formats.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	if names == nil {
		names = []string{views.Default}
	}
	chosen, err := views.Choose(names)
	if err != nil {
		t.Fatal(err)
	}
	b := built{}
	for _, v := range views.Build(m, views.Options{Views: chosen}) {
		for i := range v.Tensors.Len() {
			x := v.Tensors.At(i)
			b[Ref{View: v.Name, Name: x.Name}] = x
		}
	}
	return b
}

// bytes returns the bytes of a tensor of a view.
func (b built) bytes(t testing.TB, ref Ref) []byte {
	t.Helper()
	x := b[ref]
	p := make([]byte, x.Data.Size())
	if err := tensorfs.ReadFull(x.Data, p, 0); err != nil {
		t.Fatal(ref, err)
	}
	return p
}

// same compares the buffers of a set with the views.
func (b built) same(t testing.TB, set *Set, refs []Ref) {
	t.Helper()
	for _, ref := range refs {
		buffer, ok := set.Buffer(ref)
		if !ok {
			t.Errorf("%s is not in the set", ref)
			continue
		}
		if want := b.bytes(t, ref); !bytes.Equal(buffer.Contents, want) {
			t.Errorf("%s: %d bytes of origin %s are not the view's %d", ref, buffer.Size, buffer.Origin, len(want))
		}
	}
}

// copyModel copies a model's files into a directory of the test's own.
func copyModel(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(from))
	st, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if st.IsDir() {
		err = os.CopyFS(to, os.DirFS(from))
	} else {
		var b []byte
		if b, err = os.ReadFile(from); err == nil {
			err = os.WriteFile(to, b, 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}
