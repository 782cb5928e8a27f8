package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/memory"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/views/tree"
)

// memoryFlags say for which context info counts the memory that a model takes.
type memoryFlags struct {
	context                      cli.Tokens
	parallel, ubatch, batch      int
	typeK, typeV, flash, outputs string
	unified, swaFull             bool
	gpu                          cli.ByteSize

	asked   bool // one of them is given
	options memory.Options
}

// memoryFlagNames are their names.
var memoryFlagNames = []string{"context", "parallel", "unified", "cache-type-k", "cache-type-v", "flash-attn", "ubatch", "batch", "swa-full", "outputs", "gpu"}

func (f *memoryFlags) add(s system, c *cobra.Command) {
	s.define(c, "info", flags{
		"context": &f.context, "parallel": &f.parallel, "unified": &f.unified, "cache-type-k": &f.typeK, "cache-type-v": &f.typeV,
		"flash-attn": &f.flash, "ubatch": &f.ubatch, "batch": &f.batch, "swa-full": &f.swaFull, "outputs": &f.outputs, "gpu": &f.gpu,
	})
}

// cacheTypes are the types that llama.cpp has for a cache.
var cacheTypes = []tensorfs.DType{tensorfs.F32, tensorfs.F16, tensorfs.BF16, tensorfs.Q8_0, tensorfs.Q4_0, tensorfs.Q4_1, tensorfs.IQ4_NL, tensorfs.Q5_0, tensorfs.Q5_1}

var (
	cacheTypeNames = func() (names []string) {
		for _, t := range cacheTypes {
			names = append(names, strings.ToLower(t.String()))
		}
		return names
	}()
	flashValues  = []string{"on", "off", "auto"}
	outputValues = []string{"server", "all"}
)

// check takes the values of the flags.
func (f *memoryFlags) check(cmd *cobra.Command) error {
	f.asked = slices.ContainsFunc(memoryFlagNames, func(name string) bool { return cmd.Flags().Changed(name) })
	for _, n := range []struct {
		name  string
		value int
	}{{"parallel", f.parallel}, {"ubatch", f.ubatch}, {"batch", f.batch}} {
		if n.value < 0 || n.value == 0 && cmd.Flags().Changed(n.name) {
			return cli.UsageError{Err: fmt.Errorf("--%s %d: want a number of at least 1", n.name, n.value)}
		}
	}
	for _, w := range []struct {
		name, value string
		from        []string
	}{{"cache-type-k", f.typeK, cacheTypeNames}, {"cache-type-v", f.typeV, cacheTypeNames}, {"flash-attn", f.flash, flashValues}, {"outputs", f.outputs, outputValues}} {
		if w.value != "" && !slices.Contains(w.from, strings.ToLower(w.value)) {
			if close := near.Names(w.value, w.from, 3); len(close) > 0 {
				return cli.UsageError{Err: fmt.Errorf("--%s %s: %s", w.name, conceal.Printable(w.value), near.Question(close))}
			}
			return cli.UsageError{Err: fmt.Errorf("--%s %s: want %s", w.name, conceal.Printable(w.value), strings.Join(w.from, ", "))}
		}
	}
	if f.gpu > 0 && f.gpu < 1<<20 {
		return cli.UsageError{Err: fmt.Errorf("--gpu %d: that is %s; want the memory of a GPU, such as 24G", f.gpu, cli.Size(int64(f.gpu)))}
	}
	typeOf := func(name string) tensorfs.DType {
		i := slices.Index(cacheTypeNames, strings.ToLower(name))
		if i < 0 {
			return tensorfs.Unknown
		}
		return cacheTypes[i]
	}
	f.options = memory.Options{
		Context: int64(f.context), Parallel: int64(f.parallel), Unified: f.unified, TypeK: typeOf(f.typeK), TypeV: typeOf(f.typeV),
		NoFlash: strings.EqualFold(f.flash, "off"), UBatch: int64(f.ubatch), Batch: int64(f.batch), SWAFull: f.swaFull, OutputsAll: strings.EqualFold(f.outputs, "all"),
	}
	return nil
}

// memoryShown is the screen's part about a context.
type memoryShown struct {
	*memory.Need
	options  memory.Options
	layers   int
	all      int64 // bytes of compute if all logits are wanted
	longest  int64 // tokens of the context that the model was trained with, 0 if that is this one
	total    int64 // with it
	gpuBytes int64
}

// headerOf returns the header of the file in gguf/.
func headerOf(t *tree.Tree) (*memory.Header, error) {
	if a := images.Find(t.Model.Architecture); a != nil {
		return nil, fmt.Errorf("the memory of llama.cpp is not counted, because it loads no denoiser of %s", a.Title)
	}
	files := t.WholeFiles("gguf")
	if files == nil {
		return nil, errors.New("there is no gguf/, by which the memory of llama.cpp is counted")
	}
	if files.Reason != "" || len(files.List) == 0 {
		return nil, fmt.Errorf("the memory of llama.cpp is counted by gguf/model.gguf, and gguf/ is left out: %s", files.Reason)
	}
	if files.List[0].Path != convert.LanguageFile {
		return nil, fmt.Errorf("the memory of llama.cpp is counted by gguf/%s, which the model does not have", convert.LanguageFile)
	}
	return headerIn(files.List[0].Data)
}

// headerIn returns the header of a GGUF file.
func headerIn(file tensorfs.Data) (*memory.Header, error) {
	p, err := gguf.Parse(file)
	if err != nil {
		return nil, err
	}
	h := &memory.Header{Architecture: p.Architecture(), Value: p.Value}
	for i, x := range p.Tensors {
		h.Tensors = append(h.Tensors, memory.Tensor{Name: x.Source, DType: x.DType, Shape: x.Shape, Offset: p.Offsets[i], Bytes: x.Data.Size()})
	}
	return h, nil
}

// of counts what a model takes, nil unless requested, and for a screen also what it would
// take with other options: JSON has one answer.
func (f *memoryFlags) of(t *tree.Tree, screen bool) (*memoryShown, error) {
	if !f.asked {
		return nil, nil
	}
	h, err := headerOf(t)
	if err != nil {
		return nil, err
	}
	need, err := memory.Of(h, f.options)
	if err != nil {
		return nil, err
	}
	s := &memoryShown{Need: need, options: f.options}
	for _, l := range need.KV.Layers {
		if l != (memory.LayerKV{}) {
			s.layers++
		}
	}
	s.all = need.Compute
	if other := f.options; screen && !other.OutputsAll {
		other.OutputsAll = true
		if n, err := memory.Of(h, other); err == nil {
			s.all = n.Compute
		}
	}
	if other := f.options; screen && other.Context != 0 {
		other.Context = 0
		if n, err := memory.Of(h, other); err == nil && n.Context.Tokens != need.Context.Tokens {
			s.longest, s.total = n.Context.Tokens, n.Total
		}
	}
	if f.gpu > 0 {
		s.gpuBytes = int64(f.gpu)
		if need.GPU, err = memory.Divide(h, f.options, s.gpuBytes); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// context prints what the model takes in llama.cpp.
func (s *infoScreen) context() {
	n := s.memory
	if n == nil {
		return
	}
	fmt.Fprintln(s.out)
	types := strings.ToLower(cmp.Or(n.options.TypeK, tensorfs.F16).String())
	if v := strings.ToLower(cmp.Or(n.options.TypeV, tensorfs.F16).String()); v != types {
		types += " and " + v
	}
	s.row("context", 1, "%s, %s, cache %s", cli.Plural(n.Context.Tokens, "token"), cli.Plural(max(n.options.Parallel, 1), "sequence"), types)
	text := cli.Size(n.Weights)
	if n.Repacked > 0 {
		text += ": " + cli.Size(n.Repacked) + " copied when llama.cpp repacks them, " + cli.Size(n.Resident) + " read from the file"
	}
	s.row("weights", 2, "%s", text)
	text = "none"
	if n.layers > 0 {
		text = fmt.Sprintf("%s (%s)", cli.Size(n.KV.K+n.KV.V), cli.Plural(n.layers, "layer"))
	}
	if state := n.State.R + n.State.S; state > 0 {
		text += ", state " + cli.Size(state)
	}
	s.row("cache", 1, "%s", text)
	about := ""
	if !n.ComputeExact {
		about = "about "
	}
	text = about + cli.Size(n.Compute)
	if cli.Size(n.all) != cli.Size(n.Compute) {
		text += fmt.Sprintf(" (%s if all logits are wanted)", cli.Size(n.all))
	}
	s.row("compute", 2, "%s, output %s", text, cli.Size(n.Output))
	text = about + cli.Size(n.Total) + " must fit"
	if n.longest > 0 {
		text += fmt.Sprintf("; at %d tokens %s", n.longest, cli.Size(n.total))
	}
	s.row("all", 2, "%s; and some 50 MiB of the program's own", text)
	if g := n.GPU; g != nil {
		text = fmt.Sprintf("%d of %d layers fit into %s (-ngl %d), %s are left", g.Layers, g.Of, cli.Size(n.gpuBytes), g.Layers, cli.Size(g.Left))
		if g.Longest > 0 {
			text += fmt.Sprintf("; all fit up to %d tokens", g.Longest)
		}
		s.row("gpu", 2, "%s", text)
	}
}

// sizedMemory is a row of the table over types.
type sizedMemory struct {
	convert.Sized
	Memory *memory.Need `json:"memory,omitempty"`
}

// ofSizes counts what a model takes with each type, by the file with one of them: only types of
// tensors differ.
func (f *memoryFlags) ofSizes(made tensorfs.Data, sizes []convert.Sized) ([]sizedMemory, error) {
	list := make([]sizedMemory, len(sizes))
	var h *memory.Header
	for i, s := range sizes {
		list[i].Sized = s
		if !f.asked {
			continue
		}
		if h == nil {
			var err error
			if h, err = headerIn(made); err != nil {
				return nil, err
			}
		}
		n, err := memory.Of(h.WithTypes(s.Types), f.options)
		if err != nil {
			return nil, err
		}
		list[i].Memory = n
	}
	return list, nil
}
