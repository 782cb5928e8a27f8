// Package testremote holds models on servers to the same models on this machine,
// for the tests of protocols.
package testremote

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/web"
	"github.com/tensorfs/tensorfs/views"
)

// Model is a model as files.
type Model struct {
	Name  string
	Files map[string][]byte
	Open  string // which of them it is, "." for all
}

// Models returns a model of each shape that servers have: a file, a split one, a
// directory with an index and shards, one of MLX. testdata is the module's.
func Models(t testing.TB, testdata string) []Model {
	read := func(names ...string) map[string][]byte {
		files := map[string][]byte{}
		for _, n := range names {
			b, err := os.ReadFile(filepath.Join(testdata, "gguf", n))
			if err != nil {
				t.Fatal(err)
			}
			files[n] = b
		}
		return files
	}
	llama, qwen := testmodel.NewLogical("llama", 0), testmodel.NewLogical("qwen2", 0.25)
	quantised := testmodel.With(qwen.Config(), "quantization", map[string]any{"group_size": 32, "bits": 4})
	return []Model{
		{"gguf", read("llama-xs.q4_k_m.gguf"), "llama-xs.q4_k_m.gguf"},
		{"split", read("llama-xs.q8_0-00001-of-00003.gguf", "llama-xs.q8_0-00002-of-00003.gguf", "llama-xs.q8_0-00003-of-00003.gguf"), "llama-xs.q8_0-00001-of-00003.gguf"},
		{"shards", testmodel.HF(llama.Config(), llama.AsSafetensors(tensorfs.BF16), 3, nil), "."},
		{"mlx", testmodel.HF(quantised, qwen.AsMLX(4, 32, tensorfs.F16), 1, [][2]string{{"format", "mlx"}}), "."},
	}
}

// Local opens the model from files of this machine.
func (m Model) Local(t testing.TB) *tensorfs.Model {
	t.Helper()
	dir := t.TempDir()
	if err := testmodel.Write(dir, m.Files); err != nil {
		t.Fatal(err)
	}
	near, err := formats.Open(filepath.Join(dir, m.Open))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	return near
}

// Same opens a file of a listing and compares the model with another: its facts, its
// tensors, and every byte of every view. What is compared is closed.
func Same(t testing.TB, l *remote.Listing, file string, near *tensorfs.Model) {
	t.Helper()
	far, err := formats.OpenFS(l, file)
	if err != nil {
		t.Error(err)
		return
	}
	defer far.Close()
	if far.Format != near.Format || far.Architecture != near.Architecture || far.Layout != near.Layout || len(far.Tensors) != len(near.Tensors) || !reflect.DeepEqual(far.Config, near.Config) {
		t.Errorf("%s %s with %d tensors, want %s %s with %d", far.Format, far.Architecture, len(far.Tensors), near.Format, near.Architecture, len(near.Tensors))
		return
	}
	b := views.Build(near, views.Options{})
	for i, a := range views.Build(far, views.Options{}) {
		if a.Name != b[i].Name || a.Tensors.Len() != b[i].Tensors.Len() {
			t.Errorf("%s/ has %d tensors, want %d", a.Name, a.Tensors.Len(), b[i].Tensors.Len())
			return
		}
		for j := range a.Tensors.Len() {
			x, y := a.Tensors.At(j), b[i].Tensors.At(j)
			got, want := content(t, x.Data), content(t, y.Data)
			if x.Name != y.Name || !bytes.Equal(got, want) {
				t.Errorf("%s/%s differs", a.Name, y.Name)
			}
			if len(tensorfs.Extents(x.Data)) != len(tensorfs.Extents(y.Data)) {
				t.Errorf("%s/%s has other extents", a.Name, y.Name)
			}
		}
	}
}

func content(t testing.TB, d tensorfs.Data) []byte {
	t.Helper()
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Error(err)
	}
	return b
}

// Client is a client that calls no address public.
func Client(t testing.TB, timeout time.Duration) *web.Client {
	c := web.NewClient(web.Options{Timeout: timeout, Public: func(netip.Addr) bool { return false }})
	t.Cleanup(func() { c.Close() })
	return c
}

// NoSecrets looks for texts in everything below a directory, and in more texts.
func NoSecrets(t testing.TB, dir string, secrets, more []string) {
	t.Helper()
	files := 0
	look := func(where, text string) {
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s has %q", where, s)
			}
		}
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		look("the name of "+path, path)
		if d.IsDir() {
			return nil
		}
		files++
		b, err := os.ReadFile(path)
		look(path, string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Errorf("there is nothing in %s", dir)
	}
	for _, text := range more {
		look("a text", text)
	}
}
