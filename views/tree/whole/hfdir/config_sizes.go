package hfdir

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs/views/tree/whole"
)

// measure finds the sizes that several fields need, by the names of facts, and blocks,
// which counts also the layers that only predict further tokens; of DeepSeek also still,
// the part of a head that is not rotated; and 0 without a key: ff, experts.
func (c *configMaker) measure() {
	c.dims["vocab_size"] = c.facts.rows
	if c.facts.rows < 1 || c.facts.rows > mostSize {
		c.refuse("the file has no token embedding: it is a vocabulary alone")
	}
	for _, k := range []struct {
		dim, key string
		most     int64
	}{
		{"blocks", "block_count", mostHeads},
		{"dim", "embedding_length", mostSize},
		{"n_heads", "attention.head_count", mostHeads},
		{"max_seq_len", "context_length", mostSize},
	} {
		n, ok := c.integer(k.key, 1, k.most)
		if !ok {
			c.refuse("the file has no %s", c.keys.full(k.key))
			return
		}
		c.dims[k.dim] = n
	}
	extra, _ := c.integer("nextn_predict_layers", 0, mostHeads)
	c.dims["n_layers"] = c.dims["blocks"] - extra
	c.dims["n_kv_heads"] = c.dims["n_heads"]
	if n, ok := c.integer("attention.head_count_kv", 1, mostHeads); ok {
		c.dims["n_kv_heads"] = n
	}
	c.dims["ff"], _ = c.integer("feed_forward_length", 0, mostSize)
	c.dims["experts"], _ = c.integer("expert_count", 0, mostSize)
	c.measureHead()
}

// measureHead finds the size of a head, and what config.json can say about it.
func (c *configMaker) measureHead() {
	if c.latent() {
		c.measureLatent()
		return
	}
	heads, width := c.dims["n_heads"], c.dims["dim"]
	turned, said := c.integer("rope.dimension_count", 1, mostHeads)
	head, ok := c.integer("attention.key_length", 1, mostHeads)
	if !ok && c.arch.GGUF == "llama" && said {
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
	c.dims["head_dim"], c.dims["v_head_dim"], c.dims["rope_dim"] = head, value, turned
	switch {
	case head*heads != width && c.arch.Word("heads") != "said":
		c.refuse("the %d heads have %d numbers each and the hidden state %d, which config.json of %s cannot say", heads, head, width, c.model())
	case head == 0:
		c.refuse("the %d heads share the %d numbers of the hidden state", heads, width)
	case value != head:
		c.refuse("a head has %d numbers of k and %d of v, which config.json of %s cannot say", head, value, c.model())
	case c.dims["n_kv_heads"] > heads || heads%c.dims["n_kv_heads"] != 0:
		c.refuse("the %d heads are not a multiple of the %d heads of k and v", heads, c.dims["n_kv_heads"])
	case c.arch.Word("rope") == "": // positions are known in another way
	case turned != head && c.arch.Word("heads") != "turned" || turned > head || turned%2 != 0:
		c.refuse("%d numbers of a head of %d are rotated, which config.json of %s cannot say", turned, head, c.model())
	}
}

// latent reports whether k and v are stored compressed.
func (c *configMaker) latent() bool { return c.arch.Word("heads") == "latent" }

// measureLatent finds the sizes of heads whose k and v are stored compressed. Files
// from before llama.cpp kept them compressed have the whole sizes under other keys.
func (c *configMaker) measureLatent() {
	for _, k := range []struct{ dim, keys string }{
		{"kv_lora_rank", "attention.kv_lora_rank"},
		{"rope_dim", "rope.dimension_count"},
		{"head_dim", "attention.key_length_mla attention.key_length"},
		{"v_head_dim", "attention.value_length_mla attention.value_length"},
	} {
		n, ok := c.integer(k.keys, 1, mostHeads)
		if !ok {
			_, key := c.keys.find(k.keys)
			c.refuse("the file has no %s", key)
			return
		}
		c.dims[k.dim] = n
	}
	c.dims["still"], c.dims["mla_v_head_dim"] = c.dims["head_dim"]-c.dims["rope_dim"], c.dims["v_head_dim"]
	if c.dims["still"] < 1 {
		c.refuse("%d of the %d numbers of a head are rotated", c.dims["rope_dim"], c.dims["head_dim"])
	}
}

// anyLayer is a tensor that every layer of every architecture has.
const anyLayer = "layers.*.attention.output.weight"

// sizes are the sizes that tensors have.
func (c *configMaker) sizes() map[string]int64 {
	d := c.dims
	q, kv := d["head_dim"]*d["n_heads"], d["head_dim"]*d["n_kv_heads"]
	sizes := map[string]int64{
		"vocab": d["vocab_size"], "width": d["dim"], "positions": d["max_seq_len"], "experts": d["experts"], "q": q, "o": d["v_head_dim"] * d["n_heads"],
	}
	if c.latent() {
		sizes["kv_a"] = d["kv_lora_rank"] + d["rope_dim"]
	} else {
		sizes["k"], sizes["v"], sizes["qkv"], sizes["ff"], sizes["2ff"] = kv, kv, q+2*kv, d["ff"], 2*d["ff"]
	}
	return sizes
}

// check refuses what the sizes cannot be, and what the tensors contradict.
func (c *configMaker) check() {
	if c.failed == nil && c.dims["n_layers"] < 1 {
		c.refuse("%s is %d, of which %d only predict further tokens: nothing is left", c.keys.full("block_count"), c.dims["blocks"], c.dims["blocks"]-c.dims["n_layers"])
	}
	checks := c.arch.Calls("agree")
	if c.mlx {
		checks = slices.Concat(checks, c.arch.Calls("mlx_agree"))
	}
	for _, check := range checks {
		if c.failed != nil {
			return
		}
		agreements[check.Name](c)
	}
	if c.failed == nil {
		c.checkShapes()
	}
}

// checkShapes holds the tensors against the sizes. It ends at the first layer that
// is not there, so a file's number of layers costs nothing.
func (c *configMaker) checkShapes() {
	sizes := c.sizes()
	for i := range c.dims["n_layers"] {
		if name := strings.Replace(anyLayer, "*", strconv.FormatInt(i, 10), 1); c.tensor(name) == nil {
			c.refuse("there are %d layers, and the file has no %s", c.dims["n_layers"], name)
			return
		}
		why := whole.Contradicted(i, sizes, func(name string) []int64 {
			if t := c.tensor(name); t != nil {
				return t.Numbers()
			}
			return nil
		})
		if why != "" {
			c.refuse("the metadata %s", why)
			return
		}
	}
}
