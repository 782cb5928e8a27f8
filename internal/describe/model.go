package describe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/internal/memory"
	"github.com/tensorfs/tensorfs/internal/verify"
	"github.com/tensorfs/tensorfs/views/tree"
)

// IsRemote reports whether files of a model are on other machines.
func IsRemote(m *tensorfs.Model) bool {
	return slices.ContainsFunc(m.Sources, func(s tensorfs.Source) bool { return !s.Local() })
}

// describeAdapters lists the adapters applied to a model, or describes a model that is an
// adapter itself.
func (info *Info) describeAdapters(m *tensorfs.Model) {
	for _, a := range m.Adapters {
		applied := appliedLoRA{Source: a.Source, Scale: a.Scale}
		for i := range m.Tensors {
			if c := m.Tensors[i].Change; c != nil && slices.Contains(c.By, a) {
				applied.Tensors++
			}
		}
		info.LoRA = append(info.LoRA, applied)
	}
	if !adapter.Is(m) {
		return
	}
	a, err := adapter.Of(m)
	if err != nil {
		info.Adapter = &adapterInfo{Targets: []string{}, Problem: tensorfs.OneLine(err.Error())}
		return
	}
	info.Adapter = &adapterInfo{Kind: a.Kind, Rank: a.Rank, Alpha: a.Alpha, Base: a.Base, Targets: append([]string{}, a.Targets...)}
}

// TypeShare adds up the tensors of one stored type.
type TypeShare struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`
}

// ViewCount is how much of a model a view shows.
type ViewCount struct {
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

type Info struct {
	Name          string             `json:"name"`
	Model         string             `json:"model"` // as it was named
	Path          string             `json:"path"`
	Revision      string             `json:"revision,omitempty"` // of a repository in the Hugging Face cache
	Format        string             `json:"format"`
	Architecture  string             `json:"architecture"`
	Layout        string             `json:"layout"`
	Tensors       int                `json:"tensors"`
	Elements      int64              `json:"elements"`
	Parameters    *int64             `json:"parameters,omitempty"` // nil if codes are not decoded
	Quant         string             `json:"quant,omitempty"`
	BitsPerWeight *float64           `json:"bits_per_weight,omitempty"`
	Bytes         int64              `json:"bytes"`
	Memory        memoryNeed         `json:"memory"`
	Files         int                `json:"files"`
	MetadataKeys  int                `json:"metadata_keys"`
	Types         []TypeShare        `json:"types"`
	Views         []ViewCount        `json:"views"`
	Whole         []wholeInfo        `json:"whole"`
	Config        json.RawMessage    `json:"config"`
	Assumed       []string           `json:"assumed"`
	LoRA          []appliedLoRA      `json:"lora,omitempty"`    // adapters that change tensors, in order
	Adapter       *adapterInfo       `json:"adapter,omitempty"` // of a model that is one
	Merge         *MergeInfo         `json:"merge,omitempty"`   // of a model that a recipe describes
	Warnings      []string           `json:"warnings"`
	Unverified    *verify.Unverified `json:"unverified,omitempty"` // of a model on another machine

	LayoutNote string `json:"-"` // what the layout means for this model, "" if nothing
	Vocabulary bool   `json:"-"` // the model has a tokenizer
	Packed     int    `json:"-"` // tensors whose codes are not decoded
	Quantised  bool   `json:"-"`
}

// Tree collects everything about a model, by the user's name for it.
func Tree(t *tree.Tree, named string) *Info {
	m := t.Model
	info := Model(m, named)
	info.Config, info.LayoutNote = t.ConfigJSON(), t.LayoutNote()
	for _, f := range m.Config {
		if f.Assumed {
			info.Assumed = append(info.Assumed, f.Name)
		}
	}
	for i := range t.Views {
		v := &t.Views[i]
		info.Views = append(info.Views, ViewCount{v.Name, v.Tensors.Len(), v.Absent.Len(), v.Lost()})
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

// Model collects the facts about a model that do not need its tree.
func Model(m *tensorfs.Model, named string) *Info {
	info := &Info{
		Name: NameOf(m, named), Model: named, Path: m.Path, Revision: revisionOf(m), Format: m.Format, Architecture: m.Architecture, Layout: m.Layout,
		Tensors: len(m.Tensors), Files: len(m.Sources), MetadataKeys: len(m.Metadata),
		Assumed: []string{}, Warnings: append([]string{}, m.Warnings...), Vocabulary: m.Meta("tokenizer.ggml.tokens") != nil,
	}
	info.describeAdapters(m)
	if m.Merge != nil {
		info.Merge = &MergeInfo{m.Merge.Method, m.Merge.Names}
	}
	info.countTypes(m)
	info.countParameters(m)
	return info
}

// countTypes adds up the tensors by their stored types, largest first.
func (info *Info) countTypes(m *tensorfs.Model) {
	byType := map[string]*TypeShare{}
	for i := range m.Tensors {
		t := m.Tensors[i].Stored()
		info.Bytes += t.Data.Size()
		if t.Owner == "" {
			n, _ := tensorfs.Elements(t.Numbers())
			info.Elements += n
		}
		name := StoredType(t)
		s := byType[name]
		if s == nil {
			s = &TypeShare{Type: name}
			byType[name] = s
		}
		s.Tensors++
		s.Bytes += t.Data.Size()
	}
	info.Memory.Stored = info.Bytes
	info.Types = []TypeShare{}
	for _, s := range byType {
		info.Types = append(info.Types, *s)
	}
	slices.SortFunc(info.Types, func(a, b TypeShare) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Type, b.Type))
	})
}

// StoredType names the type that a tensor is stored as; companions count as a
// part of their scheme.
func StoredType(t *tensorfs.Tensor) string {
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

// Stored matches the name of a model in a store, as opposed to a path.
var Stored = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9]+:`) })

// NameOf returns the model's name: its own, the user's name for it, or the name of its file
// or directory.
func NameOf(m *tensorfs.Model, named string) string {
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
	case Stored().MatchString(named):
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
	if name, ok := strings.CutPrefix(m.Name, hub.Prefix); ok && IsRemote(m) {
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
