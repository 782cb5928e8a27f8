// Package testoptions reads the tables of options that every program must understand alike: see
// formats/models/testdata.
package testoptions

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/models"
)

// Case is a line of options.tsv.
type Case struct {
	Model   string
	Options []string // as models.Convert.Take takes them
	File    string   // of the model's tree
}

// Flags returns the options as a command line has them.
func (c *Case) Flags() (flags []string) {
	for _, o := range c.Options {
		flags = append(flags, "--"+o)
	}
	return flags
}

// Convert returns the options for the loader.
func (c *Case) Convert(t testing.TB) (o models.Convert) {
	t.Helper()
	for _, text := range c.Options {
		if err := o.Take(text); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// Wrong is a line of wrong.tsv.
type Wrong struct {
	Case
	Always  bool // the options make no sense for any model
	Message string
}

// Cases returns the lines of options.tsv, with their models made.
func Cases(t testing.TB) (list []Case) {
	t.Helper()
	pair := t.TempDir()
	m, err := models.Open(testdata("architectures", "gemma3-vl"), models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for path, from := range map[string]string{"model.gguf": "model.gguf", "away/mmproj.gguf": "mmproj.gguf", "beside/model.gguf": "model.gguf", "beside/mmproj.gguf": "mmproj.gguf"} {
		at := filepath.Join(pair, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, Read(t, m, "gguf/"+from), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range lines(t, "options.tsv", "PAIR", pair) {
		list = append(list, Case{f[0], strings.Fields(f[1]), f[2]})
	}
	return list
}

// Wrongs returns the lines of wrong.tsv.
func Wrongs(t testing.TB) (list []Wrong) {
	t.Helper()
	for _, f := range lines(t, "wrong.tsv") {
		list = append(list, Wrong{Case{testdata("gguf", "llama-xs.f16.gguf"), strings.Fields(f[1]), "gguf/model.gguf"}, f[0] == "option", f[2]})
	}
	return list
}

// Read returns a file of a model's tree.
func Read(t testing.TB, m *models.Model, path string) []byte {
	t.Helper()
	e, err := tensorfs.Find(m.Tree().Root, path)
	if err != nil {
		t.Fatalf("%s: %v %s", path, err, m.Tree().WhyAbsent(path))
	}
	b := make([]byte, e.Data.Size())
	if err := tensorfs.ReadFull(e.Data, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// lines returns the fields of the lines of a table. names are replaced.
func lines(t testing.TB, table string, names ...string) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(), "formats", "models", "testdata", table))
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer(append(names, "TESTDATA", testdata())...)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line[0] == '#' {
			continue
		}
		f := strings.Split(fill.Replace(line), "\t")
		if len(f) != 3 {
			t.Fatalf("%s: %q has no three fields", table, line)
		}
		all = append(all, f)
	}
	return all
}

// root is the directory of the module.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

func testdata(path ...string) string {
	return filepath.Join(append([]string{root(), "testdata"}, path...)...)
}
