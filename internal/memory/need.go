package memory

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
)

// Options are options of llama.cpp's programs. The zero value of each is their default,
// with one sequence.
type Options struct {
	Context       int64          // tokens, 0 means the number that the model was trained with
	Parallel      int64          // sequences, 0 for one
	Unified       bool           // they share one cache
	TypeK, TypeV  tensorfs.DType // of the cache, Unknown for F16
	NoFlash       bool           // without flash attention
	UBatch, Batch int64          // tokens that are computed at once, and that are given at once; 0 for 512 and 2048
	SWAFull       bool           // windows are as large as the context
	OutputsAll    bool           // logits of all tokens, as llama-completion wants them
}

// Context is how many tokens there is room for.
type Context struct {
	Tokens   int64 `json:"n_ctx"`
	Cells    int64 `json:"cells"` // of a stream, that hold a token each
	Streams  int64 `json:"streams"`
	CellsSWA int64 `json:"cells_swa"` // of a stream, in layers of a window
}

// LayerKV is the part of one layer.
type LayerKV struct {
	K int64 `json:"k"`
	V int64 `json:"v"`
}

// KV is the cache of keys and values.
type KV struct {
	K      int64     `json:"k"`
	V      int64     `json:"v"`
	Layers []LayerKV `json:"layers"`
}

// State is what recurrent layers keep of a sequence, whatever its length: R of convolutions,
// S of the recurrence.
type State struct {
	R int64 `json:"r"`
	S int64 `json:"s"`
}

// Need is the memory that a model takes, in bytes.
type Need struct {
	Context      Context `json:"context"`
	Weights      int64   `json:"weights"`  // of all tensors
	Resident     int64   `json:"resident"` // of the weights that are not repacked, each padded: what is read from the file
	Mapped       int64   `json:"mapped"`   // range of the file from the first to the last of them, repacked weights in between included
	Repacked     int64   `json:"repacked"` // a copy in an order that suits the processor
	KV           KV      `json:"kv"`
	State        State   `json:"state"`
	Compute      int64   `json:"compute"`
	ComputeExact bool    `json:"compute_exact"` // false: from a formula, usually within 3 %
	Output       int64   `json:"output"`
	Total        int64   `json:"total"` // what must fit: resident, repacked, kv, state, compute and output
	GPU          *GPU    `json:"gpu,omitempty"`

	Known    bool     `json:"known_architecture"`
	Warnings []string `json:"warnings"`
}

// Of returns what a model takes. It fails where a number of the header makes no sense, and where
// llama.cpp refuses the options.
func Of(h *Header, o Options) (*Need, error) {
	m, err := modelOf(h)
	if err != nil {
		return nil, err
	}
	c := &checked{}
	n := &Need{Known: m.known, Warnings: []string{}}
	n.weights(c, m)
	switch {
	case m.layers == 0:
		n.warn("the header has no %s.block_count: how large cache and buffers are cannot be said", h.Architecture)
	case !m.known:
		n.warn("of the architecture %s it is not known which layers have windows or states: all with keys and values are counted in full", tensorfs.Printable(h.Architecture))
	}
	s, err := m.resolveOptions(c, o)
	if err != nil {
		return nil, err
	}
	n.Context = Context{c.mul(s.cells, s.streams), s.cells, s.streams, s.cellsSWA}
	if m.layers > 0 {
		if err := n.cache(c, m, s); err != nil {
			return nil, err
		}
		n.Output = c.mul(4, s.sequences, m.vocabulary)
		n.Compute, n.ComputeExact = m.compute(c, s)
	}
	// The file's pages of repacked weights are read once, while the model is loaded. The kernel
	// drops them when memory is short, so n.Mapped, which contains them, is not what must fit.
	n.Total = c.add(n.Resident, n.Repacked, n.KV.K, n.KV.V, n.State.R, n.State.S, n.Compute, n.Output)
	if c.bad {
		return nil, fmt.Errorf("the numbers in the header of %s multiply to more memory than there can be: the file is damaged, or the context is too long", tensorfs.Printable(h.Architecture))
	}
	return n, nil
}

func (n *Need) warn(format string, args ...any) {
	n.Warnings = append(n.Warnings, fmt.Sprintf(format, args...))
}

// resolved are the options as llama.cpp takes them.
type resolved struct {
	sequences, streams int64
	cells, cellsSWA    int64 // of a stream
	batch, tokens      int64 // given at once; in the largest graph
	outputs            int64 // rows of logits at a time
	unified, flash     bool
	typeK, typeV       tensorfs.DType
}

// padding is what contexts are multiples of.
const padding = 256

// resolveOptions resolves the options for a model.
func (m *model) resolveOptions(c *checked, o Options) (*resolved, error) {
	asked := o.Context
	if asked == 0 {
		asked = m.context
	}
	count := func(value *int64, name string, otherwise, most int64) error {
		if *value == 0 {
			*value = otherwise
		}
		if *value < 1 || *value > most {
			return fmt.Errorf("%s %d: want a number from 1 to %d", name, *value, most)
		}
		return nil
	}
	if asked == 0 && m.layers == 0 {
		asked = padding // there is no cache to count
	}
	if asked == 0 {
		return nil, fmt.Errorf("the header has no %s.context_length: say how many tokens, such as --context 8192", tensorfs.Printable(m.header.Architecture))
	}
	for _, err := range []error{
		count(&asked, "--context", asked, maxCount-padding), count(&o.Parallel, "--parallel", 1, maxSequences),
		count(&o.UBatch, "--ubatch", 512, maxCount-padding), count(&o.Batch, "--batch", 2048, maxCount-padding),
	} {
		if err != nil {
			return nil, err
		}
	}
	s := &resolved{sequences: o.Parallel, streams: o.Parallel, unified: o.Unified, flash: !o.NoFlash, typeK: o.TypeK, typeV: o.TypeV, batch: o.Batch}
	all := c.pad(asked, padding)
	s.cells = c.pad(max(all/s.streams, 1), padding)
	if o.Unified {
		s.streams, s.cells = 1, all
	}
	if s.typeK == tensorfs.Unknown {
		s.typeK = tensorfs.F16
	}
	if s.typeV == tensorfs.Unknown {
		s.typeV = tensorfs.F16
	}
	switch {
	case o.NoFlash && s.typeV.Kind() != tensorfs.KindFloat:
		return nil, fmt.Errorf("--cache-type-v %s: without flash attention llama.cpp takes no quantised V", s.typeV)
	case m.mla && s.typeK != s.typeV:
		return nil, fmt.Errorf("--cache-type-k %s and --cache-type-v %s: the model has one cache for both, so llama.cpp wants them to be the same", s.typeK, s.typeV)
	}
	if m.causal {
		s.batch = min(asked, s.batch)
	}
	ub := min(s.batch, o.UBatch)
	s.cellsSWA = s.cells
	if !o.SWAFull {
		window := m.window
		if o.Unified {
			window = c.mul(window, o.Parallel)
		}
		s.cellsSWA = c.pad(min(s.cells, c.add(window, ub)), padding)
	}
	s.tokens = c.pad(min(c.mul(s.cells, s.streams), ub), s.sequences)
	s.outputs = s.sequences
	if o.OutputsAll {
		s.outputs = o.Batch
	}
	return s, nil
}
