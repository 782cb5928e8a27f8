package exported

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Format is the format of models whose tensors are files of the directory.
const Format = "tensorfs"

// index is the file that describes all others.
const indexName = "index.json"

// view is a view whose files can be a model's tensors.
type view struct {
	name   string
	suffix string // of file names
	joined bool   // its files hold several tensors
}

// views are in the order in which they count.
var views = []view{
	{name: "raw"}, {name: "packed"}, {name: "fused", joined: true}, {name: "f32"}, {name: "bf16"}, {name: "f16"}, {name: "fused-f16", joined: true}, {name: "npy-f32", suffix: ".npy"}, {name: "npy", suffix: ".npy"},
}

// Most that is read of a text. The index of a model with 50,000 tensors has a seventh.
const maxText = 256 << 20

// Match reports whether a directory with these entries is a mounted or exported tree.
func Match(entries []fs.DirEntry) bool {
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == indexName && !e.IsDir() }) &&
		slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
			return e.IsDir() && slices.ContainsFunc(views, func(v view) bool { return v.name == e.Name() })
		})
}

// tree is a directory that is being opened.
type tree struct {
	src     source.FS
	dir     string
	tensors []tensorfs.Tensor
	modules []module
	files   []source.File
	own     map[string]source.File // files of the model by their names below source/; nil if the tree's files count

	names   map[string]bool // of the tensors, and of their modules
	sources map[string]bool
}

// OpenFS opens the tree in a directory of fsys.
func OpenFS(fsys fs.FS, dir string) (*tensorfs.Model, error) {
	t := &tree{src: source.Of(fsys), dir: dir, names: map[string]bool{}, sources: map[string]bool{}}
	m, all, err := t.open()
	if err != nil {
		for _, f := range t.files {
			err = errors.Join(err, f.Close())
		}
		return nil, err
	}
	x, err := source.Finish(m, t.files)
	if err != nil {
		return nil, err
	}
	if err := t.show(x, all); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

func (t *tree) open() (m tensorfs.Model, all jsonobj.Object, err error) {
	index, err := t.object(indexName)
	if err != nil {
		return m, all, err
	}
	if v := index.Raw("version").String(); v != "1" {
		return m, all, t.malformed(indexName, fmt.Sprintf("its version is %s, and 1 is known", tensorfs.Quote(v)), "export the tree again with this release of tensorfs")
	}
	model := index.Object("model")
	m = tensorfs.Model{Path: t.src.Location(t.dir), Architecture: str(model.Raw("architecture")), Layout: str(model.Raw("layout")), Format: Format}
	if m.Layout != "gguf" {
		m.Layout = "hf"
	}
	if len(m.Architecture) > config.MaxArchitecture || m.Architecture == "" {
		m.Architecture = "unknown"
	}
	for name, use := range map[string]func(jsonobj.Object){
		"config.json":   func(o jsonobj.Object) { m.Config = config.FromJSON(o.Lookup) },
		"metadata.json": func(o jsonobj.Object) { m.Metadata = metadata(o) },
	} {
		switch o, err := t.object(name); {
		case err == nil:
			use(o)
		case !errors.Is(err, fs.ErrNotExist): // an export may be without
			return m, all, err
		}
	}
	all = index.Object("views")
	if t.openOwn(model, all.Object("raw")) {
		m.Format = str(model.Raw("format"))
		if err := t.addSources(&m, ""); err != nil {
			return m, all, err
		}
	}
	if err := t.load(all); err != nil {
		return m, all, err
	}
	m.Tensors = t.tensors
	return m, all, nil
}

// found is an entry of index.json whose file is there.
type found struct {
	view  *view
	name  string // of the file
	entry jsonobj.Object
}

// load makes the tensors.
func (t *tree) load(all jsonobj.Object) error {
	var list []found
	for i := range views {
		v := &views[i]
		entries := all.Object(v.name)
		there := map[string]bool{}
		if t.own == nil && entries.Len() > 0 {
			files, err := t.src.ReadDir(path.Join(t.dir, v.name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			for _, f := range files {
				there[f.Name()] = true
			}
		}
		before := len(list)
		for name, raw := range entries.All() {
			shown, isNamed := strings.CutSuffix(name, v.suffix)
			if e := raw.Object(); isNamed && (there[name] || t.own != nil) && t.adds(v, shown, e) {
				list = append(list, found{v, name, e})
			}
		}
		for _, x := range list[before:] { // what a view has is no reason to leave out more of it
			shown := strings.TrimSuffix(x.name, v.suffix)
			t.names[shown] = true
			if w := str(x.entry.Object("module").Raw("weight")); w != "" {
				t.names[w] = true
			}
			t.sources[sourceName(x.entry)] = true
		}
		if t.own != nil {
			break // raw/ is all of the model
		}
	}
	at := t.src.Location(t.dir)
	if len(list) == 0 {
		return tensorfs.Unsupported(at, "it has an index.json of tensorfs, and none of the files of tensors that this describes",
			"export raw or packed to it; or, where a model was mounted, mount it again")
	}
	if t.own == nil {
		if err := source.Room(at, len(list)); err != nil {
			return err
		}
	}
	for _, x := range list {
		if err := t.add(x); err != nil {
			return err
		}
	}
	return t.join()
}

// adds reports whether an entry of a view adds something about a tensor to the views before
// it.
func (t *tree) adds(v *view, name string, e jsonobj.Object) bool {
	if t.names[name] {
		return false
	}
	// The source name of a group joins its parts' names.
	return !v.joined || slices.ContainsFunc(strings.Split(sourceName(e), "+"), func(s string) bool { return !t.sources[s] })
}

// add makes the tensor of a file, or the tensors of a module that is in one file.
func (t *tree) add(x found) error {
	e, label := x.entry, x.view.name+"/"+x.name
	fail := func(problem string) error {
		return t.malformed(indexName, tensorfs.Printable(label)+": "+problem, "export the tree again")
	}
	r := tensorfs.Tensor{Name: strings.TrimSuffix(x.name, x.view.suffix), Source: sourceName(e),
		BigEndian: e.Raw("big_endian").String() == "true", Opaque: str(e.Raw("opaque")), Apart: str(e.Raw("apart"))}
	var known, ok bool
	if r.DType, known = dtypes()[str(e.Raw("dtype"))]; !known {
		return fail("its type is not known")
	}
	if r.Shape, ok = integers(e.Raw("shape")); !ok {
		return fail("its shape is no list of numbers")
	}
	size, err := nonNegative(e.Raw("bytes")), error(nil)
	if size < 0 {
		return fail("it has no size")
	}
	if r.Data, err = t.data(e, label, size); err != nil {
		return err
	}
	if n, _ := r.DType.Size(r.Shape); x.view.suffix != "" && n <= size { // after a header
		r.Data = tensorfs.Section(r.Data, size-n, n)
	}
	if parts := slices.Collect(e.Raw("sections").Elements()); len(parts) > 1 {
		return t.split(r, e, parts, fail)
	}
	if e.Has("module") || x.view.name == "raw" && e.Has("quant") {
		t.modules = append(t.modules, newModule(len(t.tensors), e))
	}
	t.tensors = append(t.tensors, r)
	return nil
}

// data returns the bytes of an entry: a file of the tree, or runs of the model's own.
func (t *tree) data(e jsonobj.Object, label string, size int64) (tensorfs.Data, error) {
	if t.own == nil {
		f, err := t.src.OpenFile(path.Join(t.dir, label))
		if err != nil {
			return nil, err
		}
		t.files = append(t.files, f)
		f.SetLabel(label)
		if f.Size() != size {
			return nil, t.malformed(label, fmt.Sprintf("it has %d bytes instead of the %d in index.json", f.Size(), size), "export the tree again")
		}
		return f.Section(0, size), nil
	}
	runs, ok := t.runs(e)
	if d := tensorfs.Concat(runs...); ok && d.Size() == size {
		return d, nil
	}
	return nil, t.malformed(indexName, tensorfs.Printable(label)+": its extents are not in the model's files", "export the tree again")
}

// object reads a file of the tree.
func (t *tree) object(name string) (jsonobj.Object, error) {
	text, err := source.ReadSmall(t.src, path.Join(t.dir, name), maxText)
	if err != nil {
		return jsonobj.Object{}, err
	}
	o, err := jsonobj.ParseFile(t.src.Location(path.Join(t.dir, name)), text)
	if e, ok := errors.AsType[*tensorfs.FormatError](err); ok {
		e.Advice = "export the tree again"
	}
	return o, err
}

func (t *tree) malformed(name, problem, advice string) error {
	return &tensorfs.FormatError{File: t.src.Location(path.Join(t.dir, name)), Offset: -1, Problem: problem, Advice: advice}
}

// dtypes are all types by name.
var dtypes = sync.OnceValue(func() map[string]tensorfs.DType {
	m := map[string]tensorfs.DType{tensorfs.Unknown.String(): tensorfs.Unknown}
	for d := range tensorfs.DTypes() {
		m[d.String()] = d
	}
	return m
})

// str returns a string as the tree writes it: as base64 if it is not UTF-8.
func str(r jsonobj.Raw) string {
	if r.Kind() == '{' {
		return fromBase64(r.Member("base64"))
	}
	return r.Text()
}

func fromBase64(r jsonobj.Raw) string {
	b, _ := base64.StdEncoding.DecodeString(r.Text())
	return string(b)
}

// sourceName is the tensor's name in the model.
func sourceName(e jsonobj.Object) string {
	return cmp.Or(e.Raw("source_name").Text(), fromBase64(e.Raw("source_name_base64")))
}

// nonNegative returns a number that is not negative, else -1.
func nonNegative(r jsonobj.Raw) int64 {
	n, err := strconv.ParseInt(r.String(), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// integers returns a list of such numbers.
func integers(r jsonobj.Raw) (list []int64, ok bool) {
	for e := range r.Elements() {
		n := nonNegative(e)
		if n < 0 {
			return nil, false
		}
		list = append(list, n)
	}
	return list, r.Kind() == '['
}
