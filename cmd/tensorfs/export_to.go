package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/stores"
	"github.com/tensorfs/tensorfs/views/tree"
	"github.com/tensorfs/tensorfs/views/tree/whole"
)

// exportTo is what flags say of the store of another program.
type exportTo struct {
	ollama   string // of --to-ollama
	lmstudio string // of --to-lmstudio: a name, or byModel
	hfCache  bool
	as       string
	copy     bool
}

// byModel is the value of a flag without one: the model's name gives it.
const byModel = "MODEL"

// toStores are the stores. named finds the store and the model's name there, before
// anything is opened, and write puts the model there.
var toStores = []struct {
	flag, value string
	asked       func(*exportTo) bool
	as          bool // takes --as
	named       func(*toStore) error
	write       func(*toStore, context.Context) (*stores.Report, error)
}{
	{"to-ollama", " NAME[:TAG]", func(to *exportTo) bool { return to.ollama != "" }, false, (*toStore).nameOllama, (*toStore).ollama},
	{"to-lmstudio", "", func(to *exportTo) bool { return to.lmstudio != "" }, true, (*toStore).nameLMStudio, (*toStore).lmstudio},
	{"to-hf-cache", "", func(to *exportTo) bool { return to.hfCache }, true, (*toStore).nameHFCache, (*toStore).hfCache},
}

// asked returns the store that flags ask for, -1 for none.
func (to *exportTo) asked() (store int, err error) {
	store = -1
	for i, s := range toStores {
		switch {
		case !s.asked(to):
		case store >= 0:
			return -1, usageError{fmt.Errorf("--%s and --%s exclude each other", toStores[store].flag, s.flag)}
		default:
			store = i
		}
	}
	switch {
	case to.as != "" && (store < 0 || !toStores[store].as):
		return -1, usageError{errors.New("--as names a model for --to-hf-cache or --to-lmstudio")}
	case to.copy && store < 0:
		return -1, usageError{errors.New("--copy is for models that other programs get: --to-ollama, --to-lmstudio or --to-hf-cache")}
	}
	return store, nil
}

// toStore is a model on its way to a store.
type toStore struct {
	o       *exportOptions
	tree    *tree.Tree
	model   string // as it was named
	options stores.Options

	dir, name string // of the store, and of the model there
	note      string // what a user should know, or ""
}

// exportToReport is the summary for programs.
type exportToReport struct {
	Store      string          `json:"store"` // its directory
	Name       string          `json:"name"`
	Path       string          `json:"path"` // of the manifest, the model's file or the snapshot
	Files      []stores.Placed `json:"files"`
	Template   string          `json:"template,omitempty"` // Ollama's name of how the model chats
	Note       string          `json:"note,omitempty"`
	Unverified *unverified     `json:"unverified,omitempty"`
}

// toStore writes a model into a store.
func (o *exportOptions) toStore(cmd *cobra.Command, store int, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("--%s takes a model and nothing else; usage: tensorfs export --%s%s MODEL", toStores[store].flag, toStores[store].flag, toStores[store].value)}
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	s := &toStore{o: o, model: args[0]}
	if err := toStores[store].named(s); err != nil {
		return err
	}
	if o.to.hfCache && o.to.as == "" {
		return o.hubToCache(cmd, args[0])
	}
	t, err := o.open(args[0])
	if err != nil {
		return err
	}
	defer t.Model.Close()
	s.tree = t
	facts, never, err := o.facts(t)
	if err != nil {
		return exportAdvice(err)
	}
	var left *unverified
	bars := []*bar{}
	draw := func(what string) func(total int64) func(int64) {
		return func(total int64) func(int64) {
			for _, b := range bars {
				b.clear()
			}
			b := progressLater(cmd.ErrOrStderr(), what, total)
			bars = append(bars, b)
			return b.add
		}
	}
	s.options = stores.Options{
		Export: export.Options{Facts: facts, Jobs: o.jobs, Never: never, Check: t.Model.Check, Progress: draw("export"), Free: o.free},
		Force:  o.force, Copy: o.to.copy, Hashing: draw("hash"),
		Confirm: func(ctx context.Context) (err error) { left, err = confirm(ctx, t.Model); return err },
		Wrong:   func() bool { return o.remote.wrong() != nil },
	}
	report, err := toStores[store].write(s, ctx)
	for _, b := range bars {
		b.clear()
	}
	if err != nil {
		return s.failed(ctx, err)
	}
	return s.print(cmd, report, left)
}

// failed says what to do about an error.
func (s *toStore) failed(ctx context.Context, err error) error {
	switch {
	case s.o.remote.wrong() != nil:
		return fmt.Errorf("%w; nothing of the model is in %s", s.o.remote.wrong(), tensorfs.Printable(s.dir))
	case ctx.Err() != nil:
		return errors.New("interrupted; the same command goes on where this one stopped")
	case is[*tensorfs.ChangedError](err):
		changed, _ := errors.AsType[*tensorfs.ChangedError](err)
		return fmt.Errorf("%s: the file changed while the model was exported; run the command again", tensorfs.Printable(changed.File))
	case errors.Is(err, fs.ErrPermission) && !is[*tensorfs.FormatError](err):
		return fmt.Errorf("%w; run the command as the owner of %s or as root, or name another store", err, tensorfs.Printable(s.dir))
	case errors.Is(err, stores.ErrExists):
		return fmt.Errorf("%w; choose another name, or --force to replace it", err)
	}
	return exportAdvice(err)
}

// print says what was written.
func (s *toStore) print(cmd *cobra.Command, r *stores.Report, left *unverified) error {
	if s.o.json {
		return printJSON(cmd.OutOrStdout(), exportToReport{s.dir, s.name, r.Path, r.Files, r.Chat, s.note, left})
	}
	bytes := int64(0)
	how := map[string]int{}
	linked := ""
	for _, f := range r.Files {
		bytes += f.Bytes
		how[f.How]++
		if f.How == stores.Linked {
			linked = f.Origin
		}
	}
	text := fmt.Sprintf("%s in %s: %s, %s", tensorfs.Printable(s.name), tensorfs.Printable(s.dir), plural(len(r.Files), "file"), size(bytes))
	for _, w := range []string{stores.Cloned, stores.There} {
		if how[w] > 0 {
			text += fmt.Sprintf(", %d %s", how[w], map[string]string{stores.Cloned: "cloned", stores.There: "already there"}[w])
		}
	}
	if linked != "" {
		text += fmt.Sprintf(", %d linked: the store's file and %s are one, so do not write to it (--copy makes two)", how[stores.Linked], tensorfs.Printable(linked))
	}
	if s.note != "" {
		text += ", " + s.note
	}
	if left != nil {
		text += ", " + left.String()
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

func (s *toStore) nameOllama() error {
	n, err := ollama.ParseName(strings.TrimPrefix(s.o.to.ollama, ollama.Prefix))
	if err != nil {
		return usageError{fmt.Errorf("--to-ollama: %w", err)}
	}
	if s.dir, err = stores.OllamaDir(); err != nil {
		return err
	}
	if n, err = stores.OllamaName(s.dir, n, s.o.force); err != nil {
		return s.failed(context.Background(), err)
	}
	s.name = ollama.Prefix + n.String()
	return nil
}

func (s *toStore) nameLMStudio() (err error) {
	to := &s.o.to
	switch {
	case to.lmstudio != byModel && to.as != "":
		return usageError{errors.New("--as and a value of --to-lmstudio both name the model; leave one out")}
	case to.lmstudio != byModel:
		to.as = to.lmstudio
	}
	if to.as != "" && !stores.IsRepository(to.as) {
		return usageError{fmt.Errorf("--to-lmstudio: %s is not PUBLISHER/NAME, as LM Studio names models", tensorfs.Quote(to.as))}
	}
	s.name = cmp.Or(to.as, publisherOf(s.model))
	s.dir, err = source.LMStudioModels()
	return err
}

func (s *toStore) nameHFCache() (err error) {
	as := s.o.to.as
	switch {
	case as != "" && !stores.IsRepository(as):
		return usageError{fmt.Errorf("--as %s: want ORG/NAME, as the Hugging Face cache names models", tensorfs.Quote(as))}
	case as == "" && !strings.HasPrefix(s.model, hub.Prefix):
		return usageError{errors.New("--to-hf-cache needs a name: --as ORG/NAME (only a model hf:ORG/NAME has its own)")}
	}
	s.name = hub.Prefix + as
	s.dir, err = source.HuggingFaceCache()
	return err
}

// files are those of a directory of whole models.
func (s *toStore) files(kind string) ([]export.File, error) {
	for _, w := range s.tree.Whole {
		if w.Name != kind {
			continue
		}
		files := w.Files()
		if files.Reason != "" {
			return nil, errors.New(kind + "/ has no files: " + tensorfs.OneLine(files.Reason))
		}
		if why := files.Left[whole.Vision]; why != "" {
			s.note = "without its vision tower: " + tensorfs.OneLine(why)
		}
		var list []export.File
		for _, f := range files.List {
			list = append(list, export.File{Path: f.Path, Data: f.Data})
		}
		return list, nil
	}
	return nil, fmt.Errorf("the tree has no %s/", kind)
}

// gguf returns the files of gguf/, the language model first and then its vision tower, which
// stands beside some models and is not in gguf/: it is called as if it were.
func (s *toStore) gguf() ([]export.File, error) {
	files, err := s.files("gguf")
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(files, languageFirst)
	m := s.tree.Model
	if len(files) > 1 || m.Layout != "gguf" {
		return files, nil
	}
	if d, err := m.File(ollama.Projector); err == nil && m.Format == "ollama" && s.o.mmproj == "" {
		s.note = ""
		return append(files, export.File{Path: towerFile, Data: d}), nil
	}
	t := &towers{flags: &s.o.modelFlags}
	m.Own(t)
	tower, _, err := t.find(m)
	switch {
	case errors.Is(err, whole.ErrNoTower):
		return files, nil
	case err != nil || tower == nil:
		return files, err
	case s.o.mmproj == "" && !towerFits(m, tower):
		s.note = fmt.Sprintf("without %s, whose width is not the model's (--mmproj takes it all the same)", tensorfs.Printable(filepath.Base(tower.Path)))
		return files, nil
	}
	d, err := tower.File(tower.Sources[0].Name)
	if err != nil {
		return nil, err
	}
	if f, ok := d.(interface{ Descriptor() int }); ok { // the model's facts do not have it
		state, err := stateOf(f.Descriptor())
		if err != nil {
			return nil, err
		}
		s.options.Export.Facts = append(s.options.Export.Facts, export.Fact{What: "vision tower", Is: state})
	}
	s.note = ""
	return append(files, export.File{Path: towerFile, Data: d}), nil
}

const (
	languageFile = "model.gguf"
	towerFile    = "mmproj.gguf"
)

// towerFits reports whether a vision tower that stands beside a model may be the model's: it
// ends in the width of the embeddings.
func towerFits(m, tower *tensorfs.Model) bool {
	width := int64(-1)
	for _, meta := range m.Metadata {
		if n, ok := meta.Value.(uint32); ok && strings.HasSuffix(meta.Key, ".embedding_length") {
			width = int64(n)
			break
		}
	}
	for _, meta := range tower.Metadata {
		if n, ok := meta.Value.(uint32); ok && strings.HasSuffix(meta.Key, ".projection_dim") && int64(n) == width {
			return true
		}
	}
	return slices.ContainsFunc(tower.Tensors, func(t tensorfs.Tensor) bool { // old files say another width
		return (strings.HasPrefix(t.Source, "mm.") || strings.HasPrefix(t.Source, "resampler.")) && slices.Contains(t.Shape, width)
	})
}

// languageFirst orders the files of gguf/.
func languageFirst(a, b export.File) int {
	rank := func(f export.File) int {
		if f.Path == languageFile {
			return 0
		}
		return 1
	}
	return rank(a) - rank(b)
}

// ollama writes gguf/ into Ollama's store. What another model of Ollama has beside it, the
// new one has too.
func (s *toStore) ollama(ctx context.Context) (*stores.Report, error) {
	n, err := ollama.ParseName(strings.TrimPrefix(s.name, ollama.Prefix))
	if err != nil {
		return nil, err
	}
	files, err := s.gguf()
	if err != nil {
		return nil, err
	}
	parent := stores.Parent{Kinds: map[string]string{towerFile: "projector"}}
	if m := s.tree.Model; m.Format == "ollama" {
		parent.Name = strings.TrimPrefix(m.Name, ollama.Prefix)
		if parent.Layers, parent.Config, err = ollama.KeptLayers(m, parent.Name); err != nil {
			return nil, err
		}
		for _, w := range ollama.OtherWeights(m) {
			d, err := m.File(w.Name)
			if err != nil {
				return nil, err
			}
			files = append(files, export.File{Path: w.Name, Data: d})
			parent.Kinds[w.Name] = w.Kind
		}
	}
	return stores.Ollama(ctx, s.dir, n, files, parent, s.options)
}

// lmstudio writes gguf/ into LM Studio's folder. The language model comes last: LM Studio is
// not to see it without its tower.
func (s *toStore) lmstudio(ctx context.Context) (*stores.Report, error) {
	files, err := s.gguf()
	if err != nil {
		return nil, err
	}
	base := s.name[strings.IndexByte(s.name, '/')+1:]
	switch preset, m := s.o.quantise.preset, s.tree.Model; { // LM Studio takes the type from the name
	case preset != "":
		base += "-" + strings.ToUpper(preset)
	case m.Format == "gguf" && len(m.Sources) == 1:
		base = strings.TrimSuffix(path.Base(m.Sources[0].Name), ".gguf")
	}
	for i := range files {
		switch f := &files[i]; f.Path {
		case languageFile:
			f.Path = base + ".gguf"
		default:
			f.Path = strings.TrimSuffix(f.Path, ".gguf") + "-" + base + ".gguf"
		}
	}
	slices.Reverse(files)
	return stores.LMStudio(ctx, s.dir, s.name, files, s.options)
}

// hfCache writes hf/ into the Hugging Face cache.
func (s *toStore) hfCache(ctx context.Context) (*stores.Report, error) {
	files, err := s.files("hf")
	if err != nil {
		return nil, err
	}
	return stores.HuggingFace(ctx, s.dir, s.o.to.as, files, s.options)
}

// publisherOf is PUBLISHER/NAME of a model in LM Studio, of its name.
func publisherOf(model string) string {
	if text, ok := strings.CutPrefix(model, hub.Prefix); ok {
		if n, err := hub.ParseName(text); err == nil && stores.IsRepository(n.Repository) {
			return n.Repository
		}
	}
	if text, ok := strings.CutPrefix(model, ollama.Prefix); ok {
		if n, err := ollama.ParseName(text); err == nil {
			publisher := n.Namespace
			if short := n.String(); !strings.Contains(short, "/") {
				publisher = "ollama"
			}
			name := n.Model
			if n.Tag != "latest" {
				name += "-" + n.Tag
			}
			return publisher + "/" + name
		}
	}
	if abs, err := filepath.Abs(model); err == nil {
		model = abs
	}
	base := filepath.Base(model)
	for _, suffix := range []string{".gguf", ".safetensors"} {
		base = strings.TrimSuffix(base, suffix)
	}
	if !tensorfs.ValidName(base) || base[0] == '.' || base == "/" {
		base = "model"
	}
	return "local/" + base
}

// hubToCache puts a repository of the Hub into the Hugging Face cache as it is, with its own
// commit: what fetch does.
func (o *exportOptions) hubToCache(cmd *cobra.Command, model string) error {
	if w := o.tree.Whole; w.Dequantise {
		return usageError{errors.New("--dequantise makes another model of it: name that with --as ORG/NAME")}
	}
	return o.fetch(cmd, model, o.json, true)
}
