package hfdir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/testing/testclient"
)

const tensorData = "../../../../testdata"

// openModel opens a model until the test ends.
func openModel(t testing.TB, path string) *tensorfs.Model {
	t.Helper()
	m, err := formats.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// openGolden opens the model of a name in testdata/whole-hf/models.
func openGolden(t testing.TB, name string) *tensorfs.Model {
	t.Helper()
	for _, path := range []string{
		filepath.Join(tensorData, "gguf", name+".gguf"),
		filepath.Join(tensorData, "gguf", strings.TrimSuffix(name, ".split")+"-00001-of-00003.gguf"),
		filepath.Join(tensorData, "models-mlx", strings.TrimPrefix(name, "mlx-")),
		filepath.Join(tensorData, "pairs", strings.TrimPrefix(name, "pair-"), "gguf", strings.TrimPrefix(name, "pair-")+".gguf"),
	} {
		if _, err := os.Stat(path); err == nil {
			return openModel(t, path)
		}
	}
	from := filepath.Join(tensorData, "whole-hf", "models", name)
	if _, err := os.Stat(from); err == nil {
		return openModel(t, testclient.UnpackDir(t, from))
	}
	file := filepath.Join(t.TempDir(), name+".gguf")
	if err := os.WriteFile(file, testclient.Unpack(t, from+".gguf.gz"), 0o600); err != nil {
		t.Fatal(err)
	}
	return openModel(t, file)
}

// readStored reads all of a tensor.
func readStored(t testing.TB, s safetensors.Stored) []byte {
	t.Helper()
	b := make([]byte, s.Data.Size())
	if err := tensorfs.ReadFull(s.Data, b, 0); err != nil {
		t.Errorf("%s: %v", s.Name, err)
	}
	return b
}

// storedLine is a tensor as the tables have it.
func storedLine(t testing.TB, s safetensors.Stored) string {
	t.Helper()
	shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Shape), " ", "x"), "[]")
	sum := sha256.Sum256(readStored(t, s))
	return s.DType.String() + " " + shape + " " + hex.EncodeToString(sum[:])
}

// directories are what is made of a model.
var directories = map[string]func(*tensorfs.Model) (result, error){"hf": hfTensors, "mlx": mlxTensors}

// TestGoldenTensors compares with tables that were made without this project.
func TestGoldenTensors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(tensorData, "whole-hf", "models", "*.tsv"))
	if err != nil || len(files) < 50 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".tsv")
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, l := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
				f := strings.Split(l, "\t")
				want[f[0]] = strings.Join(f[1:], " ")
			}
			model, kind, _ := cutLast(name)
			got, err := directories[kind](openGolden(t, model))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range got.List {
				if line := storedLine(t, s); line != want[s.Name] {
					t.Errorf("%s is %s, want %s", s.Name, line, want[s.Name])
				}
				delete(want, s.Name)
			}
			for name := range want {
				t.Errorf("%s is missing", name)
			}
		})
	}
}

// cutLast cuts at the last dot.
func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	return s[:i], s[i+1:], true
}
