package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/memory"
	"github.com/tensorfs/tensorfs/internal/rescue"
	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/views/tree"
)

type infoOptions struct {
	modelFlags
	json          bool
	architectures bool
	metadata      string // the glob of --metadata, "" without
	memory        memoryFlags
}

func (s system) info() *cobra.Command {
	o := &infoOptions{}
	args := func(c *cobra.Command, args []string) error {
		if o.architectures {
			return between(0, 0, "info --architectures takes no model")(c, args)
		}
		return between(1, maxModels)(c, args)
	}
	c := s.command("info", args, flags{"json": &o.json, "architectures": &o.architectures, "metadata": &o.metadata}, o.run)
	c.Flags().Lookup("metadata").NoOptDefVal = "*"
	o.add(s, c)
	o.memory.add(s, c)
	return c
}

// typeShare adds up the tensors of one stored type.
type typeShare struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`
}

// viewCount is how much of a model a view shows.
type viewCount struct {
	Name    string `json:"name"`
	Files   int    `json:"files"`
	Absent  int    `json:"absent"`   // all that index.json lists
	LeftOut int    `json:"left_out"` // of them, what the model has
}

// memoryNeed is what the weights take, in bytes, and everything else on request.
type memoryNeed struct {
	Stored int64  `json:"stored"`
	F16    *int64 `json:"f16,omitempty"` // nil if the parameters are not known

	*memory.Need // with a context in llama.cpp, only on request
}

type modelInfo struct {
	Name          string          `json:"name"`
	Model         string          `json:"model"` // as it was named
	Path          string          `json:"path"`
	Revision      string          `json:"revision,omitempty"` // of a repository in the Hugging Face cache
	Format        string          `json:"format"`
	Architecture  string          `json:"architecture"`
	Layout        string          `json:"layout"`
	Tensors       int             `json:"tensors"`
	Elements      int64           `json:"elements"`
	Parameters    *int64          `json:"parameters,omitempty"` // nil if codes are not decoded
	Quant         string          `json:"quant,omitempty"`
	BitsPerWeight *float64        `json:"bits_per_weight,omitempty"`
	Bytes         int64           `json:"bytes"`
	Memory        memoryNeed      `json:"memory"`
	Files         int             `json:"files"`
	MetadataKeys  int             `json:"metadata_keys"`
	Types         []typeShare     `json:"types"`
	Views         []viewCount     `json:"views"`
	Whole         []wholeInfo     `json:"whole"`
	Config        json.RawMessage `json:"config"`
	Assumed       []string        `json:"assumed"`
	LoRA          []appliedLoRA   `json:"lora,omitempty"`    // adapters that change tensors, in order
	Adapter       *adapterInfo    `json:"adapter,omitempty"` // of a model that is one
	Merge         *mergeInfo      `json:"merge,omitempty"`   // of a model that a recipe describes
	Warnings      []string        `json:"warnings"`
	Unverified    *unverified     `json:"unverified,omitempty"` // of a model on another machine

	layout     string // what the layout means for this model, "" where nothing
	vocabulary bool   // the model has a tokenizer
	packed     int    // tensors whose codes are not decoded
	quantised  bool
}

func (o *infoOptions) run(cmd *cobra.Command, args []string) error {
	if o.architectures {
		return printArchitectures(cmd.OutOrStdout(), o.json)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(server.OpeningGC)) // it opens models, and ends
	if err := o.memory.check(cmd); err != nil {
		return err
	}
	if strings.EqualFold(o.GGUFType, allTypes) {
		if len(args) > 1 {
			return cli.UsageError{Err: errors.New("--gguf-type all is for one model")}
		}
		return o.printSizes(cmd, args[0])
	}
	if o.metadata == "*" && len(args) > 1 && strings.ContainsAny(args[0], "*?[") && !isPath(args[0]) { // the glob without =
		o.metadata, args = args[0], args[1:]
	}
	all := []any{}
	failed := false
	for i, name := range args {
		info, err := o.one(cmd.OutOrStdout(), name, i > 0 && !o.json, len(args) > 1)
		switch {
		case err != nil && len(args) == 1:
			return err
		case err != nil: // the remaining models are still described
			failed = true
			cli.PrintError(cmd.ErrOrStderr(), err, args)
		default:
			all = append(all, info)
		}
	}
	if o.json {
		var what any = all
		if len(args) == 1 {
			what = all[0]
		}
		if err := cli.PrintJSON(cmd.OutOrStdout(), what); err != nil {
			return err
		}
	}
	if failed {
		return cli.Reported{Err: errors.New("some models are not described")}
	}
	return nil
}

// maxModels is how many models a command takes at a time.
const maxModels = 10_000

// one describes a model: on a screen, below others after an empty line, or as the JSON that it returns.
func (o *infoOptions) one(stdout io.Writer, name string, below, several bool) (what any, err error) {
	defer rescue.To(&err, cli.PrintableName(name))
	t, err := o.open(name)
	if err != nil {
		return nil, err
	}
	defer t.Model.Close()
	if o.metadata != "" {
		if below {
			if _, err := fmt.Fprintln(stdout); err != nil {
				return nil, err
			}
		}
		return o.printMetadataOf(stdout, t.Model, conceal.Name(name), several)
	}
	info := describe(t, conceal.Name(name))
	info.Unverified = unverifiedOf(t.Model)
	need, err := o.memory.of(t, !o.json)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cli.PrintableName(name), err)
	}
	if need != nil {
		info.Memory.Need = need.Need
		info.Warnings = append(info.Warnings, need.Warnings...)
	}
	if o.json { // now, while the model is open
		text, err := json.Marshal(info)
		return json.RawMessage(text), err
	}
	if below {
		if _, err := fmt.Fprintln(stdout); err != nil {
			return nil, err
		}
	}
	return nil, (&infoScreen{info: info, memory: need, config: t.Model.Config, width: max(cli.Width(stdout), 60)}).print(stdout)
}

// describe collects everything about a model, by the user's name for it.
func describe(t *tree.Tree, named string) *modelInfo {
	m := t.Model
	info := describeModel(m, named)
	info.Config, info.layout = t.ConfigJSON(), t.LayoutNote()
	for _, f := range m.Config {
		if f.Assumed {
			info.Assumed = append(info.Assumed, f.Name)
		}
	}
	for i := range t.Views {
		v := &t.Views[i]
		info.Views = append(info.Views, viewCount{v.Name, v.Tensors.Len(), len(v.Absent), v.Lost()})
	}
	info.Whole = describeWhole(t)
	for _, w := range info.Whole {
		if note := w.Files.TokenizerNote(); note != "" { // the first one: all say the same
			info.Warnings = append(info.Warnings, w.Name+"/: "+note)
			break
		}
	}
	return info
}

// describeModel collects the facts about a model that do not need its tree.
func describeModel(m *tensorfs.Model, named string) *modelInfo {
	info := &modelInfo{
		Name: nameOf(m, named), Model: named, Path: m.Path, Revision: revisionOf(m), Format: m.Format, Architecture: m.Architecture, Layout: m.Layout,
		Tensors: len(m.Tensors), Files: len(m.Sources), MetadataKeys: len(m.Metadata),
		Assumed: []string{}, Warnings: append([]string{}, m.Warnings...), vocabulary: m.Meta("tokenizer.ggml.tokens") != nil,
	}
	info.describeAdapters(m)
	if m.Merge != nil {
		info.Merge = &mergeInfo{m.Merge.Method, m.Merge.Names}
	}
	info.countTypes(m)
	info.countParameters(m)
	return info
}

// countTypes adds up the tensors by their stored types, largest first.
func (info *modelInfo) countTypes(m *tensorfs.Model) {
	byType := map[string]*typeShare{}
	for i := range m.Tensors {
		t := m.Tensors[i].Stored()
		info.Bytes += t.Data.Size()
		if t.Owner == "" {
			n, _ := tensorfs.Elements(t.Numbers())
			info.Elements += n
		}
		name := storedType(t)
		s := byType[name]
		if s == nil {
			s = &typeShare{Type: name}
			byType[name] = s
		}
		s.Tensors++
		s.Bytes += t.Data.Size()
	}
	info.Memory.Stored = info.Bytes
	info.Types = []typeShare{}
	for _, s := range byType {
		info.Types = append(info.Types, *s)
	}
	slices.SortFunc(info.Types, func(a, b typeShare) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Type, b.Type))
	})
}

// storedType names the type that a tensor is stored as; companions count as a
// part of their scheme.
func storedType(t *tensorfs.Tensor) string {
	switch q := t.Quant; {
	case t.Owner != "":
		return t.DType.String() + " (scales)"
	case q != nil && q.GroupSize > 0:
		return fmt.Sprintf("%s %d-bit, groups of %d", q.Mode, q.Bits, q.GroupSize)
	case q != nil:
		return t.DType.String() + " with scales"
	}
	return t.DType.String()
}

// stored matches the name of a model in a store, as opposed to a path.
var stored = regexp.MustCompile(`^[a-z][a-z0-9]+:`)

// nameOf returns the model's name: its own, the user's name for it, or the name of its file
// or directory.
func nameOf(m *tensorfs.Model, named string) string {
	if s, ok := m.Meta("general.name").(string); ok && strings.TrimSpace(s) != "" {
		return s
	}
	// A relative or absolute path only tells where it was trained.
	if s, ok := m.Meta("config._name_or_path").(string); ok && s != "" && !strings.HasPrefix(s, ".") && strings.Count(s, "/") < 2 && !filepath.IsAbs(s) {
		return s
	}
	switch _, rest, address := strings.Cut(named, "://"); {
	case address:
		rest, _, _ = strings.Cut(rest, "?")
		return path.Base(rest)
	case stored.MatchString(named):
		return named
	}
	if repo := partAfter(m.Path, "models--"); repo != "" { // of the Hugging Face cache
		return strings.ReplaceAll(repo, "--", "/")
	}
	return filepath.Base(m.Path)
}

// revisionOf returns which snapshot of a repository the model is, as the Hugging
// Face cache has it, "" for other models.
func revisionOf(m *tensorfs.Model) string {
	if name, ok := strings.CutPrefix(m.Name, hub.Prefix); ok && isRemote(m) {
		n, _ := hub.ParseName(name) // it was made from one
		return n.Revision
	}
	for _, s := range m.Sources {
		if partAfter(s.Path, "models--") != "" {
			return partAfter(s.Path, "snapshots/")
		}
	}
	return ""
}

// partAfter returns the part of a path after a text up to the next slash, if the text
// begins at a slash; otherwise "".
func partAfter(path, text string) string {
	_, rest, _ := strings.Cut(filepath.ToSlash(path), "/"+text)
	rest, _, _ = strings.Cut(rest, "/")
	return rest
}
