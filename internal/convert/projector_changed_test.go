package convert

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// copied copies a model of testdata/architectures, changes its files and opens it.
// Tensors of no name are taken away.
func copied(t *testing.T, name string, config map[string]any, tensors map[string]string, drop ...string) *tensorfs.Model {
	t.Helper()
	from, to := filepath.Join(testdata, "architectures", name), t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for path, value := range config {
		file, path, _ := strings.Cut(path, ":")
		b, err := os.ReadFile(filepath.Join(to, file))
		if err != nil {
			t.Fatal(err)
		}
		var all map[string]any
		if err := json.Unmarshal(b, &all); err != nil {
			t.Fatal(err)
		}
		object, fields := all, strings.Split(path, ".")
		for _, f := range fields[:len(fields)-1] {
			object = object[f].(map[string]any)
		}
		if object[fields[len(fields)-1]] = value; value == nil {
			delete(object, fields[len(fields)-1])
		}
		if b, err = json.Marshal(all); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, file), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range drop {
		if err := os.Remove(filepath.Join(to, file)); err != nil {
			t.Fatal(err)
		}
	}
	if tensors != nil {
		renamed(t, filepath.Join(to, "model.safetensors"), tensors)
	}
	m, err := formats.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// renamed changes the names of tensors in a file by their beginnings in the table; "" removes a
// beginning. A name after "+" adds a tensor with as many numbers.
func renamed(t *testing.T, file string, names map[string]string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(b)
	var header map[string]struct {
		DType string   `json:"dtype"`
		Shape []int64  `json:"shape"`
		At    [2]int64 `json:"data_offsets"`
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b[8:8+n], &raw); err != nil {
		t.Fatal(err)
	}
	delete(raw, "__metadata__")
	text, _ := json.Marshal(raw)
	if err := json.Unmarshal(text, &header); err != nil {
		t.Fatal(err)
	}
	var list []testmodel.SafeTensor
	for name, h := range header {
		for old, begin := range names {
			if rest, ok := strings.CutPrefix(name, old); ok && begin == "" {
				name = ""
			} else if ok {
				name = begin + rest
			}
		}
		if name != "" {
			list = append(list, testmodel.SafeTensor{Name: name, DType: tensorfs.BF16, Shape: h.Shape, Data: b[8+n:][h.At[0]:h.At[1]]})
		}
	}
	for name, length := range names {
		if name, ok := strings.CutPrefix(name, "+"); ok {
			n, err := strconv.ParseInt(length, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, testmodel.SafeTensor{Name: name, DType: tensorfs.BF16, Shape: []int64{n}})
		}
	}
	slices.SortFunc(list, func(a, b testmodel.SafeTensor) int { return strings.Compare(a.Name, b.Name) })
	if err := os.WriteFile(file, testmodel.Safetensors(list, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}
