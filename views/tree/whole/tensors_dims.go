package whole

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// dim is the length of a dimension, and who says so.
type dim struct {
	n    int64
	from string
}

const inConfig = "config.json"

// set says how long a dimension is. It is an error where another length is known.
func (x *maker) set(name string, n int64, from string) error {
	if d, ok := x.dims[name]; ok {
		if d.n != n {
			return fmt.Errorf("%s has %d for %s, and %s has %d", from, n, name, d.from, d.n)
		}
		return nil
	}
	x.dims[name] = dim{n, from}
	heads, head := x.dims["heads"].n, x.dims["head"].n
	switch {
	case name == "q" && heads > 0 && x.dims["rope_head"].n == 0:
		if n%heads != 0 {
			return fmt.Errorf("%s has %d rows of q, which are not those of %d heads", from, n, heads)
		}
		return x.set("head", n/heads, from)
	case name == "k" && head > 0:
		if n%head != 0 {
			return fmt.Errorf("%s has %d rows of k, which are not heads of %d", from, n, head)
		}
		return x.set("kv_heads", n/head, from)
	}
	return nil
}

// hold compares the dimensions with the shape of a tensor before its turn: for what
// is made of numbers that nothing else has proven yet.
func (x *maker) hold(name, shape string) error {
	t := x.find(name)
	if t == nil {
		return fmt.Errorf("the tensor %s is missing, which says how long a head is", name)
	}
	return x.shaped(strings.Fields(shape), name, "", t)
}

// bind sets the dimensions that the config gives.
func (x *maker) bind(from ...func(x *maker) error) error {
	for _, f := range from {
		if err := f(x); err != nil {
			return err
		}
	}
	return nil
}

// shaped compares a tensor's shape with dimensions, as words or numbers. Dimensions that are
// not known yet have the lengths of this tensor.
func (x *maker) shaped(names []string, to, param string, t *tensorfs.Tensor) error {
	if param == ".bias" && len(names) > 1 {
		names = names[:len(names)-1]
	}
	shape := t.Numbers()
	if len(shape) != len(names) {
		return fmt.Errorf("%s has the shape %v, and %s in %s has %d dimensions", tensorfs.Quote(t.Source), shape, to+param, x.arch, len(names))
	}
	for i, name := range names {
		if shape[i] < 1 {
			return fmt.Errorf("%s has the shape %v, and holds no numbers", tensorfs.Quote(t.Source), shape)
		}
		if n, err := strconv.ParseInt(name, 10, 64); err == nil {
			if n != shape[i] {
				return fmt.Errorf("%s has the shape %v, and dimension %d is %d in %s", tensorfs.Quote(t.Source), shape, i, n, x.arch)
			}
			continue
		}
		if err := x.set(name, shape[i], to+param); err != nil {
			return fmt.Errorf("%s of shape %v: %w", tensorfs.Quote(t.Source), shape, err)
		}
	}
	return nil
}

// fields sets a dimension to the first field of the config that is present.
func fields(name string, from ...string) func(x *maker) error {
	return func(x *maker) error {
		n, ok := x.cfg.integer(from...)
		if !ok {
			return nil
		}
		if n < 1 || n > maxDim {
			return fmt.Errorf("config.json has %d for %s", n, from[0])
		}
		return x.set(name, n, inConfig)
	}
}

// maxDim bounds lengths that a config gives, so that products of two fit.
const maxDim = 1 << 30

// sizesOf are what sets the lengths of dimensions that the config of an architecture
// gives. The others are those of the first tensor that has them.
var sizesOf = map[string][]func(x *maker) error{
	"llama":      {widths, heads, feedForward, mixtureDims},
	"qwen2":      {widths, heads, feedForward},
	"qwen2moe":   {widths, heads, mixtureDims, fields("eff", "moe_intermediate_size"), fields("sff", "shared_expert_intermediate_size")},
	"qwen3":      {widths, heads, feedForward},
	"qwen3moe":   {widths, heads, mixtureDims, fields("eff", "moe_intermediate_size")},
	"gemma2":     {widths, heads, feedForward},
	"gemma3":     {widths, heads, feedForward},
	"phi3":       {widths, joinedHeads, feedForward, twice("2ff", "ff"), phi3Rot},
	"gpt2":       {widths, joinedHeads, fourfold("n_inner")},
	"starcoder2": {widths, heads, feedForward},
	"falcon":     {widths, falconHeads, fourfold()},
	"deepseek2":  {widths, latentHeads, feedForward, mixtureDims, fields("eff", "moe_intermediate_size"), sharedExperts},
	"gpt-oss":    {widths, heads, feedForward, mixtureDims},
	"bert":       {widths, heads, feedForward, fields("types", "type_vocab_size")},
	"nomic-bert": {widths, joinedHeads, feedForward, fields("types", "type_vocab_size")},
}

var (
	widths      = fields("width", "hidden_size", "n_embd", "dim")
	feedForward = fields("ff", "intermediate_size", "n_inner", "hidden_dim")
	mixtureDims = fields("experts", "num_local_experts", "num_experts", "n_routed_experts")
)

// fourfold sets the width of feed-forward networks to four times that of the model,
// where no field gives it.
func fourfold(from ...string) func(x *maker) error {
	return func(x *maker) error {
		if err := fields("ff", from...)(x); err != nil || x.dims["ff"].n > 0 || x.dims["width"].n == 0 {
			return err
		}
		return x.set("ff", 4*x.dims["width"].n, "four times the width in "+inConfig)
	}
}

// twice sets a dimension to two times another.
func twice(name, of string) func(x *maker) error {
	return func(x *maker) error {
		if x.dims[of].n == 0 {
			return nil
		}
		return x.set(name, 2*x.dims[of].n, inConfig)
	}
}

// need returns a field that has to be there.
func (x *maker) need(names ...string) (int64, error) {
	n, ok := x.cfg.integer(names...)
	if !ok || n < 1 || n > maxDim {
		return 0, fmt.Errorf("config.json does not give %s, or not as a number of at least one", names[0])
	}
	return n, nil
}

// heads sets what the config gives of the attention. What it leaves out follows
// from the tensors.
func heads(x *maker) error {
	n, err := x.need("num_attention_heads", "n_head", "n_heads")
	if err != nil && x.arch == "gemma3" && x.cfg.err() == nil {
		n, err = 8, nil // the default of the class
	}
	if err == nil {
		err = x.set("heads", n, inConfig)
	}
	if err == nil {
		err = fields("kv_heads", "num_key_value_heads", "n_kv_heads")(x)
	}
	if err == nil {
		err = fields("head", "head_dim")(x)
	}
	if head := x.dims["head"].n; err == nil && head > 0 {
		err = x.set("q", n*head, inConfig)
	}
	if head, kv := x.dims["head"].n, x.dims["kv_heads"].n; err == nil && head > 0 && kv > 0 {
		err = x.set("k", kv*head, inConfig)
	}
	return err
}

// joinedHeads is heads, where q, k and v are one tensor and the config has to say
// how long each is.
func joinedHeads(x *maker) error {
	if err := heads(x); err != nil {
		return err
	}
	return x.joined(x.dims["kv_heads"].n)
}

// falconHeads is joinedHeads with Falcon's fields.
func falconHeads(x *maker) error {
	n, err := x.need("num_attention_heads", "n_head", "n_heads")
	if err == nil {
		err = x.set("heads", n, inConfig)
	}
	multi, _ := x.cfg.flag("multi_query")
	decoder, _ := x.cfg.flag("new_decoder_architecture")
	if err == nil && (decoder || !multi) { // else there is one, whatever num_kv_heads says
		err = fields("kv_heads", "num_kv_heads", "n_head_kv")(x)
	}
	if err != nil {
		return err
	}
	return x.joined(max(x.dims["kv_heads"].n, 1))
}

// joined sets the dimensions of a tensor of q, k and v. kv is how many heads k and
// v have, 0 for as many as q.
func (x *maker) joined(kv int64) error {
	n, width := x.dims["heads"].n, x.dims["width"].n
	head := x.dims["head"].n
	switch {
	case head == 0 && width == 0:
		return errors.New("config.json does not give hidden_size, which says how long the heads are")
	case head == 0 && width%n != 0:
		return fmt.Errorf("config.json has %d heads, which do not divide the width %d", n, width)
	case head == 0:
		head = width / n
	}
	if kv == 0 {
		kv = n
	}
	for _, d := range []struct {
		name string
		n    int64
	}{{"head", head}, {"q", n * head}, {"kv_heads", kv}, {"k", kv * head}, {"qkv", (n + 2*kv) * head}} {
		if err := x.set(d.name, d.n, inConfig); err != nil {
			return err
		}
	}
	return nil
}

// latentHeads sets the dimensions of attention through a latent vector.
func latentHeads(x *maker) error {
	var n [5]int64
	for i, name := range []string{"num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank"} {
		var err error
		if n[i], err = x.need(name); err != nil {
			return err
		}
	}
	heads, nope, rope, vHead, rank := n[0], n[1], n[2], n[3], n[4]
	for _, d := range []struct {
		name string
		n    int64
	}{{"heads", heads}, {"nope", nope}, {"rope_head", rope}, {"v_head", vHead}, {"kv_rank", rank},
		{"q", heads * (nope + rope)}, {"v", heads * vHead}, {"kv_a", rank + rope}} {
		if err := x.set(d.name, d.n, inConfig); err != nil {
			return err
		}
	}
	return fields("q_rank", "q_lora_rank")(x)
}

// sharedExperts are one network as wide as all of them.
func sharedExperts(x *maker) error {
	n, err := x.need("n_shared_experts")
	if err != nil || x.dims["eff"].n == 0 {
		return err
	}
	return x.set("sff", n*x.dims["eff"].n, inConfig)
}

// phi3Rot sets how many numbers a list of rope factors has.
func phi3Rot(x *maker) error {
	part, ok := x.cfg.number("partial_rotary_factor")
	if !ok {
		part = 1
	}
	return x.set("rot", int64(part*float64(x.dims["width"].n))/x.dims["heads"].n/2, inConfig)
}

// fact returns a fact of the model, for conditions.
func (x *maker) fact(name string) any {
	stem, isTensor := strings.CutPrefix(name, "has.")
	switch {
	case strings.HasPrefix(stem, "layers."):
		return x.find(stem+".weight") != nil
	case isTensor:
		return x.find(x.inLayer(stem)+".weight") != nil
	}
	switch name {
	case "experts": // in all layers or in none: llama.cpp takes no mixture of both
		return x.find("layers.0.ffn.router.weight") != nil
	case "rope":
		return x.ropeType()
	case "layer":
		return x.layer
	case "leading":
		n, _ := x.cfg.integer("first_k_dense_replace")
		return n
	}
	return nil
}

// rope returns a field of the settings of rotary embeddings.
func (x *maker) rope(field string) []string {
	at := "rope_scaling"
	if x.cfg.value("rope_parameters") != nil {
		at = "rope_parameters"
	}
	if x.cfg.value(at+".full_attention") != nil {
		at += ".full_attention"
	}
	return []string{at + "." + field}
}

// ropeType is the type of scaling, "" for none.
func (x *maker) ropeType() string {
	return x.cfg.word(slices.Concat(x.rope("rope_type"), x.rope("type"))...)
}
