package tree_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/views/tree"
)

// The attributes of source/ describe the model as index.json does. They list only files that hold tensors,
// with their size, inode and times at opening.
func TestSourceAttributes(t *testing.T) {
	type file struct {
		Name  string `json:"name"`
		Bytes int64  `json:"bytes"`
		Inode uint64 `json:"inode"`
		MTime int64  `json:"mtime_ns"`
		CTime int64  `json:"ctime_ns"`
	}
	type model struct {
		Format string `json:"format"`
		Path   string `json:"path"`
		Files  []file `json:"files"`
	}
	for path, names := range map[string][]string{
		"../../testdata/gguf/llama-xs.q8_0.gguf": {"llama-xs.q8_0.gguf"},
		"../../testdata/models-mlx/qwen3-mixed":  {"model.safetensors"},
	} {
		m, err := formats.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		tr := tree.New(m, tree.Options{})
		e, err := tensorfs.Find(tr.Root, "source")
		if err != nil {
			t.Fatal(err)
		}
		var got model
		var views []string
		for _, a := range e.Attrs() {
			into := map[string]any{"user.tensorfs.model": &got, "user.tensorfs.views": &views}[a.Name]
			if err := json.Unmarshal(a.Value, into); err != nil {
				t.Fatalf("%s: %v", a.Name, err)
			}
		}
		want := model{Format: m.Format, Path: m.Path}
		for _, name := range names {
			file := file{Name: name}
			var st syscall.Stat_t
			at := m.Path
			if info, err := os.Stat(at); err == nil && info.IsDir() {
				at = filepath.Join(at, name)
			}
			if err := syscall.Stat(at, &st); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(at)
			if err != nil {
				t.Fatal(err)
			}
			file.Bytes, file.Inode, file.MTime = st.Size, st.Ino, info.ModTime().UnixNano()
			want.Files = append(want.Files, file)
		}
		for i := range got.Files {
			if got.Files[i].CTime == 0 {
				t.Errorf("%s has no ctime", got.Files[i].Name)
			}
			got.Files[i].CTime = 0
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: model %+v, want %+v", path, got, want)
		}
		var built []string
		for _, v := range tr.Views {
			built = append(built, v.Name)
		}
		if !reflect.DeepEqual(views, built) {
			t.Errorf("%s: views %q, want %q", path, views, built)
		}
	}
}
