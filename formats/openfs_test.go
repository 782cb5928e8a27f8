package formats_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// storedModels are tiny models of several files, by the name to open.
func storedModels(t *testing.T) map[string]map[string][]byte {
	t.Helper()
	l := testmodel.NewLogical("llama", 0)
	blobs, manifest := testmodel.Ollama("tiny", []testmodel.OllamaLayer{{Kind: "model", Content: l.AsGGUF(tensorfs.Q8_0, false).Bytes()}})
	return map[string]map[string][]byte{
		".":                         testmodel.HF(l.Config(), l.AsSafetensors(tensorfs.BF16), 3, nil),
		"model-00001-of-00002.gguf": l.AsGGUF(tensorfs.Q8_0, false).Shards("model", 2),
		manifest:                    blobs,
	}
}

// objects is an fs.FS as a program may have one of its own, whose files have more
// abilities than an fs.File.
type objects struct {
	fs.FS
	asked   atomic.Int64 // reads with a context
	changed atomic.Bool
}

func (o *objects) Location(name string) string { return "store://bucket/" + name }

func (o *objects) Open(name string) (fs.File, error) {
	f, err := o.FS.Open(name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil || st.IsDir() {
		return f, err
	}
	return &object{f, o, st.Size()}, nil
}

// object is a file that is a tensorfs.Data.
type object struct {
	fs.File
	store *objects
	size  int64
}

func (o *object) Size() int64 { return o.size }
func (o *object) ReadAt(p []byte, off int64) (int, error) {
	return o.File.(io.ReaderAt).ReadAt(p, off)
}
func (o *object) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	o.store.asked.Add(1)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return o.ReadAt(p, off)
}
func (o *object) Check() error {
	if o.store.changed.Load() {
		return tensorfs.ErrChanged
	}
	return nil
}

// zipped returns files as a compressed archive.
func zipped(t *testing.T, files map[string][]byte) fs.FS {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, content := range files {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOpenFS opens models in the file systems that programs have: they are the same
// as on a disk.
func TestOpenFS(t *testing.T) {
	for name, files := range storedModels(t) {
		mapFS := fstest.MapFS{}
		for path, content := range files {
			mapFS[path] = &fstest.MapFile{Data: content}
		}
		dir := t.TempDir()
		if err := testmodel.Write(dir, files); err != nil {
			t.Fatal(err)
		}
		want, err := formats.Open(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer want.Close()
		own := &objects{FS: mapFS}
		for kind, fsys := range map[string]fs.FS{"MapFS": mapFS, "zip": zipped(t, files), "own": own} {
			m, err := formats.OpenFS(fsys, name)
			if err != nil {
				t.Errorf("%s in %s: %v", name, kind, err)
				continue
			}
			if m.Format != want.Format || len(m.Tensors) != len(want.Tensors) || len(m.Sources) != len(want.Sources) || len(m.Tensors) == 0 {
				t.Errorf("%s in %s: %s of %d tensors and %d files", name, kind, m.Format, len(m.Tensors), len(m.Sources))
			}
			for i := range m.Tensors {
				if x, y := &m.Tensors[i], &want.Tensors[i]; x.Name != y.Name || !bytes.Equal(content(t, x.Data), content(t, y.Data)) {
					t.Errorf("%s in %s: %s differs", name, kind, x.Name)
				}
			}
			for _, s := range m.Sources {
				if at, ok := strings.CutPrefix(s.Path, "store://bucket/"); s.Local() || ok != (kind == "own") || files[at] == nil {
					t.Errorf("%s in %s: %s is at %s", name, kind, s.Name, s.Path)
				}
				if b, err := m.File(s.Name); err != nil || b.Size() == 0 {
					t.Errorf("%s in %s: %s: %v", name, kind, s.Name, err)
				}
			}
			if kind == "own" {
				checkAbilities(t, m, own)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// checkAbilities holds that the abilities of a program's own files reach tensors.
func checkAbilities(t *testing.T, m *tensorfs.Model, own *objects) {
	t.Helper()
	before := own.asked.Load()
	ctx, cancel := context.WithCancel(t.Context())
	b := make([]byte, 1)
	if err := tensorfs.ReadFullContext(ctx, m.Tensors[0].Data, b, 0); err != nil || own.asked.Load() == before {
		t.Errorf("a read with a context does not reach the file, %v", err)
	}
	cancel()
	if err := tensorfs.ReadFullContext(ctx, m.Tensors[0].Data, b, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a read that nobody waits for: %v", err)
	}
	own.changed.Store(true)
	if err := m.Check(); !errors.Is(err, tensorfs.ErrChanged) {
		t.Errorf("a file that changed: %v", err)
	}
	own.changed.Store(false)
}

// fails is an fs.FS whose files cannot be read.
type fails struct{ fs.FS }

func (f fails) Open(name string) (fs.File, error) {
	x, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return broken{x}, nil
}

type broken struct{ fs.File }

func (broken) Read([]byte) (int, error) { return 0, errors.New("the store is gone") }

// huge is an fs.FS whose files say that they are huge.
type huge struct{ fs.FS }

func (h huge) Open(name string) (fs.File, error) {
	f, err := h.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return hugeFile{f}, nil
}

type hugeFile struct{ fs.File }

func (f hugeFile) Stat() (fs.FileInfo, error) {
	st, err := f.File.Stat()
	return hugeInfo{st}, err
}

type hugeInfo struct{ fs.FileInfo }

func (hugeInfo) Size() int64 { return 1 << 40 }

// TestOpenFSErrors opens what is no model, or cannot be read.
func TestOpenFSErrors(t *testing.T) {
	files := fstest.MapFS{"dir/README": &fstest.MapFile{Data: []byte("text")}, "bad.gguf": &fstest.MapFile{Data: []byte("GGUF")}}
	for _, x := range []struct {
		fsys fs.FS
		name string
		want string
		kind error
	}{
		{files, "none.gguf", "none.gguf: no such file or directory", fs.ErrNotExist},
		{files, "../none.gguf", "../none.gguf: no such file or directory", fs.ErrNotExist},
		{zipped(t, nil), "\xff", `"\xff": no such file or directory`, fs.ErrNotExist},
		{files, "dir", "dir: it is a directory, not a regular file", nil},
		{files, "dir/README", "dir/README: looked for GGUF", tensorfs.ErrUnsupported},
		{files, ".", "bad.gguf: ", tensorfs.ErrFormat},
		{fails{files}, "bad.gguf", "bad.gguf: it cannot be opened: the store is gone", nil},
		{huge{files}, "bad.gguf", "bad.gguf: it can only be read from the front, and more than 1073741824 bytes are not kept in memory; give it a method ReadAt", tensorfs.ErrUnsupported},
	} {
		m, err := formats.OpenFS(x.fsys, x.name)
		if err == nil {
			m.Close()
			t.Errorf("%s was opened", x.name)
		} else if !strings.HasPrefix(err.Error(), x.want) || strings.Contains(err.Error(), "\n") || x.kind != nil && !errors.Is(err, x.kind) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}

// TestParseBytes parses files in memory.
func TestParseBytes(t *testing.T) {
	g, err := gguf.Parse(bytes.NewReader(ggufFile))
	if err != nil || len(g.Tensors) == 0 {
		t.Errorf("%+v, %v", g, err)
	}
	s, err := safetensors.Parse(tensorfs.Bytes(tensorFile))
	if err != nil || len(s.Tensors) == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := gguf.Parse(tensorfs.Bytes("GGUF")); err == nil || !strings.HasPrefix(err.Error(), "model.gguf: ") {
		t.Error(err)
	}
}
