package tree

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"

	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/views"
)

// Tree is a model as the directory that a mount serves and ls lists.
type Tree struct {
	Model *tensorfs.Model
	Views []views.Built // in the order of Root
	Whole []*Whole
	Root  tensorfs.Entries
}

// Options choose between interpretations of a model, and between files that it
// could give. The zero value is the default.
type Options struct {
	Views views.Options
	Whole convert.Options
}

// IndexDir is the directory with index.json's part for each view, in the same schema:
// NAME.json for the view NAME.
const IndexDir = "views"

// New lays out a model. It reads no tensor. The model stays the caller's to
// close, after the last use of the tree.
func New(m *tensorfs.Model, opts Options) *Tree {
	t := &Tree{Model: m, Views: views.Build(m, opts.Views), Whole: wholes(m, opts.Whole)}
	t.Root = tensorfs.Entries{
		{Name: "README", Data: tensorfs.Bytes(readme(t))},
		{Name: "config.json", Data: tensorfs.Bytes(t.ConfigJSON())},
		{Name: "index.json", Data: views.Index(m, t.Views)},
		{Name: "metadata", Dir: metadataDir(m.Metadata)},
		{Name: "metadata.json", Data: config.MetadataJSON(m.Metadata)},
		{Name: "source", Dir: sourceDir(m), Attrs: t.attrs},
	}
	var indexes tensorfs.Entries
	for i := range t.Views {
		t.Root = append(t.Root, tensorfs.Entry{Name: t.Views[i].Name, Dir: &viewDir{view: &t.Views[i]}})
		indexes = append(indexes, tensorfs.Entry{Name: t.Views[i].Name + ".json", Data: views.Index(m, t.Views[i:i+1])})
	}
	sortEntries(indexes)
	t.Root = append(t.Root, tensorfs.Entry{Name: IndexDir, Dir: indexes})
	for _, w := range t.Whole {
		t.Root = append(t.Root, tensorfs.Entry{Name: w.Name, Dir: w.dir()})
	}
	sortEntries(t.Root)
	return t
}

// ConfigJSON is the model's config in the schema that all formats share, as in
// the file config.json.
func (t *Tree) ConfigJSON() []byte {
	return config.JSON(t.Model)
}

// WhyAbsent returns why there is no file at a path such as
// "fused/layers.0.attention.qkv.weight" or "gguf/model.gguf", or "" if no reason is known.
func (t *Tree) WhyAbsent(path string) string {
	view, name, _ := strings.Cut(path, "/")
	for _, w := range t.Whole {
		if w.Name == view && name != "" {
			return w.Files().Reason
		}
	}
	for _, b := range t.Views {
		if b.Name != view {
			continue
		}
		reason, _ := b.WhyAbsent(name)
		return reason
	}
	if slices.ContainsFunc(views.All, func(v views.View) bool { return v.Name == view }) {
		return "the view was not chosen; --views " + view + " chooses it"
	}
	return ""
}

func sortEntries(e tensorfs.Entries) {
	slices.SortFunc(e, func(a, b tensorfs.Entry) int { return strings.Compare(a.Name, b.Name) })
}

// viewDir is a view as a directory. Entries are made on demand; entries that are being read
// are kept, so a read makes nothing.
type viewDir struct {
	view   *views.Built
	recent [64]atomic.Pointer[recentEntry]
}

type recentEntry struct {
	i     int
	entry tensorfs.Entry
}

var _ tensorfs.Files = (*viewDir)(nil)

func (d *viewDir) Len() int { return d.view.Tensors.Len() }

// Name returns the name of entry i without making the entry.
func (d *viewDir) Name(i int) string { return d.view.Tensors.Name(i) }

func (d *viewDir) Entry(i int) tensorfs.Entry {
	slot := &d.recent[i%len(d.recent)]
	if r := slot.Load(); r != nil && r.i == i {
		return r.entry
	}
	t := d.view.Tensors.At(i)
	e := tensorfs.Entry{Name: t.Name, Data: t.Data, Attrs: func() []tensorfs.Attr { return attrs(d.view.Name, &t) }}
	slot.Store(&recentEntry{i, e})
	return e
}

// maxAttr is the longest value that Linux lets an extended attribute have.
const maxAttr = 1 << 16

// attrs are the extended attributes of a tensor file.
func attrs(view string, t *tensorfs.Tensor) []tensorfs.Attr {
	var out []tensorfs.Attr
	for _, p := range views.Properties(view, t) {
		name, value := p.Name, p.Value()
		switch name {
		case "bytes": // that is the file's size
			continue
		case "source_name_base64": // an attribute takes any bytes
			name, value = "source_name", []byte(t.Source)
		}
		if len(value) <= maxAttr {
			out = append(out, tensorfs.Attr{Name: "user.tensorfs." + name, Value: value})
		}
	}
	return out
}

// attrs are the extended attributes of source/: index.json's description of the model, and
// the names of the views, for programs that would not read all of it.
func (t *Tree) attrs() []tensorfs.Attr {
	names := []byte{'['}
	for i, v := range t.Views {
		if i > 0 {
			names = append(names, ',')
		}
		names = tensorfs.AppendJSONString(names, v.Name)
	}
	out := []tensorfs.Attr{{Name: "user.tensorfs.views", Value: append(names, ']')}}
	if model := views.AppendModel(nil, t.Model); len(model) <= maxAttr {
		out = append(out, tensorfs.Attr{Name: "user.tensorfs.model", Value: model})
	}
	return out
}

// sourceDir shows the files that the model consists of: as links, and with their bytes if
// they are remote.
func sourceDir(m *tensorfs.Model) tensorfs.Dir {
	var list []tensorfs.Entry
	for _, s := range m.Sources {
		e := tensorfs.Entry{Name: s.Name, Link: s.Path}
		if !s.Local() {
			e = tensorfs.Entry{Name: s.Name, Data: &farFile{m: m, name: s.Name}}
		}
		list = append(list, e)
	}
	return tensorfs.Nest(list, nil)
}
