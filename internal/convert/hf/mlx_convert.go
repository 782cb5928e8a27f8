package hf

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// conversion converts the tensors of a release as mlx_lm.convert does: its classes' changes
// when they load a release, and config.json's type.
type conversion struct {
	*tensorMaker
	config mlxText
	class  *architectures.MLXClass
	cast   tensorfs.DType // Unknown to keep what is stored
	stacks map[string]map[int]*tensorfs.Tensor
}

// mlxMove is something that a class changes. What fits no pattern stays.
type mlxMove struct {
	pattern *regexp.Regexp
	to      string // the name that it gets, with parts of the pattern; "" leaves it out
	expert  string // the part of the pattern for the number of an expert: tensors of one name become a stack
	unless  string // a field of config.json, with a number other than 0 in which nothing changes
	make    func(c *conversion, name string, t *tensorfs.Tensor) error
}

// mlxMoves are the words after moves: of mlx_converts.txt.
var mlxMoves = sync.OnceValue(func() map[string][]mlxMove {
	eachExpert := regexp.MustCompile(`^(?P<before>.*)\.experts\.(?P<e>\d+)\.(?P<part>gate_proj|up_proj|down_proj)\.weight$`)
	return map[string][]mlxMove{
		"experts":      {{pattern: eachExpert, to: "$before.switch_mlp.$part.weight", expert: "e"}},
		"experts_here": {{pattern: eachExpert, to: "$before.experts.$part.weight", expert: "e"}},
		"w_experts": {
			{pattern: mixtralExpert("w1"), to: "$before.switch_mlp.gate_proj.weight", expert: "e"},
			{pattern: mixtralExpert("w2"), to: "$before.switch_mlp.down_proj.weight", expert: "e"},
			{pattern: mixtralExpert("w3"), to: "$before.switch_mlp.up_proj.weight", expert: "e"},
		},
		"joined_experts": {
			{pattern: regexp.MustCompile(`^(?P<before>.*\.block_sparse_moe)\.input_linear\.weight$`), to: "$before.switch_mlp", make: (*conversion).halves},
			{pattern: regexp.MustCompile(`^(?P<before>.*\.block_sparse_moe)\.output_linear\.weight$`), to: "$before.switch_mlp.down_proj.weight"},
		},
		"fc_experts": {
			{pattern: regexp.MustCompile(`^(?P<before>.*\.mixer)\.experts\.(?P<e>\d+)\.up_proj\.weight$`), to: "$before.switch_mlp.fc1.weight", expert: "e"},
			{pattern: regexp.MustCompile(`^(?P<before>.*\.mixer)\.experts\.(?P<e>\d+)\.down_proj\.weight$`), to: "$before.switch_mlp.fc2.weight", expert: "e"},
		},
		// What is shared by all tokens is a layer's only network in models without experts.
		"shared_alone": {
			{pattern: regexp.MustCompile(`^(?P<before>.*)\.shared_mlp\.input_linear\.weight$`), to: "$before.mlp", make: (*conversion).halves, unless: "num_local_experts"},
			{pattern: regexp.MustCompile(`^(?P<before>.*)\.shared_mlp\.output_linear\.weight$`), to: "$before.mlp.down_proj.weight", unless: "num_local_experts"},
		},
		"latent":  {{pattern: regexp.MustCompile(`^(?P<before>.*)\.kv_b_proj\.weight$`), to: "$before", make: (*conversion).latent}},
		"kernels": {{pattern: regexp.MustCompile(`^(?P<name>.*\.conv(1d)?\.weight)$`), to: "$name", make: (*conversion).kernel}},
		"turned": {
			{pattern: regexp.MustCompile(`^(model\.)?h\.\d+\.attn\.(masked_)?bias$`)},
			{pattern: regexp.MustCompile(`^(?P<name>h\.\d+\.(attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight)$`), to: "model.$name", make: (*conversion).transposed},
		},
		"model": {{pattern: regexp.MustCompile(`^(?P<name>(w[tp]e|h|ln_f)\..*)$`), to: "model.$name"}},
	}
})

func mixtralExpert(part string) *regexp.Regexp {
	return regexp.MustCompile(`^(?P<before>.*\.block_sparse_moe)\.experts\.(?P<e>\d+)\.` + part + `\.weight$`)
}

// convert makes all tensors.
func (c *conversion) convert() error {
	rename, tied := namesForMLX(c.config), c.config.tied(c.class)
	for i := range c.m.Tensors {
		t := &c.m.Tensors[i]
		name := c.named(rename(t.Source))
		switch {
		case t.Owner != "":
			continue
		case name == "", strings.HasSuffix(name, "rotary_emb.inv_freq"), tied && name == "lm_head.weight", c.beyond(name):
			continue
		case t.Opaque != "":
			return fmt.Errorf("%s: %s", tensorfs.Quote(t.Source), t.Opaque)
		}
		if err := c.move(name, t); err != nil {
			return fmt.Errorf("%s: %w", tensorfs.Quote(t.Source), err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.stacks)) {
		all := c.stacks[name]
		list := make([]*tensorfs.Tensor, len(all))
		for e := range list {
			if list[e] = all[e]; list[e] == nil {
				return fmt.Errorf("the experts %s are %d, and number %d is not among them", tensorfs.Printable(name), len(all), e)
			}
		}
		stack, err := arrange.Stack(list...)
		if err != nil {
			return fmt.Errorf("the experts %s: %w", tensorfs.Printable(name), err)
		}
		if err := c.put(name, stack, layout.OriginOf(list[0])); err != nil {
			return err
		}
	}
	return nil
}

var ofLayer = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^model\.layers\.(\d+)\.`) })

// beyond reports whether a tensor is of a layer after the last, which predicts a further
// token, and the class leaves those out.
func (c *conversion) beyond(name string) bool {
	at := ofLayer().FindStringSubmatch(name)
	if at == nil || !c.class.Has("beyond") {
		return false
	}
	layer, err := strconv.ParseFloat(at[1], 64)
	n, ok := c.config.part.number("num_hidden_layers")
	return err == nil && ok && layer >= n
}

// named gives a tensor the name of the class, "" if it is left out.
func (c *conversion) named(name string) string {
	for _, rule := range c.class.Names("names") {
		if from, to, _ := strings.Cut(rule, "="); strings.HasPrefix(name, from) {
			if to == "" {
				return ""
			}
			return to + strings.TrimPrefix(name, from)
		}
	}
	return name
}

// move puts a tensor where the first move that fits puts it.
func (c *conversion) move(name string, t *tensorfs.Tensor) error {
	for _, word := range c.class.Names("moves") {
		for _, m := range mlxMoves()[word] {
			at := m.pattern.FindStringSubmatchIndex(name)
			if n, _ := c.config.part.number(m.unless); at == nil || m.unless != "" && n != 0 {
				continue
			}
			to := string(m.pattern.ExpandString(nil, braced(m.to), name, at))
			switch {
			case to == "":
				return nil
			case m.make != nil:
				return m.make(c, to, t)
			case m.expert == "":
				return c.put(to, t, layout.OriginOf(t))
			}
			i := m.pattern.SubexpIndex(m.expert)
			e, err := strconv.Atoi(name[at[2*i]:at[2*i+1]])
			if err != nil || c.stacks[to][e] != nil {
				return errors.New("its expert number is out of range, or another tensor has the same")
			}
			if c.stacks[to] == nil {
				c.stacks[to] = map[int]*tensorfs.Tensor{}
			}
			c.stacks[to][e] = t
			return nil
		}
	}
	return c.put(name, t, layout.OriginOf(t))
}

var parts = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$(\w+)`) })

// braced makes parts of a pattern end before what follows them.
func braced(template string) string { return parts().ReplaceAllString(template, "$${$1}") }

// put puts a tensor into the directory, in the type that all have there.
func (c *conversion) put(name string, t *tensorfs.Tensor, at layout.Origin) error {
	to := t.DType
	module, isWeight := strings.CutSuffix(name, ".weight")
	switch q := t.Quant; {
	case q != nil && isWeight && q.ByRows() && !c.again:
		return c.putModule(module, t, at)
	case q != nil && q.Scales != nil && c.again:
		if to = c.cast; to == tensorfs.Unknown {
			to = layout.PlainType(t)
		}
	case q != nil || !layout.IsFloat(t.DType) && t.DType.Kind() != tensorfs.KindInteger:
		return fmt.Errorf("it is %s, and mlx_lm.convert quantises F32, F16 and BF16", t.DType)
	case layout.IsFloat(t.DType) && c.cast != tensorfs.Unknown && !endsIn(name, c.class.Names("uncast")):
		to = c.cast
	}
	if to != t.DType || t.BigEndian || t.Quant != nil {
		var err error
		if t, err = c.Numbers(name, t, to); err != nil {
			return err
		}
	}
	c.store(name, t, at)
	return nil
}

func endsIn(name string, ends []string) bool {
	return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(name, end) })
}

// halves puts the gates and the ups of joined matrices, [2F, D] or a stack of them.
func (c *conversion) halves(name string, t *tensorfs.Tensor) error {
	shape := t.Numbers()
	axis := len(shape) - 2
	if axis < 0 || axis > 1 || shape[axis]%2 != 0 {
		return fmt.Errorf("shape %v does not divide into gates and ups", shape)
	}
	for i, part := range []string{"gate_proj", "up_proj"} {
		half, err := arrange.Slice(t, axis, int64(i)*shape[axis]/2, shape[axis]/2)
		if err != nil {
			return err
		}
		if err := c.put(name+"."+part+".weight", half, layout.OriginOf(t)); err != nil {
			return err
		}
	}
	return nil
}

// latent writes the two parts of kv_b_proj, with the part of k transposed.
func (c *conversion) latent(before string, t *tensorfs.Tensor) error {
	sizes := map[string]int64{}
	for _, field := range []string{"num_attention_heads", "qk_nope_head_dim", "v_head_dim"} {
		n, ok := c.config.part.number(field)
		if !ok || n < 1 || n > 1<<20 || n != float64(int64(n)) {
			return fmt.Errorf("config.json has no %s", field)
		}
		sizes[field] = int64(n)
	}
	heads, nope, v := sizes["num_attention_heads"], sizes["qk_nope_head_dim"], sizes["v_head_dim"]
	shape := t.Numbers()
	if len(shape) != 2 || shape[0] != heads*(nope+v) {
		return fmt.Errorf("shape %v does not fit %d heads of %d rows", shape, heads, nope+v)
	}
	whole, err := arrange.Reshape(t, heads, nope+v, shape[1])
	if err != nil {
		return err
	}
	key, err := arrange.Slice(whole, 1, 0, nope)
	if err == nil {
		key, err = arrange.Transpose(key)
	}
	if err != nil {
		return err
	}
	value, err := arrange.Slice(whole, 1, nope, v)
	if err != nil {
		return err
	}
	if err := c.put(before+".embed_q.weight", key, layout.OriginOf(t)); err != nil {
		return err
	}
	return c.put(before+".unembed_out.weight", value, layout.OriginOf(t))
}

// kernel puts the kernels of a convolution, [C, 1, K], as [C, K, 1].
func (c *conversion) kernel(name string, t *tensorfs.Tensor) error {
	if shape := t.Numbers(); len(shape) == 3 && shape[1] == 1 && t.Quant == nil {
		made, err := arrange.Reshape(t, shape[0], shape[2], 1)
		if err != nil {
			return err
		}
		return c.put(name, made, layout.OriginOf(t))
	}
	return c.put(name, t, layout.OriginOf(t))
}

// transposed puts a matrix that is stored as [in, out].
func (c *conversion) transposed(name string, t *tensorfs.Tensor) error {
	made, err := arrange.Transpose(t)
	if err != nil {
		return err
	}
	return c.put(name, made, layout.OriginOf(t))
}
