package safetensors_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/source"
)

const hostile = "../../testdata/hostile-safetensors"

// policy lists the files of the verdict table that the reference accepts and
// this package refuses, see doc.go.
var policy = map[string]string{
	"valid/name-twice-escaped.safetensors":    "occurs twice",
	"valid/name-twice-same-entry.safetensors": "occurs twice",
	"valid/dtype-as-object.safetensors":       "an object instead of a string",
	"valid/entry-as-array.safetensors":        "an array instead of an object",
}

func parse(t *testing.T, path string) (*safetensors.File, error) {
	t.Helper()
	f, err := source.Map(path, filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return safetensors.Parse(f)
}

// TestVerdicts compares with the verdicts of the reference reader on every file.
func TestVerdicts(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(hostile, "verdicts.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for line := range strings.Lines(string(table)) {
		name, verdict, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if !strings.HasSuffix(name, ".safetensors") {
			continue
		}
		files++
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(hostile, name)
			got, err := parse(t, path)
			if want, ok := policy[name]; ok {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Fatalf("error %v does not say %q", err, want)
				}
				return
			}
			if verdict == "accept" {
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range got.Tensors {
					if size, ok := e.DType.Size(e.Shape); !ok || size != e.Data.Size() {
						t.Errorf("%q: %v %v takes %d bytes, not %d", e.Name, e.DType, e.Shape, size, e.Data.Size())
					}
				}
				return
			}
			fe, ok := errors.AsType[*tensorfs.FormatError](err)
			if !ok {
				t.Fatalf("accepted, or an error without a place: %v", err)
			}
			if !errors.Is(err, tensorfs.ErrFormat) || fe.File != path || fe.Offset < 0 || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v is not of the agreed form: %#v", err, fe)
			}
			st, _ := os.Stat(path)
			if fe.Offset > st.Size() {
				t.Errorf("offset %d lies outside the file of %d bytes", fe.Offset, st.Size())
			}
		})
	}
	if files != 91 {
		t.Errorf("the table names %d files, 91 were expected", files)
	}
}
