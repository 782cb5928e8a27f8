package hf

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/source"
)

// maxWarnings bounds what a strange model says about itself.
const maxWarnings = 50

// builder makes a model of a set of files.
type builder struct {
	model  tensorfs.Model
	dir    *folder // of the files
	set    *fileSet
	whole  bool // the directory is the model, not only its one file
	config jsonobj.Object
	// generation_config.json and hf_quant_config.json, without keys where there is none
	generation, modelOpt jsonobj.Object

	maps    []source.File       // by set.weights
	files   []*safetensors.File // as parsed
	tensors []tensorfs.Tensor   // in the order of the files
	in      []int32             // of tensors: the file that they are in, of set.weights
	place   map[string]int32    // source name to place in tensors
	names   []names.Result      // of tensors
	taken   map[string]bool     // names in use; nil until somebody asks
	dropped int                 // warnings beyond maxWarnings
}

// warn notes what a user should know.
func (b *builder) warn(format string, args ...any) {
	if len(b.model.Warnings) >= maxWarnings {
		b.dropped++
		return
	}
	b.model.Warnings = append(b.model.Warnings, fmt.Sprintf(format, args...))
}

// build opens the files and makes the model.
func (b *builder) build() (*tensorfs.Model, error) {
	err := b.load()
	if err == nil && b.set.index != nil {
		err = b.checkIndex()
	}
	if err != nil {
		for _, m := range b.maps {
			m.Close()
		}
		return nil, err
	}
	b.complete()
	return b.finish()
}

// load opens and parses the weight files.
func (b *builder) load() error {
	b.place = make(map[string]int32)
	for i, name := range b.set.weights {
		m, err := b.dir.take(name)
		if err != nil {
			return err
		}
		m.SetLabel(label(name))
		b.maps = append(b.maps, m)
		f, err := safetensors.Parse(m)
		if err != nil {
			return standIn(m, err)
		}
		b.files = append(b.files, f)
		for _, w := range f.Warnings {
			b.warn("%s", w)
		}
		for _, e := range f.Tensors {
			if other, dup := b.place[e.Name]; dup {
				return &tensorfs.FormatError{File: m.Path(), Tensor: e.Name, Offset: e.Offset,
					Problem: fmt.Sprintf("the name stands in %s too, and only one of the two can be shown", tensorfs.Quote(b.fileOf(other))),
					Advice:  "remove the file that does not belong to the model"}
			}
			b.place[e.Name] = int32(len(b.tensors))
			b.in = append(b.in, int32(i))
			b.tensors = append(b.tensors, tensorfs.Tensor{Source: e.Name, DType: e.DType, Shape: e.Shape, Data: e.Data})
		}
		if t := m.ModTime(); t.After(b.model.ModTime) {
			b.model.ModTime = t
		}
	}
	return nil
}

// fileOf returns the name of the file that a tensor is in.
func (b *builder) fileOf(tensor int32) string { return b.set.weights[b.in[tensor]] }

// label is a file's name below source/.
func label(name string) string {
	if tensorfs.ValidName(name) {
		return name
	}
	return names.Escape(name)
}

// checkIndex compares the index with what the files hold.
func (b *builder) checkIndex() error {
	x := b.set.index
	for tensor, place := range x.places.All() {
		problem, file := "", place.Text()
		if i, ok := b.place[tensor]; !ok {
			problem = fmt.Sprintf("the index places it in %s, which does not have it", tensorfs.Quote(file))
		} else if has := b.fileOf(i); has != file {
			problem = fmt.Sprintf("the index places it in %s, but it stands in %s", tensorfs.Quote(file), tensorfs.Quote(has))
		}
		if problem != "" {
			return &tensorfs.FormatError{File: x.path, Tensor: tensor, Offset: -1, Problem: problem,
				Advice: "fetch index and files again; they are not of one revision"}
		}
	}
	extra, first := 0, ""
	for i := range b.tensors {
		if x.places.Raw(b.tensors[i].Source).Kind() == 0 {
			if extra++; extra == 1 {
				first = b.tensors[i].Source
			}
		}
	}
	if extra > 0 {
		b.warn("%s does not name %d of the tensors in its files, the first is %s", indexName, extra, tensorfs.Quote(first))
	}
	return nil
}

// complete gives the tensors names and meaning and the model all else.
func (b *builder) complete() {
	b.model.Architecture = "unknown"
	if b.whole && b.config.Len() > 0 {
		b.model.Architecture = config.Architecture(b.config.Lookup)
	}
	src := make([]names.Source, len(b.tensors))
	for i := range b.tensors {
		src[i] = names.Source{Name: b.tensors[i].Source, Shape: b.tensors[i].Shape}
	}
	b.names = names.Map(names.HF, b.model.Architecture, src)
	for i := range b.names {
		b.tensors[i].Name = b.names[i].Name
		if r := b.names[i].Reason; r != "" {
			b.warn("%s", r)
		}
	}
	label := b.quantise()
	b.fields()
	b.apart()
	b.metadata(label)
	b.sources()
	if b.dropped > 0 {
		b.model.Warnings = append(b.model.Warnings, fmt.Sprintf("%d more warnings like these", b.dropped))
	}
}

// apart marks the tensors that are several in one and do not hold these part
// after part, and says so once.
func (b *builder) apart() {
	dim, told := b.model.Dim(), false
	for i := range b.tensors {
		t := &b.tensors[i]
		name := t.Weight()
		if t.Apart = names.Apart(b.model.Architecture, name, t.Numbers(), dim); t.Apart != "" && !told {
			told = true
			b.warn("%s and others like it: %s; the fused views leave them out", name, t.Apart)
		}
	}
}

// finish hands the files to the model.
func (b *builder) finish() (*tensorfs.Model, error) {
	b.model.Tensors = b.tensors
	closers := make([]io.Closer, len(b.maps))
	for i, m := range b.maps {
		closers[i] = m
	}
	return tensorfs.NewModel(b.model, closers...)
}

// fields derives config.json of the tree.
func (b *builder) fields() {
	shapes := make(map[string][]int64, len(b.tensors))
	layers := 0
	for i := range b.tensors {
		t := &b.tensors[i]
		if !b.names[i].Mapped {
			continue
		}
		name := t.Weight()
		shapes[name] = t.Numbers()
		if rest, ok := strings.CutPrefix(name, "layers."); ok {
			number, _, _ := strings.Cut(rest, ".")
			if n, err := strconv.Atoi(number); err == nil {
				layers = max(layers, n+1)
			}
		}
	}
	var get config.Lookup
	if b.config.Len() > 0 {
		get = b.config.Lookup
	}
	b.model.Config = config.FromHF(get, func(name string) ([]int64, bool) {
		s, ok := shapes[name]
		return s, ok
	}, layers)
}

// auxiliary are the kinds of files beside the weights that belong to a model.
var auxiliary = map[string]bool{
	".json": true, ".jinja": true, ".model": true, ".txt": true, ".tiktoken": true, ".vocab": true, ".md": true, ".py": true,
}

// foreign are prefixes of such files that belong to something else.
var foreign = []string{".", "adapter", "consolidated", "pytorch_model", "tf_model", "flax_model"}

// sources lists the files that the model consists of.
func (b *builder) sources() {
	for _, m := range b.maps {
		b.model.Sources = append(b.model.Sources, tensorfs.Source{Name: m.Label(), Path: m.Path()})
	}
	if !b.whole {
		return
	}
	for _, e := range b.dir.entries {
		name := e.Name()
		isForeign := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		kind := auxiliary[path.Ext(name)] || strings.HasPrefix(name, "LICENSE") || strings.HasPrefix(name, "NOTICE")
		if !kind || !tensorfs.ValidName(name) || slices.ContainsFunc(foreign, isForeign) || slices.Contains(b.set.weights, name) {
			continue
		}
		if strings.HasSuffix(name, ".safetensors.index.json") && (name != indexName || b.set.index == nil) {
			continue
		}
		isFile := e.Type().IsRegular()
		if e.Type()&fs.ModeSymlink != 0 {
			f, err := b.dir.take(name)
			if isFile = err == nil; isFile {
				f.Close()
			} else {
				b.warn("%s is left out: %v", tensorfs.Printable(name), err)
			}
		}
		if isFile {
			b.model.Sources = append(b.model.Sources, tensorfs.Source{Name: name, Path: b.dir.location(name)})
		}
	}
}
