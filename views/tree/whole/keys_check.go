package whole

import (
	"slices"
	"strconv"
	"strings"
)

// check refuses what llama.cpp would, and what contradicts itself.
func (d *describer) check() {
	for name := range strings.FieldsSeq(needed + " " + d.arch.needs) {
		if !d.has(name) {
			d.missing(d.arch.row(name))
			return
		}
	}
	heads := d.count("attention.head_count")
	switch {
	case d.headSize() == 0:
		d.refuse("hidden_size %d is not a multiple of the %d heads, and no head_dim says their size", d.count("embedding_length"), heads)
	case heads%d.keyHeadCount() != 0:
		d.refuse("the %d heads are not a multiple of the %d heads of k and v", heads, d.keyHeadCount())
	case d.has("expert_count") && d.count("expert_used_count") == 0:
		d.missing(d.arch.row("expert_used_count"))
	case d.count("expert_used_count") > d.count("expert_count"):
		d.refuse("%d experts are used of %d", d.count("expert_used_count"), d.count("expert_count"))
	case d.facts.rows < 1 || d.facts.rows > limits["embedding_length"]:
		d.refuse("the embedding has %d rows", d.facts.rows)
	}
	d.checkRope()
	for _, check := range d.arch.checks {
		check(d)
	}
	if d.failed == nil {
		d.checkShapes()
	}
}

// missing says that a key has no value.
func (d *describer) missing(k key) {
	fields := strings.Fields(k.fields)
	for i, f := range fields {
		fields[i] = strings.TrimPrefix(f, "rope.")
	}
	switch len(fields) {
	case 0:
		d.refuse("it does not say what GGUF's key %s needs", k.full(d.arch.name))
	case 1:
		d.refuse("it has no %s, which a GGUF file of %s needs", fields[0], d.arch.name)
	default:
		d.refuse("it has none of %s, and a GGUF file of %s needs one", strings.Join(fields, ", "), d.arch.name)
	}
}

// shape is a row: a tensor, and what its shape must be, row-major. Sizes are those
// of describer.sizes.
type shape struct {
	tensor string // canonical; that of a layer without its number
	sizes  string
}

// apart are the shapes of architectures that store q, k and v by themselves, and
// a gate beside the way up.
var apart = []shape{
	{"token_embedding.weight", "rows dim"},
	{"layers.*.attention.q.weight", "q dim"},
	{"layers.*.attention.k.weight", "kv dim"},
	{"layers.*.attention.v.weight", "kv dim"},
	{"layers.*.attention.output.weight", "dim q"},
	{"layers.*.ffn.gate.weight", "ff dim"},
	{"layers.*.ffn.up.weight", "ff dim"},
	{"layers.*.ffn.down.weight", "dim ff"},
}

// joined are those of architectures that store q, k and v in one tensor.
var joined = []shape{
	{"token_embedding.weight", "rows dim"},
	{"layers.*.attention.qkv.weight", "qkv dim"},
	{"layers.*.attention.output.weight", "dim q"},
	{"layers.*.ffn.gate_up.weight", "2ff dim"},
	{"layers.*.ffn.up.weight", "ff dim"},
	{"layers.*.ffn.down.weight", "dim ff"},
}

// unnamed are those where only the embedding is certain.
var unnamed = []shape{{"token_embedding.weight", "rows dim"}}

// sizes are the sizes that keys say.
func (d *describer) sizes() map[string]int64 {
	q, kv, ff := d.headSize()*d.count("attention.head_count"), d.headSize()*d.keyHeadCount(), d.count("feed_forward_length")
	return map[string]int64{"rows": d.facts.rows, "dim": d.count("embedding_length"), "q": q, "kv": kv, "qkv": q + 2*kv, "ff": ff, "2ff": 2 * ff}
}

// checkShapes refuses a config.json that the shapes of the tensors contradict.
func (d *describer) checkShapes() {
	sizes := d.sizes()
	for _, s := range d.arch.shapes {
		var want []int64
		for name := range strings.FieldsSeq(s.sizes) {
			want = append(want, sizes[name])
		}
		layers := d.count("block_count")
		if !strings.Contains(s.tensor, "*") {
			layers = 1
		}
		for i := range layers {
			name := strings.Replace(s.tensor, "*", strconv.FormatInt(i, 10), 1)
			if got := d.shape(name); got != nil && !slices.Equal(got, want) {
				d.refuse("it contradicts the tensor %s, whose shape is %v and would have to be %v", name, got, want)
				return
			}
		}
	}
}
