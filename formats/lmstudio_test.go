package formats_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats"
)

// TestLMStudio opens models in LM Studio's folder by their names.
func TestLMStudio(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	models := filepath.Join(home, ".lmstudio/models")
	file, err := os.ReadFile("../testdata/gguf/align8.gguf")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ann/one/one-Q8_0.gguf", "ann/two/two-Q4_0.gguf", "ann/two/two-Q8_0.gguf", "top.gguf"} {
		at := filepath.Join(models, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o777), os.WriteFile(at, file, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(models, "ann/dir"), os.DirFS("../testdata/whole-gguf/qwen2")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, refused string }{
		{"ann/one", ""}, {"ann/two/two-Q8_0.gguf", ""}, {"ann/dir", ""},
		{"ann/two", "two-Q4_0.gguf"}, {"ann/three", "there is no such model"}, {"ann/one/no.gguf", "there is no such model"},
		{"", "names all models"}, {"ann", "is not PUBLISHER/NAME"}, {"top.gguf", "is not PUBLISHER/NAME"}, {"../x", "is not PUBLISHER/NAME"}, {"ann/../../x", "is not PUBLISHER/NAME"}, {"/etc/x", "is not PUBLISHER/NAME"},
	} {
		asked := false
		o := formats.Options{AskFirst: true, Remote: func(string) (formats.Elsewhere, error) {
			asked = true
			return formats.Elsewhere{}, fs.ErrNotExist
		}}
		m, err := o.Open("lmstudio:" + c.name)
		if err == nil {
			if m.Name != "lmstudio:"+c.name || len(m.Tensors) == 0 {
				t.Errorf("%s: it is called %s, and has %d tensors", c.name, m.Name, len(m.Tensors))
			}
			m.Close()
		}
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) || asked {
			t.Errorf("%s: %v, another machine asked: %v", c.name, err, asked)
		}
	}
	if _, err := formats.Open("lmstudio:ann/three"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not that nothing is there", err)
	}
	if got := formats.Stored("lmstudio:"); !slices.Equal(got, []string{"lmstudio:ann/dir", "lmstudio:ann/one", "lmstudio:ann/two"}) {
		t.Errorf("%q", got)
	}
}
