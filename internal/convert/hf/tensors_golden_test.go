package hf

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

const tensorData = "../../../testdata"

// storedLine is a tensor as the tables have it.
func storedLine(t testing.TB, s safetensors.Stored) string {
	t.Helper()
	shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Shape), " ", "x"), "[]")
	return s.DType.String() + " " + shape + " " + testwhole.Sum(t, s.Data)
}

// made returns a function that makes the tensors of a directory.
func made(of purpose) func(*tensorfs.Model) (result, error) {
	return func(m *tensorfs.Model) (result, error) {
		x, err := newTensors(m, of)
		if err != nil {
			return result{}, err
		}
		return x.finish(), nil
	}
}

var hfTensors, mlxTensors = made(purpose{}), made(purpose{mlx: true})

// directories are the directories of whole models.
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
			want, lines := map[string]string{}, map[string]string{}
			for _, f := range testwhole.Table(t, file) {
				want[f[0]] = strings.Join(f[1:], " ")
			}
			model, kind, _ := cutLast(name)
			got, err := directories[kind](testwhole.Golden(t, model))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range got.List {
				lines[s.Name] = storedLine(t, s)
			}
			testwhole.Same(t, lines, want)
		})
	}
}

// cutLast cuts at the last dot.
func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	return s[:i], s[i+1:], true
}
