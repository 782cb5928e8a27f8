package main

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/views"
)

// tree is a model as the directory that mount serves and ls lists.
type tree struct {
	model *tensorfs.Model
	built []views.Built
	root  fs.Entries
}

// newTree lays out a model. It reads no tensor.
func newTree(m *tensorfs.Model, opts views.Options) *tree {
	t := &tree{model: m, built: views.Build(m, opts)}
	t.root = fs.Entries{
		{Name: "README", Data: views.Bytes(readme(m, t.built))},
		{Name: "config.json", Data: views.Bytes(configJSON(m))},
		{Name: "index.json", Data: views.Index(m, t.built)},
		{Name: "metadata", Dir: metadataDir(m.Metadata)},
		{Name: "metadata.json", Data: metadataJSON(m.Metadata)},
		{Name: "source", Dir: sourceDir(m.Sources)},
	}
	for i := range t.built {
		t.root = append(t.root, fs.Entry{Name: t.built[i].Name, Dir: &viewDir{view: &t.built[i]}})
	}
	sortEntries(t.root)
	return t
}

func sortEntries(e fs.Entries) {
	slices.SortFunc(e, func(a, b fs.Entry) int { return strings.Compare(a.Name, b.Name) })
}

// viewDir is a view as a directory. Entries are made when they are asked for;
// the ones that are being read are kept, so that a read makes nothing.
type viewDir struct {
	view   *views.Built
	recent [64]atomic.Pointer[recentEntry]
}

type recentEntry struct {
	i     int
	entry fs.Entry
}

var _ fs.Files = (*viewDir)(nil)

func (d *viewDir) Len() int { return d.view.Tensors.Len() }

// Name returns the name of entry i without making the entry.
func (d *viewDir) Name(i int) string { return d.view.Tensors.Name(i) }

func (d *viewDir) Entry(i int) fs.Entry {
	slot := &d.recent[i%len(d.recent)]
	if r := slot.Load(); r != nil && r.i == i {
		return r.entry
	}
	t := d.view.Tensors.At(i)
	e := fs.Entry{Name: t.Name, Data: t.Data, Attrs: func() []fs.Attr { return attrs(d.view.Name, &t) }}
	slot.Store(&recentEntry{i, e})
	return e
}

// maxAttr is the longest value that Linux lets an extended attribute have.
const maxAttr = 1 << 16

// attrs are the extended attributes of a tensor file.
func attrs(view string, t *tensorfs.Tensor) []fs.Attr {
	var out []fs.Attr
	for _, p := range views.Properties(view, t) {
		switch p.Name {
		case "bytes": // that is the file's size
			continue
		case "source_name_base64": // an attribute takes any bytes
			p.Name, p.Value = "source_name", []byte(t.Source)
		}
		if len(p.Value) <= maxAttr {
			out = append(out, fs.Attr{Name: "user.tensorfs." + p.Name, Value: p.Value})
		}
	}
	return out
}

// metadataDir has one file per key.
func metadataDir(metas []tensorfs.Meta) fs.Entries {
	out := make(fs.Entries, 0, len(metas))
	for _, m := range metas {
		out = append(out, fs.Entry{Name: names.Escape(m.Key), Data: views.NewText(1, func(dst []byte, _ int) []byte { return m.AppendText(dst) })})
	}
	sortEntries(out)
	return out
}

// metadataJSON has the same keys as metadataDir, in the order of the source.
func metadataJSON(metas []tensorfs.Meta) *views.Text {
	return views.NewText(len(metas)+1, func(dst []byte, i int) []byte {
		switch {
		case i == len(metas) && i == 0:
			return append(dst, "{}\n"...)
		case i == len(metas):
			return append(dst, "\n}\n"...)
		case i == 0:
			dst = append(dst, "{\n"...)
		default:
			dst = append(dst, ",\n"...)
		}
		dst = append(tensorfs.AppendJSONString(dst, names.Escape(metas[i].Key)), ": "...)
		return metas[i].AppendJSON(dst)
	})
}

// configJSON is the model's config in the schema that all formats share.
func configJSON(m *tensorfs.Model) []byte {
	return config.AppendJSON(nil, m.Config, tensorfs.Field{Name: "layout", Value: m.Layout})
}

// sourceDir links to the files that the model consists of.
func sourceDir(sources []tensorfs.Source) fs.Entries {
	var out fs.Entries
	for i := 0; i < len(sources); {
		name, _, nested := strings.Cut(sources[i].Name, "/")
		if !nested {
			out = append(out, fs.Entry{Name: name, Link: sources[i].Path})
			i++
			continue
		}
		var below []tensorfs.Source
		for ; i < len(sources) && strings.HasPrefix(sources[i].Name, name+"/"); i++ {
			below = append(below, tensorfs.Source{Name: sources[i].Name[len(name)+1:], Path: sources[i].Path})
		}
		out = append(out, fs.Entry{Name: name, Dir: sourceDir(below)})
	}
	sortEntries(out)
	return out
}
