package tree

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
)

// views/NAME.json equals index.json for one view.
func TestIndexes(t *testing.T) {
	m, err := formats.Open("../../testdata/gguf/llama-xs.q8_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tree := New(m, Options{})
	read := func(path string) (x struct {
		Version       int
		Model         any
		Views, Absent map[string]map[string]any
	}) {
		e, err := tensorfs.Find(tree.Root, path)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(content(t, path, e.Data), &x); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return x
	}
	all := read("index.json")
	for _, v := range tree.Views {
		one := read(IndexDir + "/" + v.Name + ".json")
		if one.Version != all.Version || !reflect.DeepEqual(one.Model, all.Model) ||
			len(one.Views) != 1 || !reflect.DeepEqual(one.Views[v.Name], all.Views[v.Name]) ||
			len(one.Absent) > 1 || !reflect.DeepEqual(one.Absent[v.Name], all.Absent[v.Name]) {
			t.Errorf("%s: %v", v.Name, one)
		}
	}
}
