package hf_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/internal/source"
)

// cache is a Hugging Face cache in a directory of the test.
type cache struct {
	t   *testing.T
	hub string
}

// add adds a snapshot: its files are links to blobs, as the cache has them.
func (c cache) add(folder, commit string, files map[string][]byte) {
	c.t.Helper()
	dir := filepath.Join(c.hub, folder)
	for _, d := range []string{"blobs", "snapshots/" + commit} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			c.t.Fatal(err)
		}
	}
	for name, b := range files {
		blob := sum(b)
		if err := os.WriteFile(filepath.Join(dir, "blobs", blob), b, 0o666); err != nil {
			c.t.Fatal(err)
		}
		if err := os.Symlink("../../blobs/"+blob, filepath.Join(dir, "snapshots", commit, name)); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c cache) ref(folder, ref, commit string) {
	c.t.Helper()
	path := filepath.Join(c.hub, folder, "refs", ref)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(commit), 0o666); err != nil {
		c.t.Fatal(err)
	}
}

func model(tensor string) map[string][]byte {
	return map[string][]byte{"config.json": []byte(`{"model_type":"llama"}`), "model.safetensors": shard(tensor), "tokenizer.json": []byte("{}")}
}

func TestCache(t *testing.T) {
	for _, v := range []string{"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(v, "")
	}
	c := cache{t, filepath.Join(t.TempDir(), "hub")}
	t.Setenv("HF_HUB_CACHE", c.hub)
	c.add("models--org--name", "c1", model("one"))
	c.add("models--org--name", "c2", model("two"))
	c.ref("models--org--name", "main", "c2\n")
	c.ref("models--org--name", "pr/1", "c1")
	c.add("models--gpt2", "c1", model("one"))
	c.add("models--org--gone", "c1", model("one"))
	c.ref("models--org--gone", "main", "c9")
	c.add("models--org--many", "c1", model("one"))
	c.add("models--org--many", "c2", model("two"))
	c.ref("models--org--none", "main", "c1")
	c.add("models--org--evil", "c1", model("one"))
	c.ref("models--org--evil", "main", "../../models--org--name/snapshots/c1")
	c.add("models--org--part", "c1", map[string][]byte{"config.json": []byte("{}")})
	if err := os.Symlink("../../blobs/0123.incomplete", filepath.Join(c.hub, "models--org--part/snapshots/c1/model.safetensors")); err != nil {
		t.Fatal(err)
	}
	folder := func(name string) string { return filepath.Join(c.hub, name) }
	for _, x := range []struct {
		name   string // as hf:NAME, or a path
		tensor string
		path   string
		warns  int
		fails  string
	}{
		{name: "org/name", tensor: "two", path: folder("models--org--name")},
		{name: "org/name@main", tensor: "two", path: folder("models--org--name")},
		{name: "org/name@c1", tensor: "one", path: folder("models--org--name")},
		{name: "org/name@pr/1", tensor: "one", path: folder("models--org--name")},
		{name: "gpt2", tensor: "one", path: folder("models--gpt2")},
		{name: "org/gone", tensor: "one", path: folder("models--org--gone"), warns: 1},
		{name: folder("models--org--name"), tensor: "two", path: folder("models--org--name")},
		{name: folder("models--org--name/snapshots/c1"), tensor: "one", path: folder("models--org--name/snapshots/c1")},
		{name: "org/many", fails: "it has 2 snapshots, and refs/main names none of them; give the path of one, such as " + folder("models--org--many/snapshots/c1")},
		{name: "org/none", fails: "no such file"},
		{name: "org/evil", fails: "no commit id"},
		{name: "org/part", fails: "finish the download"},
		{name: "org/absent", fails: `download it with "hf download org/absent"`},
		{name: "org/name@nope", fails: "no snapshot of revision nope"},
		{name: "org/name@../c1", fails: "not of the form"},
		{name: "org/name@", fails: "not of the form"},
		{name: "", fails: "not of the form"},
		{name: "org/", fails: "not of the form"},
		{name: "../org", fails: "not of the form"},
		{name: "a/b/c", fails: "not of the form"},
		{name: "org--name", fails: "not of the form"},
		{name: "or\x1bg/name", fails: `"hf:or\x1bg/name": the name`},
	} {
		t.Run(strings.ReplaceAll(x.name, c.hub, "HUB"), func(t *testing.T) {
			open := func(name string) (*tensorfs.Model, error) { return hf.OpenName(name, source.Inside) }
			if filepath.IsAbs(x.name) {
				open = hf.Open
				if !match(x.name) {
					t.Error("no match")
				}
			}
			m, err := open(x.name)
			if x.fails != "" {
				if err == nil || !strings.Contains(err.Error(), x.fails) {
					t.Errorf("error %v does not say %q", err, x.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if m.Tensors[0].Source != x.tensor || m.Path != x.path || m.Architecture != "llama" || len(m.Warnings) != x.warns {
				t.Errorf("tensor %s, path %s, architecture %s, warnings %q", m.Tensors[0].Source, m.Path, m.Architecture, m.Warnings)
			}
			if got := sources(m); !reflect.DeepEqual(got, []string{"config.json", "model.safetensors", "tokenizer.json"}) {
				t.Errorf("sources %q", got)
			}
			if e := tensorfs.Extents(m.Tensors[0].Data); e[0].File != "model.safetensors" {
				t.Errorf("extents %v", e)
			}
		})
	}
	if _, err := hf.OpenName("org/absent", source.Inside); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not ErrNotExist", err)
	}
	// The other places of the cache.
	for variable, dir := range map[string]string{"HF_HOME": "hub", "XDG_CACHE_HOME": "huggingface/hub", "HOME": ".cache/huggingface/hub"} {
		t.Setenv("HF_HUB_CACHE", "")
		root := t.TempDir()
		for _, v := range []string{"HF_HOME", "XDG_CACHE_HOME"} {
			t.Setenv(v, "")
		}
		t.Setenv(variable, root)
		cache{t, filepath.Join(root, dir)}.add("models--org--x", "c1", model(strings.ToLower(variable)))
		m, err := hf.OpenName("org/x", source.Inside)
		if err != nil {
			t.Errorf("%s: %v", variable, err)
			continue
		}
		if m.Tensors[0].Source != strings.ToLower(variable) {
			t.Errorf("%s: %s", variable, m.Tensors[0].Source)
		}
		m.Close()
	}
}
