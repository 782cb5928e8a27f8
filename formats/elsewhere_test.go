package formats_test

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/views"
)

// candidate is something below testdata that may be a model.
type candidate struct {
	dir  string // that holds all of it
	name string // in dir
}

// candidates finds all files of weights, directories and manifests.
func candidates(t *testing.T) (all []candidate) {
	t.Helper()
	err := filepath.WalkDir(testdata, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !testmodel.Sampled(path) {
			return err
		}
		dir, name := filepath.Split(path)
		switch rel, isManifest := strings.CutPrefix(dir, filepath.Join(testdata, "ollama", "models")+"/"); {
		case isManifest && strings.HasPrefix(rel, "manifests/") && !d.IsDir():
			all = append(all, candidate{filepath.Join(testdata, "ollama", "models"), rel + name})
		case name == "config.json" || name == "model.safetensors.index.json":
			all = append(all, candidate{filepath.Clean(dir), "."})
		case d.IsDir():
		case strings.HasSuffix(name, ".gguf") || strings.HasSuffix(name, ".safetensors"):
			all = append(all, candidate{filepath.Clean(dir), name})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestElsewhere opens every model of testdata, sound or not, from an FS whose
// files can be read and nothing else, as files on a server: it is the model, or
// the refusal, that the path gives, and every view reads the same bytes.
func TestElsewhere(t *testing.T) {
	loaded := map[string]map[string][]byte{}
	opened, refused := 0, 0
	for _, c := range candidates(t) {
		t.Run(strings.TrimPrefix(filepath.Join(c.dir, c.name), testdata+"/"), func(t *testing.T) {
			if loaded[c.dir] == nil {
				m, err := memory.Load(c.dir)
				if err != nil {
					t.Fatal(err)
				}
				loaded[c.dir] = m.Files
			}
			src := memory.New(loaded[c.dir])
			far, err := formats.OpenFS(src, c.name)
			near, nerr := formats.Open(filepath.Join(c.dir, c.name))
			abs, _ := filepath.Abs(c.dir)
			if err != nil || nerr != nil {
				refused++
				if err == nil || nerr == nil || err.Error() != strings.ReplaceAll(nerr.Error(), abs, "/memory") {
					t.Errorf("error %v, and of the path %v", err, nerr)
				}
				if o, c := src.Opens.Load(), src.Closes.Load(); o != c {
					t.Errorf("%d files opened and %d closed", o, c)
				}
				return
			}
			opened++
			defer near.Close()
			read := src.Bytes.Load()
			if header := headers(t, far, src); !strings.Contains(c.dir, "hostile") && read > 2*header {
				t.Errorf("opening reads %d bytes, and the headers have %d", read, header)
			}
			for name, n := range src.Opened {
				// Two layers may have one blob.
				if layers := strings.Count(string(src.Files[c.name]), strings.TrimPrefix(name, "blobs/sha256-")); n > max(layers, 1) {
					t.Errorf("%s is opened %d times", name, n)
				}
			}
			sameModels(t, far, near, strings.NewReplacer(abs, "/memory"))
			if err := far.Close(); err != nil {
				t.Error(err)
			}
			if o, c := src.Opens.Load(), src.Closes.Load(); o != c {
				t.Errorf("%d files opened and %d closed", o, c)
			}
		})
	}
	if opened < 70 || refused < 150 {
		t.Errorf("%d models opened and %d refused", opened, refused)
	}
}

// headers returns the bytes of the opened files that are not data of tensors.
func headers(t *testing.T, m *tensorfs.Model, src *memory.FS) (total int64) {
	t.Helper()
	first := map[string]int64{} // by label, where the data starts
	for i := range m.Tensors {
		for _, e := range tensorfs.Extents(m.Tensors[i].Data) {
			if at, ok := first[e.File]; !ok || e.Offset < at {
				first[e.File] = e.Offset
			}
		}
	}
	labels := map[string]string{}
	for _, s := range m.Sources {
		labels[strings.TrimPrefix(s.Path, "/memory/")] = s.Name
	}
	for name := range src.Opened {
		b := src.Files[name]
		if at, ok := first[labels[name]]; ok && bytes.HasPrefix(b, []byte("GGUF")) {
			total += at
		} else if ok {
			total += 8 + int64(binary.LittleEndian.Uint64(b))
		} else {
			total += int64(len(b))
		}
	}
	return total
}

// sameModels compares a model on a server with the same model at a path. there turns a path into
// the address on the server.
func sameModels(t *testing.T, far, near *tensorfs.Model, there *strings.Replacer) {
	t.Helper()
	if len(far.Tensors) != len(near.Tensors) || far.Format != near.Format || far.Architecture != near.Architecture || far.Layout != near.Layout ||
		!reflect.DeepEqual(far.Config, near.Config) || far.Path != there.Replace(near.Path) {
		t.Fatalf("%+v, want %+v", far, near)
	}
	for i, w := range near.Warnings {
		if far.Warnings[i] != there.Replace(w) {
			t.Errorf("warning %q, want %q", far.Warnings[i], w)
		}
	}
	for i := range near.Sources {
		if f, n := far.Sources[i], near.Sources[i]; f.Name != n.Name || f.Path != there.Replace(n.Path) {
			t.Errorf("source %v, want %v", f, n)
		}
	}
	for i := range near.Metadata {
		if f, n := far.Metadata[i], near.Metadata[i]; f.Key != n.Key || !bytes.Equal(f.AppendJSON(nil), n.AppendJSON(nil)) {
			t.Errorf("metadata %q differs", n.Key)
		}
	}
	b := views.Build(near, views.Options{})
	for i, a := range views.Build(far, views.Options{}) {
		if a.Tensors.Len() != b[i].Tensors.Len() || a.Name != b[i].Name || a.Absent.Len() != b[i].Absent.Len() {
			t.Fatalf("%s/ has %d tensors, want %d", a.Name, a.Tensors.Len(), b[i].Tensors.Len())
		}
		for j := range a.Tensors.Len() {
			x, y := a.Tensors.At(j), b[i].Tensors.At(j)
			if x.Name != y.Name || !reflect.DeepEqual(tensorfs.Extents(x.Data), tensorfs.Extents(y.Data)) || !bytes.Equal(content(t, x.Data), content(t, y.Data)) {
				t.Errorf("%s/%s differs", a.Name, y.Name)
			}
			if _, ok := x.Data.(tensorfs.Slicer); ok && a.Name == "raw" {
				t.Errorf("%s/%s says that it is mapped", a.Name, y.Name)
			}
		}
	}
}

// TestElsewhereChanges holds that a file which changed elsewhere is an error of
// its readers.
func TestElsewhereChanges(t *testing.T) {
	src := memory.New(map[string][]byte{"m.gguf": ggufFile})
	m, err := formats.OpenFS(src, "m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	src.Changed.Store(true)
	for _, b := range views.Build(m, views.Options{}) {
		for i := range b.Tensors.Len() {
			x := b.Tensors.At(i)
			last := x.Data.Size() - 1 // npy begins with a page that is not the file's
			if err := tensorfs.ReadFull(x.Data, make([]byte, 1), last); err == nil || !strings.Contains(err.Error(), "changed") {
				t.Errorf("%s/%s: %v", b.Name, x.Name, err)
			}
		}
	}
}
