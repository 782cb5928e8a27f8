package hfdir

import (
	"slices"
	"strconv"
	"strings"
)

// measure finds the sizes that several fields need: rows, width, layers (and
// blocks, which counts also those that only predict further tokens), heads, kv,
// head, value, turned, context, of DeepSeek also rank and still, and 0 for those
// without a key: ff, experts.
func (c *configMaker) measure() {
	c.dims["rows"] = c.facts.rows
	if c.facts.rows < 1 || c.facts.rows > mostSize {
		c.refuse("the file has no token embedding: it is a vocabulary alone")
	}
	for _, k := range []struct {
		dim, key string
		most     int64
	}{
		{"blocks", "block_count", mostHeads},
		{"width", "embedding_length", mostSize},
		{"heads", "attention.head_count", mostHeads},
		{"context", "context_length", mostSize},
	} {
		n, ok := c.integer(k.key, 1, k.most)
		if !ok {
			c.refuse("the file has no %s", c.keys.full(k.key))
			return
		}
		c.dims[k.dim] = n
	}
	extra, _ := c.integer("nextn_predict_layers", 0, mostHeads)
	c.dims["layers"] = c.dims["blocks"] - extra
	c.dims["kv"] = c.dims["heads"]
	if n, ok := c.integer("attention.head_count_kv", 1, mostHeads); ok {
		c.dims["kv"] = n
	}
	c.dims["ff"], _ = c.integer("feed_forward_length", 0, mostSize)
	c.dims["experts"], _ = c.integer("expert_count", 0, mostSize)
	c.measureHead()
}

// measureHead finds the size of a head, and what config.json can say about it.
func (c *configMaker) measureHead() {
	if c.arch.heads == headsMLA {
		c.measureLatent()
		return
	}
	heads, width := c.dims["heads"], c.dims["width"]
	turned, said := c.integer("rope.dimension_count", 1, mostHeads)
	head, ok := c.integer("attention.key_length", 1, mostHeads)
	if !ok && c.arch.name == "llama" && said {
		head, ok = turned, true
	}
	if !ok {
		head = width / heads
	}
	value, ok := c.integer("attention.value_length", 1, mostHeads)
	if !ok {
		value = head
	}
	if !said {
		turned = head
	}
	c.dims["head"], c.dims["value"], c.dims["turned"] = head, value, turned
	switch {
	case head*heads != width && c.arch.heads != headsSaid:
		c.refuse("the %d heads have %d numbers each and the hidden state %d, which config.json of %s cannot say", heads, head, width, c.arch.model)
	case head == 0:
		c.refuse("the %d heads share the %d numbers of the hidden state", heads, width)
	case value != head:
		c.refuse("a head has %d numbers of k and %d of v, which config.json of %s cannot say", head, value, c.arch.model)
	case c.dims["kv"] > heads || heads%c.dims["kv"] != 0:
		c.refuse("the %d heads are not a multiple of the %d heads of k and v", heads, c.dims["kv"])
	case c.arch.ropes == nil: // positions are known in another way
	case turned != head && c.arch.heads != headsTurn || turned > head || turned%2 != 0:
		c.refuse("%d numbers of a head of %d are rotated, which config.json of %s cannot say", turned, head, c.arch.model)
	}
}

// measureLatent finds the sizes of heads whose k and v are stored compressed. Files
// from before llama.cpp kept them compressed have the whole sizes under other keys.
func (c *configMaker) measureLatent() {
	for _, k := range []struct{ dim, keys string }{
		{"rank", "attention.kv_lora_rank"},
		{"turned", "rope.dimension_count"},
		{"head", "attention.key_length_mla attention.key_length"},
		{"value", "attention.value_length_mla attention.value_length"},
	} {
		n, ok := c.integer(k.keys, 1, mostHeads)
		if !ok {
			_, key := c.keys.find(k.keys)
			c.refuse("the file has no %s", key)
			return
		}
		c.dims[k.dim] = n
	}
	c.dims["still"] = c.dims["head"] - c.dims["turned"]
	if c.dims["still"] < 1 {
		c.refuse("%d of the %d numbers of a head are rotated", c.dims["turned"], c.dims["head"])
	}
}

// configShape is a row: a tensor, and what its shape must be, row-major, in names
// of configMaker.sizes. "*" is the number of a layer.
type configShape struct{ tensor, sizes string }

// apart are the shapes where q, k and v are stored by themselves.
var apart = []configShape{
	{"token_embedding.weight", "rows width"},
	{"layers.*.attention.q.weight", "q width"},
	{"layers.*.attention.k.weight", "kv width"},
	{"layers.*.attention.v.weight", "kv width"},
	{anyLayer, "width q"},
	{"layers.*.ffn.gate.weight", "ff width"},
	{"layers.*.ffn.up.weight", "ff width"},
	{"layers.*.ffn.down.weight", "width ff"},
}

// upDown are those of layers without a gate.
var upDown = slices.Concat(apart[:5], apart[6:])

// joined are those where q, k and v are stored in one tensor.
var joined = []configShape{
	apart[0], apart[4], apart[6], apart[7],
	{"layers.*.attention.qkv.weight", "qkv width"},
	{"layers.*.ffn.gate_up.weight", "2ff width"},
}

// latent are those of DeepSeek.
var latent = []configShape{
	apart[0],
	{"layers.*.attention.q.weight", "q width"},
	{"layers.*.attention.kv_a.weight", "kv_a width"},
	{anyLayer, "width o"},
	{"layers.*.ffn.router.weight", "experts width"},
}

var (
	routed    = []configShape{{"layers.*.ffn.router.weight", "experts width"}}
	positions = []configShape{{"position_embedding.weight", "context width"}}
)

// anyLayer is a tensor that every layer of every architecture has.
const anyLayer = "layers.*.attention.output.weight"

// sizes are the sizes that tensors have.
func (c *configMaker) sizes() map[string]int64 {
	d := c.dims
	q, kv := d["head"]*d["heads"], d["head"]*d["kv"]
	return map[string]int64{
		"rows": d["rows"], "width": d["width"], "context": d["context"], "experts": d["experts"],
		"q": q, "kv": kv, "qkv": q + 2*kv, "ff": d["ff"], "2ff": 2 * d["ff"],
		"kv_a": d["rank"] + d["turned"], "o": d["value"] * d["heads"],
	}
}

// check refuses what the sizes cannot be, and what the tensors contradict.
func (c *configMaker) check() {
	if c.failed == nil && c.dims["layers"] < 1 {
		c.refuse("%s is %d, of which %d only predict further tokens: nothing is left", c.keys.full("block_count"), c.dims["blocks"], c.dims["blocks"]-c.dims["layers"])
	}
	checks := c.arch.checks
	if c.mlx {
		checks = slices.Concat(checks, c.arch.mlx)
	}
	for _, check := range checks {
		if c.failed != nil {
			return
		}
		check(c)
	}
	if c.failed == nil {
		c.checkShapes()
	}
}

// checkShapes holds the tensors against the sizes. It ends at the first layer that
// is not there, so a file's number of layers costs nothing.
func (c *configMaker) checkShapes() {
	sizes := c.sizes()
	for i := range c.dims["layers"] {
		n := strconv.FormatInt(i, 10)
		if name := strings.Replace(anyLayer, "*", n, 1); c.tensor(name) == nil {
			c.refuse("there are %d layers, and the file has no %s", c.dims["layers"], name)
			return
		}
		for _, s := range c.arch.shapes {
			if !strings.Contains(s.tensor, "*") && i > 0 {
				continue
			}
			name := strings.Replace(s.tensor, "*", n, 1)
			t := c.tensor(name)
			var want []int64
			for size := range strings.FieldsSeq(s.sizes) {
				want = append(want, sizes[size])
			}
			if t != nil && !slices.Equal(t.Numbers(), want) {
				c.refuse("the metadata contradicts the tensor %s, whose shape is %v and would have to be %v", name, t.Numbers(), want)
				return
			}
		}
	}
}
