package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/stores"
	"github.com/tensorfs/tensorfs/internal/verify"
	"github.com/tensorfs/tensorfs/views/tree"
)

// exportTo is what flags say of the store of another program: the model's name there.
type exportTo struct {
	ollama, lmstudio, hfCache string
	as                        string // the name too, see settle
	adapter                   string // the form in which the adapter is written
	kind                      string // what LM Studio gets, mlx or gguf; "" follows from the flags
	copy                      bool
}

const lmStudioFlag = "to-lmstudio"

// toStores are the stores. named finds the store and the model's name there, before
// anything is opened, and write puts the model there.
var toStores = []struct {
	flag, value string
	own         func(model string) string // the name that a model has already, or ""
	asked       func(*exportTo) *string
	named       func(*toStore) error
	write       func(*toStore, context.Context) (*stores.Report, error)
}{
	{"to-ollama", "NAME[:TAG]", nil, func(to *exportTo) *string { return &to.ollama }, (*toStore).nameOllama, (*toStore).ollama},
	{lmStudioFlag, "PUBLISHER/NAME", stores.LMStudioName, func(to *exportTo) *string { return &to.lmstudio }, (*toStore).nameLMStudio, (*toStore).lmstudio},
	{"to-hf-cache", "ORG/NAME", stores.RepositoryOf, func(to *exportTo) *string { return &to.hfCache }, (*toStore).nameHFCache, (*toStore).hfCache},
}

// arguments checks how many arguments there are: a model for a store, or what is exported to a directory.
func (to *exportTo) arguments(_ *cobra.Command, args []string) error {
	store, err := to.asked()
	switch {
	case err != nil:
		return err
	case store < 0 && to.adapter != "":
		return between(2, 2)(nil, args)
	case store < 0:
		return between(3, math.MaxInt)(nil, args)
	}
	name, model, err := to.nameAndModel(store, args)
	if err == nil && isPath(name) && !isPath(model) && !formats.IsName(model) {
		return cli.UsageError{Err: fmt.Errorf("the name comes before the model; did you mean tensorfs export --%s %s?", toStores[store].flag, line([]string{model, name}))}
	}
	return err
}

// nameAndModel determines the model's name in a store and the model. The name is the flag's
// value. Some users write it with --as instead, in any order, or leave it out because the
// model has a name already; then the flag has taken the model for its value, or --as.
func (to *exportTo) nameAndModel(store int, args []string) (name, model string, err error) {
	s := toStores[store]
	name = *s.asked(to)
	as := to.as
	if rest, ok := strings.CutPrefix(name, "--as="); ok {
		name, as = "", rest
	} else if name == "--as" && len(args) > 0 {
		name, as, args = "", args[0], args[1:]
	}
	switch {
	case name != "" && len(args) == 0 && (as != "" || isPath(name) || formats.IsName(name)):
		name, args = as, []string{name}
		if name == "" && s.own != nil {
			name = s.own(args[0])
		}
	case name == "":
		name = as
	case as != "":
		return "", "", cli.UsageError{Err: fmt.Errorf("--%s %s and --as both name the model; leave one out", s.flag, tensorfs.Printable(name))}
	}
	if s.flag == lmStudioFlag && len(args) == 2 && slices.Contains([]string{"gguf", "mlx"}, args[1]) {
		to.kind, args = args[1], args[:1]
	}
	switch {
	case name == "" || len(args) == 0:
		return "", "", cli.UsageError{Err: fmt.Errorf("--%s takes a name and the model: tensorfs export --%[1]s %s MODEL", s.flag, s.value)}
	case len(args) > 1:
		return "", "", cli.UsageError{Err: fmt.Errorf("--%s takes a name and a model, and nothing else; usage: tensorfs export --%[1]s %s MODEL", s.flag, s.value)}
	}
	return name, args[0], nil
}

// isPath reports whether a file or directory has that name.
func isPath(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// asked returns the store that flags ask for, -1 for none.
func (to *exportTo) asked() (store int, err error) {
	store = -1
	for i, s := range toStores {
		switch {
		case *s.asked(to) == "":
		case store >= 0:
			return -1, cli.UsageError{Err: fmt.Errorf("--%s and --%s exclude each other", toStores[store].flag, s.flag)}
		default:
			store = i
		}
	}
	if to.as != "" && store < 0 {
		return -1, cli.UsageError{Err: errors.New("--as names a model for another program: --to-ollama, --to-lmstudio or --to-hf-cache")}
	}
	if to.copy && store < 0 {
		return -1, cli.UsageError{Err: errors.New("--copy is for models that other programs get: --to-ollama, --to-lmstudio or --to-hf-cache")}
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
	Store      string             `json:"store"` // its directory
	Name       string             `json:"name"`
	Path       string             `json:"path"` // of the manifest, the model's file or the snapshot
	Files      []stores.Placed    `json:"files"`
	Template   string             `json:"template,omitempty"` // Ollama's name of how the model chats
	Note       string             `json:"note,omitempty"`
	Unverified *verify.Unverified `json:"unverified,omitempty"`
}

// toStore writes a model into a store.
func (o *exportOptions) toStore(cmd *cobra.Command, store int, args []string) error {
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	name, model, err := o.to.nameAndModel(store, args)
	if err != nil {
		return err
	}
	*toStores[store].asked(&o.to) = name
	s := &toStore{o: o, model: model}
	if err := toStores[store].named(s); err != nil {
		return err
	}
	if s.isOwnName() {
		return o.hubToCache(cmd, model)
	}
	t, err := o.open(model)
	if err != nil {
		return err
	}
	defer t.Model.Close()
	s.tree = t
	facts, never, err := o.facts(t)
	if err != nil {
		return exportAdvice(err)
	}
	var left *verify.Unverified
	bars := []*cli.ProgressBar{}
	draw := func(what string) func(total int64) func(int64) {
		return func(total int64) func(int64) {
			for _, b := range bars {
				b.Clear()
			}
			b := cli.ProgressLater(cmd.ErrOrStderr(), what, total)
			bars = append(bars, b)
			return b.Add
		}
	}
	s.options = stores.Options{
		Export: export.Options{Facts: facts, Jobs: o.jobs, Never: never, Check: t.Model.Check, Progress: draw("export"), Free: o.free},
		Force:  o.force, Copy: o.to.copy, Hashing: draw("hash"),
		Confirm: func(ctx context.Context, digests []string) (err error) {
			left, err = confirmFiles(ctx, t.Model, digests)
			return err
		},
		Wrong: func() bool { return o.remote.wrong() != nil },
	}
	report, err := toStores[store].write(s, ctx)
	for _, b := range bars {
		b.Clear()
	}
	if err != nil {
		return s.failed(ctx, err)
	}
	return s.print(cmd, report, left)
}

// confirmFiles is confirm for files that were hashed on their way: what has the digest of a
// file of the model is that file, also where the cache is too small to have all of it.
func confirmFiles(ctx context.Context, m *tensorfs.Model, digests []string) (*verify.Unverified, error) {
	left, err := verify.Confirm(ctx, m)
	if left == nil || err != nil {
		return nil, err
	}
	for _, s := range m.Sources {
		if want, u := verify.UnverifiedSource(m, s.Name); want != "" && slices.Contains(digests, string(want)) {
			left.Files, left.Here, left.Bytes = left.Files-u.Files, left.Here-u.Here, left.Bytes-u.Bytes
		}
	}
	if left.Files == 0 {
		return nil, nil
	}
	return left, nil
}

// failed adds what to do to an error.
func (s *toStore) failed(ctx context.Context, err error) error {
	switch {
	case s.o.remote.wrong() != nil:
		return fmt.Errorf("%w; nothing of the model is in %s", s.o.remote.wrong(), tensorfs.Printable(s.dir))
	case ctx.Err() != nil:
		return errors.New("interrupted; the same command goes on where this one stopped")
	case cli.IsA[*tensorfs.ChangedError](err):
		changed, _ := errors.AsType[*tensorfs.ChangedError](err)
		return fmt.Errorf("%s: the file changed while the model was exported; run the command again", tensorfs.Printable(changed.File))
	case errors.Is(err, fs.ErrPermission) && !cli.IsA[*tensorfs.FormatError](err):
		return fmt.Errorf("%w; run the command as the owner of %s or as root, or name another store", err, tensorfs.Printable(s.dir))
	case errors.Is(err, stores.ErrExists):
		return fmt.Errorf("%w; choose another name, or --force to replace it", err)
	}
	return exportAdvice(err)
}

// print reports what was written.
func (s *toStore) print(cmd *cobra.Command, r *stores.Report, left *verify.Unverified) error {
	if s.o.json {
		return cli.PrintJSON(cmd.OutOrStdout(), exportToReport{s.dir, s.name, r.Path, r.Files, r.Chat, s.note, left})
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
	text := fmt.Sprintf("%s in %s: %s, %s", tensorfs.Printable(s.name), tensorfs.Printable(s.dir), cli.Plural(len(r.Files), "file"), cli.Size(bytes))
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
		return cli.UsageError{Err: fmt.Errorf("--to-ollama: %w", err)}
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
	s.name = strings.TrimPrefix(s.o.to.lmstudio, environ.LMStudio)
	if !stores.IsRepository(s.name) {
		return cli.UsageError{Err: fmt.Errorf("--to-lmstudio %s: want PUBLISHER/NAME, as LM Studio names models", tensorfs.Quote(s.name))}
	}
	if len(s.o.LoRA) > 0 && s.name == stores.RepositoryOf(s.model) {
		return errAnother
	}
	types := s.o.GGUFType + s.o.TypesFrom
	switch mlx := s.o.AsksMLX(); {
	case mlx && (types != "" && s.o.to.kind == "" || s.o.to.kind == "gguf"):
		return cli.UsageError{Err: errors.New("--to-lmstudio writes gguf/ or mlx/, and the flags are about the types of both; leave --mlx-bits or --gguf-type out")}
	case types != "" && s.o.to.kind == "mlx":
		return cli.UsageError{Err: errors.New("--to-lmstudio NAME MODEL mlx writes mlx/, which has no types of gguf/; leave --gguf-type out, or give --mlx-bits")}
	case mlx:
		s.o.to.kind = "mlx"
	}
	s.dir, err = environ.LMStudioModels()
	return err
}

// errAnother is the error of an adapted model with its base's name.
var errAnother = cli.UsageError{Err: errors.New("with --lora it is another model than the one of that name; choose another name")}

func (s *toStore) nameHFCache() (err error) {
	name := strings.TrimPrefix(s.o.to.hfCache, hub.Prefix)
	switch s.name = hub.Prefix + name; {
	case !stores.IsRepository(name):
		return cli.UsageError{Err: fmt.Errorf("--to-hf-cache %s: want ORG/NAME, as the Hugging Face cache names models", tensorfs.Quote(name))}
	case s.isOwnName() && len(s.o.LoRA) > 0:
		return errAnother
	}
	s.dir, err = environ.HuggingFaceCache(environ.Process)
	return err
}

// isOwnName reports whether the model is to be in the Hugging Face cache under its name on the Hub: a repository that
// comes as it is.
func (s *toStore) isOwnName() bool {
	own := stores.RepositoryOf(s.model)
	return own != "" && s.name == hub.Prefix+own
}
