package hf

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/assemble"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/source"
)

// maxWarnings bounds the warnings about a strange model.
const maxWarnings = 50

// builder makes a model from a set of files.
type builder struct {
	model       tensorfs.Model
	dir         *folder // of the files
	set         *fileSet
	isDirectory bool // the directory is the model, not only its one file
	config      jsonobj.Object
	// generation_config.json, hf_quant_config.json and adapter_config.json, without keys if the
	// file is missing
	generation, modelOpt, adapter jsonobj.Object

	maps    []source.File       // by set.weights
	files   []*safetensors.File // as parsed
	tensors assemble.Tensors    // in the order of the files
	in      []int32             // of tensors: the file that they are in, of set.weights
	taken   map[string]bool     // names in use; nil until needed
	dropped int                 // warnings beyond maxWarnings
	below   int                 // subfolders and files of them so far
	float   *tensorfs.DType     // of config.json; nil until needed
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
	return source.Finish(b.model, b.maps)
}

// load opens and parses the weight files.
func (b *builder) load() error {
	names := make([]string, len(b.set.weights))
	for i, name := range b.set.weights {
		names[i] = b.dir.name(name)
	}
	defer source.Prepare(b.dir.src, names)()
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
			other, ok := b.tensors.Add(tensorfs.Tensor{Source: e.Name, DType: e.DType, Shape: e.Shape, Data: e.Data})
			if !ok {
				return &tensorfs.FormatError{File: m.Path(), Tensor: e.Name, Offset: e.Offset,
					Problem: fmt.Sprintf("the name is in %s too, and only one of the two can be shown", tensorfs.Quote(b.fileOf(other))),
					Advice:  "remove the file that does not belong to the model"}
			}
			b.in = append(b.in, int32(i))
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
	for tensor, value := range x.weightMap.All() {
		problem, file := "", value.Text()
		if i, ok := b.tensors.Find(tensor); !ok {
			problem = fmt.Sprintf("the index places it in %s, which does not have it", tensorfs.Quote(file))
		} else if has := b.fileOf(i); has != file {
			problem = fmt.Sprintf("the index places it in %s, but it is in %s", tensorfs.Quote(file), tensorfs.Quote(has))
		}
		if problem != "" {
			return &tensorfs.FormatError{File: x.path, Tensor: tensor, Offset: -1, Problem: problem,
				Advice: "fetch index and files again; they are not of one revision"}
		}
	}
	extra, first := 0, ""
	for i := range b.tensors.List {
		if name := b.tensors.List[i].Source; x.weightMap.Raw(name).Kind() == 0 {
			if extra++; extra == 1 {
				first = name
			}
		}
	}
	if extra > 0 {
		b.warn("%s does not name %d of the tensors in its files, the first is %s", x.name, extra, tensorfs.Quote(first))
	}
	return nil
}

// complete gives the tensors names and meaning, and the model everything else.
func (b *builder) complete() {
	var get config.Lookup
	if b.config.Len() > 0 {
		get = b.config.Lookup
	}
	b.model.Architecture = "unknown"
	if b.isDirectory && get != nil {
		b.model.Architecture = config.Architecture(get)
	}
	if image := b.image(); image != "" {
		b.model.Architecture, get = image, nil
	}
	for _, w := range b.tensors.Name(names.HF, b.model.Architecture) {
		b.warn("%s", w)
	}
	scheme := b.quantise()
	b.model.Config = b.tensors.Config(get)
	if t := b.tensors.Apart(b.model.Dim()); t != nil {
		b.warn("%s and others like it: %s; the fused views leave them out", t.Weight(), t.Apart)
	}
	b.model.Tensors = b.tensors.List
	b.metadata(scheme)
	b.sources()
	if b.dropped > 0 {
		b.model.Warnings = append(b.model.Warnings, fmt.Sprintf("%d more warnings like these", b.dropped))
	}
}

// image returns the architecture of an image model, "" for all other models. diffusers' config.json
// names a class; the names of the tensors tell the architecture of other files.
func (b *builder) image() string {
	if a := images.OfClass(b.config.Raw("_class_name").Text()); a != nil {
		return a.Name
	}
	if b.model.Architecture != "unknown" || b.model.Format == adapter.Format {
		return ""
	}
	return b.tensors.Image()
}
