package exported

import (
	"io/fs"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/source"
)

// formats are the formats of models that have files of their own.
var formats = []string{"gguf", "safetensors", "huggingface", "mlx", "ollama", "adapter"}

// openOwn opens the files of the model that the tree was exported from. It reports whether
// all of them are present and unchanged, and hold all tensors of raw/.
func (t *tree) openOwn(model, raw jsonobj.Object) bool {
	if raw.Len() == 0 || !slices.Contains(formats, str(model.Raw("format"))) {
		return false
	}
	own, sound := map[string]source.File{}, true
	for e := range model.Raw("files").Elements() {
		name := str(e.Member("name"))
		f, err := t.linked(name)
		if err == nil && (own[name] != nil || !as(f, e)) {
			f.Close()
			err = fs.ErrNotExist
		}
		if err != nil {
			sound = false
			break
		}
		f.SetLabel(name)
		own[name] = f
		t.files = append(t.files, f)
	}
	t.own = own
	for _, e := range raw.All() {
		_, ok := t.runs(e.Object())
		sound = sound && ok
	}
	if !sound {
		for _, f := range t.files {
			f.Close()
		}
		t.own, t.files = nil, nil
	}
	return sound
}

// linking is a source whose files may be links to others.
type linking interface {
	OpenTarget(name string) (source.File, error)
	Target(name string) string
}

// linked opens what a link below source/ leads to, if links may lead there. Its path is
// the file's, which stays when the tree is unmounted.
func (t *tree) linked(name string) (source.File, error) {
	if !fs.ValidPath(name) {
		return nil, fs.ErrNotExist
	}
	at := path.Join(t.dir, "source", name)
	if src, ok := t.src.(linking); ok {
		return src.OpenTarget(at)
	}
	return t.src.OpenFile(at)
}

// as reports whether a file is in the state that index.json has of it.
func as(f source.File, e jsonobj.Raw) bool {
	s, ok := f.(tensorfs.Stated)
	if !ok {
		return false
	}
	is := s.State()
	if e.Member("mtime_ns").Kind() == 0 { // its owner touches it
		if f, ok := f.(interface{ IgnoreModTime() }); ok {
			f.IgnoreModTime()
		}
		is.ModTime, is.ChangeTime = -1, -1
	}
	return is.Bytes == nonNegative(e.Member("bytes")) && strconv.FormatUint(is.Inode, 10) == e.Member("inode").String() &&
		is.ModTime == nonNegative(e.Member("mtime_ns")) && is.ChangeTime == nonNegative(e.Member("ctime_ns"))
}

// runs returns the extents of an entry; false if it has none in the model's files.
func (t *tree) runs(e jsonobj.Object) (runs []tensorfs.Data, ok bool) {
	for x := range e.Raw("extents").Elements() {
		f := t.own[str(x.Member("file"))]
		off, n := nonNegative(x.Member("offset")), nonNegative(x.Member("bytes"))
		if f == nil || tensorfs.CheckRange(f, off, n) != nil {
			return nil, false
		}
		runs = append(runs, f.Section(off, n))
	}
	return runs, len(runs) > 0
}

// addSources adds the other files below source/.
func (t *tree) addSources(m *tensorfs.Model, dir string) error {
	entries, err := t.src.ReadDir(path.Join(t.dir, "source", dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			if err := t.addSources(m, name); err != nil {
				return err
			}
			continue
		}
		if t.own[name] != nil {
			continue
		}
		at := path.Join(t.dir, "source", name)
		shown := t.src.Location(at)
		if src, ok := t.src.(linking); ok {
			shown = src.Target(at)
		}
		m.Sources = append(m.Sources, tensorfs.Source{Name: name, Path: shown, Open: func() (tensorfs.File, error) { return t.linked(name) }})
	}
	return nil
}

// metadata returns metadata.json as the source's metadata, whose keys are escaped.
func metadata(o jsonobj.Object) []tensorfs.Meta {
	metas := o.Meta(nil, "")
	for i := range metas {
		if a, ok := metas[i].Value.(tensorfs.Array); ok {
			metas[i].Value = array{a}
		} else {
			metas[i].Value = plain(metas[i].Value)
		}
	}
	return metas
}

// array is an array of metadata.json.
type array struct{ tensorfs.Array }

// Values returns the elements.
func (a array) Values() iter.Seq[any] {
	return func(yield func(any) bool) {
		for v := range a.Array.Values() {
			if !yield(plain(v)) {
				return
			}
		}
	}
}

// plain returns a string that is not UTF-8 as what it is.
func plain(v any) any {
	text, ok := v.(tensorfs.JSON)
	if !ok || !strings.HasPrefix(string(text), `{"base64":`) {
		return v
	}
	if o, err := jsonobj.Parse([]byte(text)); err == nil && o.Len() == 1 {
		if s := fromBase64(o.Raw("base64")); s != "" {
			return s
		}
	}
	return v
}
