package stores

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/opendir"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// model is a GGUF file of this machine, mapped.
func model(t *testing.T) *source.Mapped {
	t.Helper()
	b := testmodel.GGUF{Meta: []tensorfs.Meta{{Key: "general.architecture", Value: "llama"}},
		Tensors: []testmodel.GGUFTensor{{Name: "token_embd.weight", Type: 0, Shape: []int64{4, 32}, Data: make([]byte, 512)}}}.Bytes()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := source.Map(path, "model.gguf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func name(t *testing.T, s string) ollama.Name {
	t.Helper()
	n, err := ollama.ParseName(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// toOllama writes a model that is stored.
func toOllama(t *testing.T, dir string, m *source.Mapped, as string, o Options) *Report {
	t.Helper()
	r, err := Ollama(context.Background(), dir, name(t, as), []export.File{{Path: "model.gguf", Data: m}}, Parent{}, o)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".tensorfs*")); err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
	return r
}

// beside is a store on the disk of a model.
func beside(m *source.Mapped) string { return filepath.Join(filepath.Dir(m.Path()), "store") }

// A file of the model becomes the store's own only where nothing is lost by it: see minLink
// and mayLink. It keeps its mode and time.
func TestLinks(t *testing.T) {
	for _, test := range []struct {
		name string
		mode fs.FileMode
		o    Options
		want string
	}{
		{"linked", 0o644, Options{least: 1}, Linked},
		{"read-only", 0o444, Options{least: 1}, Linked},
		{"small", 0o644, Options{}, Written},
		{"a copy", 0o644, Options{least: 1, Copy: true}, Written},
		{"private", 0o600, Options{least: 1}, Written},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := model(t)
			if err := os.Chmod(m.Path(), test.mode); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Stat(m.Path())
			r := toOllama(t, beside(m), m, "m", test.o)
			f := r.Files[0]
			if f.How == Cloned {
				t.Skip("the file system clones, which comes before links")
			}
			origin := map[bool]string{true: m.Path()}[test.want == Linked]
			if f.How != test.want || f.Origin != origin || sameFile(f.Path, m.Path()) != (test.want == Linked) {
				t.Errorf("%+v", f)
			}
			if after, err := os.Stat(m.Path()); err != nil || after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) {
				t.Errorf("%v became %v, %v", before, after, err)
			}
			if test.want == Written {
				if st, err := os.Stat(f.Path); err != nil || st.Mode() != 0o644 {
					t.Errorf("%v, %v", st, err)
				}
			}
			if r := toOllama(t, beside(m), m, "again", test.o); r.Files[0].How != There {
				t.Errorf("again: %+v", r.Files[0])
			}
			test.o.Copy = true // which ends the sharing
			if r := toOllama(t, beside(m), m, "apart", test.o); sameFile(r.Files[0].Path, m.Path()) || r.Files[0].Path != f.Path {
				t.Errorf("a copy: %+v", r.Files[0])
			}
		})
	}
}

// Ollama removes blobs that no manifest names when it starts: also between the two.
func TestPruned(t *testing.T) {
	for _, there := range []bool{false, true} {
		m := model(t)
		dir := beside(m)
		if there {
			r := toOllama(t, dir, m, "first", Options{Copy: true})
			if err := os.Remove(r.Path); err != nil {
				t.Fatal(err)
			}
		}
		prune := func(context.Context, []string) error {
			if there { // what was found there goes before anything is placed
				return os.RemoveAll(filepath.Join(dir, "blobs"))
			}
			return nil
		}
		r := toOllama(t, dir, m, "m", Options{Copy: true, Confirm: prune})
		if _, err := os.Stat(r.Files[0].Path); err != nil {
			t.Errorf("there before: %v: %v", there, err)
		}
	}
	// placeAll again brings back what is gone.
	m := model(t)
	dir := beside(m)
	at, err := opendir.Make(dir, dirMode, true)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	blobs, err := at.Follow("blobs", dirMode)
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	s, err := openStage(at, ".tensorfs-x", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close(nil)
	store := ollamaStore{s, at, dir, blobs}
	list, err := s.write(t.Context(), []export.File{{Path: "model.gguf", Data: m}}, store.there(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := store.placeAll(t.Context(), pointers(list)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(store.path(&list[0])); err != nil { // fails where it was not placed
			t.Fatal(err)
		}
	}
}

// What is wrong with the bytes is found before another program sees the model, and none of
// them are kept.
func TestConfirm(t *testing.T) {
	m := model(t)
	wrong := errors.New("wrong bytes")
	_, err := Ollama(t.Context(), beside(m), name(t, "m"), []export.File{{Path: "model.gguf", Data: m}}, Parent{}, Options{Confirm: func(context.Context, []string) error { return wrong }})
	if !errors.Is(err, wrong) {
		t.Error(err)
	}
	for _, below := range []string{"blobs/*", "manifests/*", ".tensorfs*"} {
		if list, err := filepath.Glob(filepath.Join(beside(m), below)); err != nil || len(list) > 0 {
			t.Errorf("%q, %v", list, err)
		}
	}
	toOllama(t, beside(m), m, "m", Options{})
}

// A link that an interrupted command left is no file to write to, whatever the next one wants.
func TestLeftLink(t *testing.T) {
	m := model(t)
	own, err := os.Stat(m.Path())
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(m.Path())
	o := Options{least: 1, Export: export.Options{Never: []os.FileInfo{own}}}
	interrupted := func(o Options) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		o.Confirm = func(context.Context, []string) error { cancel(); return ctx.Err() }
		if _, err := Ollama(ctx, beside(m), name(t, "m"), []export.File{{Path: "model.gguf", Data: m}}, Parent{}, o); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if list, err := filepath.Glob(filepath.Join(beside(m), ".tensorfs*/model.gguf")); err != nil || len(list) != 1 {
			t.Fatalf("%q, %v", list, err)
		}
	}
	for _, o.Copy = range []bool{false, true} {
		interrupted(o)
	}
	other := testmodel.GGUF{Meta: []tensorfs.Meta{{Key: "general.architecture", Value: "other"}}}.Bytes()
	o.Copy, o.Export.Facts = false, []export.Fact{{What: "flags", Is: "others"}}
	interrupted(o)
	o.Export.Facts = nil
	r, err := Ollama(t.Context(), beside(m), name(t, "m"), []export.File{{Path: "model.gguf", Data: tensorfs.Bytes(other)}}, Parent{}, o)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(r.Files[0].Path); err != nil || string(b) != string(other) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if after, err := os.ReadFile(m.Path()); err != nil || string(after) != string(before) {
		t.Errorf("the model has %d bytes, %v", len(after), err)
	}
}

// otherUser is the uid of another user.
const otherUser = 65534

// Root gives everything in a store to the store's owner, and follows no link of another user's
// file.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	m := model(t)
	dir := beside(m)
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, otherUser, otherUser)); err != nil {
		t.Fatal(err)
	}
	r := toOllama(t, dir, m, "a/b:c", Options{least: 1})
	if r.Files[0].How == Linked {
		t.Errorf("%+v", r)
	}
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		n++
		st, err := d.Info()
		if uid, ok := owner(st); err == nil && (!ok || uid != otherUser) {
			t.Errorf("%s is of %d", path, uid)
		}
		return err
	})
	if err != nil || n < 8 {
		t.Errorf("%d files, %v", n, err)
	}
	if st, err := os.Stat(m.Path()); err != nil {
		t.Error(err)
	} else if uid, _ := owner(st); uid != 0 {
		t.Errorf("the model is of %d", uid)
	}
}

// blobs/ may be a link to another place, as on a machine with a small disk of the system.
func TestBlobsElsewhere(t *testing.T) {
	m := model(t)
	dir, blobs := beside(m), t.TempDir()
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Symlink(blobs, filepath.Join(dir, "blobs")), os.Symlink(t.TempDir(), filepath.Join(dir, "manifests"))); err != nil {
		t.Fatal(err)
	}
	toOllama(t, dir, m, "m", Options{})
	list, err := os.ReadDir(blobs)
	if err != nil || len(list) != 2 || slices.ContainsFunc(list, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), "sha256-") }) {
		t.Errorf("%v, %v", list, err)
	}
}

// Only one process writes a model at a time, and the next one finds no lock.
func TestStageBusy(t *testing.T) {
	at, err := opendir.Make(filepath.Join(t.TempDir(), "a"), dirMode, true)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	s, err := openStage(at, ".tensorfs", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openStage(at, ".tensorfs", Options{}); !errors.Is(err, export.ErrBusy) {
		t.Error(err)
	}
	s.close(nil)
	if names, err := at.Names(); err != nil || len(names) > 0 {
		t.Error("an empty stage is left", names, err)
	}
	if s, err = openStage(at, ".tensorfs", Options{}); err != nil {
		t.Fatal(err)
	}
	s.close(nil)
}

// A store that is there is taken before one that would be made.
func TestOllamaDir(t *testing.T) {
	home, named := t.TempDir(), filepath.Join(t.TempDir(), "none")
	t.Setenv("HOME", home)
	t.Setenv("OLLAMA_MODELS", "")
	if err := os.MkdirAll(filepath.Join(home, ".ollama/models"), 0o700); err != nil {
		t.Fatal(err)
	}
	if dir, err := OllamaDir(); err != nil || dir != filepath.Join(home, ".ollama/models") {
		t.Error(dir, err)
	}
	t.Setenv("OLLAMA_MODELS", named)
	if dir, err := OllamaDir(); err != nil || dir != named {
		t.Error(dir, err)
	}
}

func TestCommitOf(t *testing.T) {
	// sha256sum a b/c | sha256sum | cut -c -40, of files with the bytes "a" and "c".
	const want = "54c8f380c5f779da64df970ef0429c1ec48d393f"
	list := []file{{name: "b/c", sum: "2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6"}, {name: "a", sum: "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"}}
	if got := commitOf(list); got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
