// Package testwhole opens the golden models of testdata, and reads their conversions, for
// tests of whole models in all directions.
package testwhole

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testclient"
	_ "github.com/tensorfs/tensorfs/internal/testing/testpack" // makes the weights of testdata
)

// Data is testdata, from the directory of a package at any depth.
func Data(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "testdata")
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	tb.Fatalf("no go.mod above, %v", err)
	return ""
}

// Open opens a model until the test ends.
func Open(tb testing.TB, path string) *tensorfs.Model {
	tb.Helper()
	m, err := formats.Open(path)
	return opened(tb, m, err)
}

// OpenGGUF opens a GGUF file that is in memory.
func OpenGGUF(tb testing.TB, b []byte) *tensorfs.Model {
	tb.Helper()
	m, err := formats.OpenFS(memory.New(map[string][]byte{"m.gguf": b}), "m.gguf")
	return opened(tb, m, err)
}

func opened(tb testing.TB, m *tensorfs.Model, err error) *tensorfs.Model {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { m.Close() })
	return m
}

// MLX returns the directory of a model in MLX's form: of testdata/models-mlx, or one of
// testdata/whole-hf/models that is packed.
func MLX(tb testing.TB, name string) string {
	tb.Helper()
	dir := filepath.Join(Data(tb), "models-mlx", name)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	return testclient.UnpackDir(tb, filepath.Join(Data(tb), "whole-hf", "models", "mlx-"+name))
}

// Golden opens the model of a name in testdata/whole-hf/models, which may be one of
// another directory.
func Golden(tb testing.TB, name string) *tensorfs.Model {
	tb.Helper()
	data := Data(tb)
	pair := strings.TrimPrefix(name, "pair-")
	for _, path := range []string{
		filepath.Join(data, "gguf", name+".gguf"), filepath.Join(data, "gguf", strings.TrimSuffix(name, ".split")+"-00001-of-00003.gguf"),
		filepath.Join(data, "pairs", pair, "gguf", pair+".gguf"),
	} {
		if _, err := os.Stat(path); err == nil {
			return Open(tb, path)
		}
	}
	if mlx, ok := strings.CutPrefix(name, "mlx-"); ok {
		return Open(tb, MLX(tb, mlx))
	}
	from := filepath.Join(data, "whole-hf", "models", name)
	if _, err := os.Stat(from); err == nil {
		return Open(tb, testclient.UnpackDir(tb, from))
	}
	file := filepath.Join(tb.TempDir(), name+".gguf")
	if err := os.WriteFile(file, testclient.Unpack(tb, from+".gguf.gz"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return Open(tb, file)
}

// Read reads all of what is made.
func Read(tb testing.TB, d tensorfs.Data) []byte {
	tb.Helper()
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		tb.Error(err)
	}
	return b
}

// Sum is the hash of it, as tables have it.
func Sum(tb testing.TB, d tensorfs.Data) string {
	tb.Helper()
	sum := sha256.Sum256(Read(tb, d))
	return hex.EncodeToString(sum[:])
}

// Table reads the rows of a table without the first, which names the columns.
func Table(tb testing.TB, file string) (rows [][]string) {
	tb.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
		rows = append(rows, strings.Split(line, "\t"))
	}
	return rows
}

// Same compares what is made with a table, by the first columns.
func Same(tb testing.TB, got, want map[string]string) {
	tb.Helper()
	for name, w := range want {
		if got[name] != w {
			tb.Errorf("%s is %s, want %s", name, got[name], w)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			tb.Errorf("%s is not in the table", name)
		}
	}
}

// Parse parses a GGUF file in memory.
func Parse(t testing.TB, b []byte) *gguf.File {
	t.Helper()
	f, err := memory.New(map[string][]byte{"m": b}).OpenFile("m")
	if err != nil {
		t.Fatal(err)
	}
	p, err := gguf.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
