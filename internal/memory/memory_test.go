package memory

import (
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// numbers is an array of metadata.
type numbers []any

func (n numbers) Len() int              { return len(n) }
func (n numbers) Values() iter.Seq[any] { return slices.Values(n) }

// small is a header of two layers with some keys replaced.
func small(architecture string, other map[string]any) *Header {
	keys := map[string]any{
		"block_count": uint32(2), "context_length": uint32(4096), "embedding_length": uint32(256), "feed_forward_length": uint32(512),
		"attention.head_count": uint32(4), "attention.head_count_kv": uint32(2), "vocab_size": uint32(1000),
	}
	for k, v := range other {
		keys[k] = v
	}
	h := &Header{Architecture: architecture, Value: func(key string) any {
		rest, ok := strings.CutPrefix(key, architecture+".")
		if !ok {
			return nil
		}
		return keys[rest]
	}}
	h.Tensors = []Tensor{
		{tokenTable, tensorfs.Q4_0, []int64{1000, 256}, 1024, 144000},
		{"blk.0.ffn_up.weight", tensorfs.Q4_0, []int64{512, 256}, 145024, 73728},
		{"blk.1.ffn_up.weight", tensorfs.Q8_0, []int64{512, 256}, 218752, 139264},
	}
	return h
}

// TestOf: what follows from a header by hand.
func TestOf(t *testing.T) {
	n, err := Of(small("llama", nil), Options{Context: 1000, Parallel: 3})
	if err != nil {
		t.Fatal(err)
	}
	// 1024 tokens are 3 streams of 512 cells; a layer has K and V of 2 heads of 64, as F16.
	layer := int64(3 * 512 * 2 * 64 * 2)
	if want := (Context{1536, 512, 3, 512}); n.Context != want {
		t.Errorf("context %+v, want %+v", n.Context, want)
	}
	if n.KV.K != 2*layer || n.KV.V != 2*layer || len(n.KV.Layers) != 2 || n.KV.Layers[1] != (LayerKV{layer, layer}) {
		t.Errorf("cache %+v, want %d for each of two layers", n.KV, layer)
	}
	// The table of tokens is mapped, and repacked as the output; ffn_up of the first layer is repacked, and
	// in the range that is mapped.
	if n.Mapped != 144000+73728+139264 || n.Repacked != 144000+73728 || n.Output != 3*4*1000 {
		t.Errorf("mapped %d, repacked %d, output %d", n.Mapped, n.Repacked, n.Output)
	}
	// What must fit has the repacked weights once, and the table of tokens twice.
	if want := n.Resident + n.Repacked + n.KV.K + n.KV.V + n.Compute + n.Output; n.Resident != 144000+139264 || n.Total != want {
		t.Errorf("resident %d, total %d, want %d", n.Resident, n.Total, want)
	}
}

// TestUnknown: an unknown architecture has a cache by its keys, and a note.
func TestUnknown(t *testing.T) {
	n, err := Of(small("unheard", nil), Options{Context: 512})
	if err != nil {
		t.Fatal(err)
	}
	if n.KV.K != 2*512*2*64*2 || n.Known || len(n.Warnings) != 1 || !strings.Contains(n.Warnings[0], "unheard") || n.ComputeExact {
		t.Errorf("%+v", n)
	}
	none := &Header{Architecture: "unheard", Value: func(string) any { return nil }, Tensors: small("unheard", nil).Tensors}
	n, err = Of(none, Options{})
	if err != nil || n.Weights != 144000+73728+139264 || n.KV.K != 0 || len(n.Warnings) != 1 || !strings.Contains(n.Warnings[0], "block_count") {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestDescribed: an architecture is known by its description, and needs no line of its own here.
func TestDescribed(t *testing.T) {
	for _, a := range architectures.All() {
		n, err := Of(small(a.Name, nil), Options{Context: 512})
		if err != nil || !n.Known || len(n.Warnings) > 0 {
			t.Errorf("%s: %+v, %v", a.Name, n, err)
		}
	}
}

// TestWindows: which layers see a window follows from the header, or else the description, or else the table.
func TestWindows(t *testing.T) {
	for _, test := range []struct {
		architecture string
		layers       uint32
		pattern      any
		want         string
	}{
		{"gemma2", 4, nil, "1010"}, {"gpt-oss", 4, nil, "1010"}, {"cohere2", 5, nil, "11101"}, {"llama4", 5, nil, "11101"},
		{"smallthinker", 5, nil, "01110"}, {"gemma3n", 6, nil, "111101"}, {"exaone4", 8, nil, "00000000"}, {"llama", 4, nil, "0000"},
		{"gemma3", 4, numbers{false, true, true, false}, "0110"}, {"gemma3", 4, uint32(2), "1010"}, {"step35", 4, numbers{true, false, true, true}, "1011"},
	} {
		keys := map[string]any{"block_count": test.layers, "attention.sliding_window": uint32(64), "attention.sliding_window_pattern": test.pattern}
		n, err := Of(small(test.architecture, keys), Options{Context: 4096})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, layer := range n.KV.Layers {
			got += map[bool]string{true: "1", false: "0"}[layer.K < 4096*2*64*2]
		}
		if got != test.want {
			t.Errorf("%s: layers with windows are %s, want %s", test.architecture, got, test.want)
		}
	}
}

// TestStates: a layer with tensors of a state has one in every architecture, and a cache only beside keys.
func TestStates(t *testing.T) {
	h := small("unheard", map[string]any{"ssm.inner_size": uint32(256), "ssm.state_size": uint32(16), "ssm.conv_kernel": uint32(4)})
	h.Tensors = append(h.Tensors, Tensor{"blk.0.ssm_a", tensorfs.F32, []int64{256, 16}, 400000, 16384})
	n, err := Of(h, Options{Context: 512})
	if err != nil {
		t.Fatal(err)
	}
	if n.State != (State{4 * 3 * 256, 4 * 16 * 256}) || n.KV.Layers[0].K != 0 || n.KV.Layers[1].K == 0 {
		t.Errorf("%+v, %+v", n.State, n.KV)
	}
	h.Tensors = append(h.Tensors, Tensor{"blk.0.attn_k.weight", tensorfs.F32, []int64{128, 256}, 500000, 131072})
	if n, err = Of(h, Options{Context: 512}); err != nil || n.KV.Layers[0] != n.KV.Layers[1] {
		t.Errorf("%+v, %v", n.KV, err)
	}
}

// TestTables: the expressions of all tables use names that there are.
func TestTables(t *testing.T) {
	m, err := modelOf(small("llama", map[string]any{"expert_group_count": uint32(1)}))
	if err != nil {
		t.Fatal(err)
	}
	c := &checked{}
	s, err := m.resolveOptions(c, Options{Context: 512})
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{model: m, c: c, s: s, d: m.dimensions(c, s)}
	b.enter(0)
	all := []*architectures.Expr{}
	for _, a := range table() {
		all = append(all, a.windows, a.cached)
	}
	for _, e := range graphs().inputs {
		all = append(all, e)
	}
	for _, list := range graphs().blocks {
		for _, x := range list {
			all = append(all, x.when, x.bytes)
		}
	}
	for name, g := range graphs().graphs {
		all = append(all, g.unless)
		for _, x := range slices.Concat(g.start, g.early, g.first, g.then, g.end) {
			if all = append(all, x.when); graphs().blocks[x.block] == nil {
				t.Errorf("%s: there is no block %s", name, x.block)
			}
		}
	}
	for name, f := range forms() {
		for _, e := range []*architectures.Expr{f.ffn, f.attention, f.ssm} {
			if facts, _ := e.Uses(); slices.ContainsFunc(facts, func(n string) bool { _, ok := b.d[n]; return !ok }) {
				t.Errorf("%s: %s has a name without a value", name, e)
			}
		}
	}
	for _, e := range all {
		if e == nil {
			continue
		}
		names, functions := e.Uses()
		for _, name := range names {
			if name != "layer" {
				b.fact(name) // it panics without one
			}
		}
		for _, name := range functions {
			if !architectures.HasFunction(name) {
				t.Errorf("%s: there is no function %s", e, name)
			}
		}
	}
	if len(all) < 500 {
		t.Errorf("only %d expressions", len(all))
	}
}

// TestOtherGraph: a layer with a tensor that its graph does not know is computed otherwise.
func TestOtherGraph(t *testing.T) {
	h := small("llama", nil)
	if n, err := Of(h, Options{Context: 512}); err != nil || !n.ComputeExact {
		t.Errorf("%+v, %v", n, err)
	}
	h.Tensors = append(h.Tensors, Tensor{"blk.1.attn_extra.weight", tensorfs.F32, []int64{256}, 400000, 1024})
	if n, err := Of(h, Options{Context: 512}); err != nil || n.ComputeExact {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestPredicting: a layer that predicts further tokens has no cache, and lists may leave it out.
func TestPredicting(t *testing.T) {
	n, err := Of(small("exaone4", map[string]any{
		"block_count": uint32(3), "nextn_predict_layers": uint32(1), "attention.sliding_window": uint32(128), "attention.sliding_window_pattern": numbers{true, false},
	}), Options{Context: 4096})
	if err != nil {
		t.Fatal(err)
	}
	// The window has 128 cells, and 512 for a batch.
	all, window := int64(4096*2*64*2), int64(768*2*64*2)
	if want := []LayerKV{{window, window}, {all, all}, {}}; !slices.Equal(n.KV.Layers, want) {
		t.Errorf("layers %v, want %v", n.KV.Layers, want)
	}
}

// TestRefused: what makes no sense, and what llama.cpp refuses, is said by its name.
func TestRefused(t *testing.T) {
	for _, test := range []struct {
		name string
		key  string
		to   any
		o    Options
		want string
	}{
		{"heads of 2^63", "attention.head_count", uint64(1) << 63, Options{}, "llama.attention.head_count"},
		{"negative", "attention.head_count_kv", int32(-1), Options{}, "llama.attention.head_count_kv"},
		{"text", "embedding_length", "wide", Options{}, "llama.embedding_length"},
		{"too many layers", "block_count", uint32(math.MaxUint32), Options{}, "llama.block_count"},
		{"513 layers", "block_count", uint32(513), Options{}, "at most 512"},
		{"a list of another length", "attention.head_count_kv", numbers{uint32(1), uint32(1), uint32(1)}, Options{}, "3 values"},
		{"a list of texts", "attention.head_count_kv", numbers{"a", "b"}, Options{}, "llama.attention.head_count_kv"},
		{"more than there can be", "attention.key_length", uint32(math.MaxInt32), Options{Context: math.MaxInt32 - 256, Parallel: 256}, "more memory than there can be"},
		{"no context", "context_length", nil, Options{}, "--context"},
		{"negative context", "", nil, Options{Context: -1}, "--context"},
		{"context too long", "", nil, Options{Context: math.MaxInt64}, "--context"},
		{"sequences", "", nil, Options{Parallel: 257}, "--parallel"},
		{"quantised V", "", nil, Options{TypeV: tensorfs.Q8_0, NoFlash: true}, "--cache-type-v"},
		{"blocks", "attention.key_length", uint32(7), Options{TypeK: tensorfs.Q8_0}, "whole blocks"},
	} {
		other := map[string]any{}
		if test.key != "" {
			other[test.key] = test.to
		}
		n, err := Of(small("llama", other), test.o)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %+v, %v; want an error with %q", test.name, n, err, test.want)
		}
	}
}

// TestDivide: layers go to a device from the last one on, as long as there is room.
func TestDivide(t *testing.T) {
	h := small("llama", nil)
	n, err := Of(h, Options{Context: 512})
	if err != nil {
		t.Fatal(err)
	}
	layer := n.KV.Layers[0].K + n.KV.Layers[0].V
	output := int64(144000) // the table of tokens
	for _, test := range []struct{ bytes, layers int64 }{
		{0, 0}, {Free + n.Compute + output - 1, 0}, {Free + n.Compute + output, 1},
		{Free + n.Compute + output + layer + 139264, 2}, {Free + n.Compute + output + 2*layer + 139264 + 73727, 2},
		{Free + n.Compute + output + 2*layer + 139264 + 73728, 3},
	} {
		g, err := Divide(h, Options{Context: 512}, test.bytes)
		if err != nil || int64(g.Layers) != test.layers || g.Of != 3 || g.Left < 0 {
			t.Errorf("%d bytes: %+v, %v; want %d layers", test.bytes, g, err, test.layers)
		}
		if all := test.layers == 3; err == nil && (g.Longest >= 512) != all {
			t.Errorf("%d bytes: longest context %d", test.bytes, g.Longest)
		}
	}
}

// TestGraphs: a list has no views without a reader, which would never be freed.
func TestGraphs(t *testing.T) {
	for name, h := range headers(t) {
		m, err := modelOf(h)
		if err != nil {
			t.Fatal(err)
		}
		if graphs().graphs[m.graph] == nil {
			continue
		}
		for _, o := range []Options{{Context: 512}, {Context: 512, NoFlash: true}, {Context: 512, TypeK: tensorfs.Q8_0, TypeV: tensorfs.Q8_0}} {
			c := &checked{}
			s, err := m.resolveOptions(c, o)
			if err != nil {
				t.Fatal(err)
			}
			list := m.build(c, s)
			read := make([]bool, len(list))
			for _, n := range list {
				for _, i := range n.sources {
					read[i] = true
				}
			}
			for i, n := range list {
				if !read[i] && !n.output && n.op != use {
					t.Errorf("%s %+v: nobody reads operation %d, %s of %d bytes", name, o, i, n.op, n.bytes)
				}
			}
		}
	}
}

// FuzzKeys: whatever keys say, there is a number or an error, and no number is negative.
func FuzzKeys(f *testing.F) {
	f.Add("llama", "attention.head_count", uint64(1)<<63, "attention.key_length", uint64(3), uint8(0), int64(8192), uint16(3))
	f.Add("mamba", "ssm.inner_size", uint64(1)<<31, "ssm.conv_kernel", uint64(0), uint8(1), int64(1), uint16(8))
	f.Add("deepseek2", "attention.key_length_mla", uint64(1), "attention.value_length_mla", uint64(1), uint8(2), int64(100), uint16(0))
	f.Add("gemma3", "attention.sliding_window", uint64(1), "attention.sliding_window_pattern", uint64(math.MaxUint64), uint8(3), int64(1<<30), uint16(255))
	f.Add("qwen3moe", "expert_used_count", uint64(200), "expert_count", uint64(300), uint8(1), int64(4096), uint16(1))
	f.Fuzz(func(t *testing.T, architecture, one string, n uint64, two string, k uint64, kind uint8, context int64, flags uint16) {
		values := []func(uint64) any{
			func(n uint64) any { return n }, func(n uint64) any { return int32(n) }, func(n uint64) any { return numbers{uint32(n), int64(n)} },
			func(n uint64) any { return numbers{n} }, func(n uint64) any { return n&1 != 0 }, func(n uint64) any { return math.Float32frombits(uint32(n)) },
		}
		h := small(architecture, map[string]any{one: values[int(kind)%len(values)](n), two: values[int(kind>>4)%len(values)](k)})
		types := []tensorfs.DType{tensorfs.Unknown, tensorfs.F32, tensorfs.Q8_0, tensorfs.Q4_0}
		o := Options{
			Context: context, Parallel: int64(flags & 7), Unified: flags&8 != 0, NoFlash: flags&16 != 0, SWAFull: flags&32 != 0, OutputsAll: flags&64 != 0,
			TypeK: types[flags>>8&3], TypeV: types[flags>>10&3],
		}
		need, err := Of(h, o)
		if err != nil {
			if need != nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%+v, %q", need, err)
			}
			return
		}
		for _, x := range []int64{need.Weights, need.Resident, need.Mapped, need.Repacked, need.KV.K, need.KV.V, need.State.R, need.State.S, need.Compute, need.Output, need.Total - need.Compute} {
			if x < 0 {
				t.Errorf("a negative number: %+v", need)
			}
		}
		if _, err := divide(h, o, 1<<34); err != nil {
			t.Errorf("what is counted cannot be divided: %v", err)
		}
	})
}
