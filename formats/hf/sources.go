package hf

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/source"
)

// auxiliary are the kinds of files besides the weights that belong to a model.
var auxiliary = map[string]bool{
	".json": true, ".jsonl": true, ".jinja": true, ".model": true, ".txt": true, ".tiktoken": true, ".vocab": true, ".md": true, ".py": true,
}

// recipe describes a merge; mergekit writes it beside the model.
const recipe = "mergekit_config.yml"

// others are prefixes of such files that belong to something else.
var others = []string{".", "adapter", "consolidated", "pytorch_model", "tf_model", "flax_model"}

// sources lists the files of the model that hold no tensors.
func (b *builder) sources() {
	if !b.isDirectory {
		return
	}
	modules := b.modules()
	for _, e := range b.dir.entries {
		name := e.Name()
		isForeign := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		kind := auxiliary[path.Ext(name)] || strings.HasPrefix(name, "LICENSE") || strings.HasPrefix(name, "NOTICE") || name == recipe
		if !kind || !tensorfs.ValidName(name) || slices.ContainsFunc(others, isForeign) && !(name == adapter.ConfigName && b.model.Format == adapter.Format) || slices.Contains(b.set.weights, name) {
			continue
		}
		if strings.HasSuffix(name, indexSuffix) && (b.set.index == nil || name != b.set.index.name) {
			continue
		}
		b.addSource(e, name, name)
	}
	b.tokenizerOfPart()
	for _, e := range b.dir.entries {
		if below := subfolder(e.Name()); below != nil && !e.Type().IsRegular() && !slices.Contains(modules, e.Name()) {
			b.sourcesBelow(e.Name(), below)
		}
	}
	for _, folder := range modules {
		b.sourcesBelow(folder, moduleFile)
	}
}

// modules returns the folders of a sentence-transformers model that modules.json lists, by
// their paths in the model's directory. One outside of it is not the model's.
func (b *builder) modules() (list []string) {
	if !b.dir.has(modulesName) {
		return nil
	}
	f, err := b.dir.take(modulesName)
	if err != nil {
		return nil // addSource reports the problem
	}
	defer f.Close()
	text, err := source.ReadAll(f, f.Path(), maxModules)
	all, jsonErr := jsonobj.ParseRaw(slices.Concat([]byte(`{"all":`), text, []byte("}")))
	if err != nil || jsonErr != nil || all.Member("all").Kind() != '[' {
		return nil // sentence-transformers reports what is wrong with it
	}
	for m := range all.Member("all").Elements() {
		said := m.Member("path").Text()
		folder := path.Clean(said)
		switch {
		case said == "" || folder == ".": // the transformer, in the model's own directory
		case !fs.ValidPath(folder) || slices.ContainsFunc(strings.Split(folder, "/"), func(part string) bool { return !tensorfs.ValidName(part) }):
			b.warn("%s: the module %s is left out: its path leads out of the model's directory, or is not a path", modulesName, tensorfs.Quote(said))
		case !slices.Contains(list, folder):
			list = append(list, folder)
		}
		if len(list) == maxBelow {
			break
		}
	}
	return list
}

// modulesName is the list of a sentence-transformers model's modules.
const modulesName = "modules.json"

// maxModules bounds it.
const maxModules = 1 << 20

// moduleFile reports whether a file of a module's folder belongs to the model: its
// description or its weights.
func moduleFile(file string) bool {
	return auxiliary[path.Ext(file)] || path.Ext(file) == ".safetensors" || path.Ext(file) == ".bin"
}

// tokenizerOfPart lists the files of the tokenizer that a pipeline of diffusers keeps in another
// directory than the text encoder, as if they were beside its weights.
func (b *builder) tokenizerOfPart() {
	src, pipeline := b.dir.src, path.Dir(b.dir.path)
	tokenizer := images.TokenizerOf(path.Base(b.dir.path))
	if tokenizer == "" {
		return
	}
	above, err := src.ReadDir(pipeline)
	if err != nil || !slices.ContainsFunc(above, func(e fs.DirEntry) bool { return e.Name() == images.PipelineFile }) {
		return
	}
	entries, err := src.ReadDir(path.Join(pipeline, tokenizer))
	if err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return b.dir.has(e.Name()) }) {
		return // it has a tokenizer of its own
	}
	for _, e := range entries {
		if auxiliary[path.Ext(e.Name())] && tensorfs.ValidName(e.Name()) {
			b.addSource(e, path.Join("..", tokenizer, e.Name()), e.Name())
		}
	}
}

// addSource lists a file by a label, unless it is a directory or a link that leads nowhere.
func (b *builder) addSource(e fs.DirEntry, name, label string) {
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
		b.model.Sources = append(b.model.Sources, source.Unopened(b.dir.src, b.dir.name(name), label))
	}
}

// maxBelow bounds the subfolders of a model and their files, together.
const maxBelow = 100

// subfolder returns a function that reports which files below a folder of that name belong
// to the model, nil if none do.
func subfolder(name string) func(file string) bool {
	if name == "additional_chat_templates" {
		return func(file string) bool { return path.Ext(file) == ".jinja" }
	}
	// A module of sentence-transformers: 1_Pooling.
	number, class, ok := strings.Cut(name, "_")
	if ok && number != "" && strings.Trim(number, "0123456789") == "" && class != "" && tensorfs.ValidName(name) {
		return func(file string) bool { return file == "config.json" }
	}
	return nil
}

// sourcesBelow lists files of a subfolder.
func (b *builder) sourcesBelow(folder string, belongs func(file string) bool) {
	if b.below++; b.below > maxBelow {
		return
	}
	entries, err := b.dir.src.ReadDir(b.dir.name(folder))
	if errors.Is(err, source.ErrLink) {
		b.warn("%s is left out: %v", folder, err)
	}
	for _, e := range entries {
		if !belongs(e.Name()) || !tensorfs.ValidName(e.Name()) {
			continue
		}
		if b.below++; b.below > maxBelow {
			b.warn("some files in %s are left out: at most %d in folders belong to a model", folder, maxBelow)
			return
		}
		b.addSource(e, folder+"/"+e.Name(), folder+"/"+e.Name())
	}
}
