package hfdir

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/views/tree/whole"
)

// facts are what only the tensors know.
type facts struct {
	rows         int64                                   // of the token embedding
	torch        string                                  // torch_dtype: "bfloat16", "float32", "float16"
	tensor       func(canonical string) *tensorfs.Tensor // by canonical name, nil where there is none
	quantization []byte                                  // mlx/: a JSON object with "quantization" and "quantization_config"; nil: nothing is quantised
	experts      bool                                    // the experts of gpt-oss are given as blocks of MXFP4 (hf/ only)
}

// config returns config.json of a model with GGUF's metadata, or the reason why
// there is none. mlx says for which of the two directories.
func config(m *tensorfs.Model, f facts, mlx bool) ([]byte, error) {
	c, err := newConfigMaker(m, f, mlx)
	if err != nil {
		return nil, err
	}
	return c.config()
}

// newConfigMaker returns what makes the configs of a model whose metadata agrees
// with its tensors.
func newConfigMaker(m *tensorfs.Model, f facts, mlx bool) (*configMaker, error) {
	c := &configMaker{facts: f, mlx: mlx, keys: readKeys(m.Metadata), dims: map[string]int64{}}
	if err := c.choose(); err != nil {
		return nil, err
	}
	c.measure()
	c.check()
	if c.failed != nil {
		return nil, c.failed
	}
	c.ends = tokenizer.Ends(c.keys.value)
	return c, nil
}

// config returns config.json.
func (c *configMaker) config() ([]byte, error) {
	o := jsonObject{{"architectures", []string{c.arch.Classes[0].Name}}, {"model_type", c.model()}}
	for i := range c.arch.Config {
		o = o.with(c.arch.Config[i].Name, c.field(&c.arch.Config[i]))
	}
	o = o.with("bos_token_id", c.tokenID("bos_token_id")).with("eos_token_id", c.endTokens()).with("pad_token_id", c.tokenID("padding_token_id"))
	o = o.with("torch_dtype", c.facts.torch)
	if c.failed != nil {
		return nil, c.failed
	}
	if c.experts() {
		o = append(o, jsonMember{"quantization_config", mxfp4Config})
	}
	if c.mlx && c.facts.quantization != nil {
		q, err := jsonobj.Parse(c.facts.quantization)
		if err != nil {
			return nil, err
		}
		for name, raw := range q.All() {
			o = append(o, jsonMember{name, raw})
		}
	}
	return o.text(), nil
}

// configMaker makes the configs of one model: config.json, and those beside it.
type configMaker struct {
	keys   ggufKeys
	facts  facts
	mlx    bool
	arch   *architectures.Settings
	dims   map[string]int64 // what configMaker.measure found
	ends   []int            // ids of the tokens at which llama.cpp ends a generation
	failed error            // the first
}

// model is the model_type.
func (c *configMaker) model() string { return c.arch.Classes[0].ModelType }

// field returns the value of a field as jsonObject has them; nil: it is not written.
func (c *configMaker) field(item *architectures.Setting) any {
	if !item.Always {
		if v := c.fact(item.Fact, item.Value != nil && !item.Said); v != nil || c.failed != nil {
			return v
		}
		if item.Value == nil {
			c.missing(item.Fact)
			return nil
		}
	}
	switch l := item.Value.Literal.(type) {
	case nil:
	case architectures.Null:
		return jsonNull{}
	default:
		return l
	}
	if f, ok := derivations[item.Value.Name]; ok {
		return f(c, item.Value.Args)
	}
	fact := architectures.FactOf(item.Value.Name)
	v := c.fact(fact, false)
	if v == nil {
		c.missing(fact)
	}
	return v
}

// missing refuses a file that lacks the key of a fact.
func (c *configMaker) missing(f *architectures.Fact) {
	c.refuse("the file has no %s", c.keys.full(f.Keys[0]))
}

// fact returns what was measured, or a key says; nil where nothing does, and for an
// option of 0 where that may be.
func (c *configMaker) fact(f *architectures.Fact, zero bool) any {
	if n, ok := c.dims[f.Name]; ok {
		return n
	}
	var v any
	ok := false
	switch names := strings.Join(f.Keys, " "); f.Kind {
	case architectures.Size, architectures.Count, architectures.Option:
		least := int64(1)
		if f.Kind == architectures.Count || f.Kind == architectures.Option && zero {
			least = 0
		}
		v, ok = either(c.integer(names, least, mostSize))
		ok = ok && (f.Kind == architectures.Count || v != int64(0))
	case architectures.Real:
		v = c.number(names, 0)
		ok = v != nil
	case architectures.Flag:
		v, ok = either(c.flag(names))
	}
	if !ok || c.failed != nil {
		return nil
	}
	return v
}

// either makes a value of any type of one that has a type.
func either[T any](v T, ok bool) (any, bool) { return v, ok }

// choose finds the architecture's row.
func (c *configMaker) choose() error {
	v, ok := c.keys.at["general.architecture"]
	name, text := v.(string)
	switch {
	case !ok:
		return fmt.Errorf("the file has no general.architecture")
	case !text:
		return fmt.Errorf("general.architecture is %s, not a text", whole.Shown(v))
	}
	c.keys.prefix = name + "."
	all := architectures.OfGGUF(name)
	for _, special := range []bool{true, false} {
		i := slices.IndexFunc(all, func(a *architectures.Settings) bool {
			return c.arch == nil && a.Makes("hf") && (a.When != "") == special && (!special || conditions[a.When](c))
		})
		if i >= 0 {
			c.arch = all[i]
		}
	}
	switch {
	case c.failed != nil:
		return c.failed
	case c.arch == nil && tensorfs.Printable(name) == name:
		return fmt.Errorf("no Hugging Face form known for architecture %s", name[:min(len(name), 100)])
	case c.arch == nil:
		return fmt.Errorf("no Hugging Face form known for architecture %s", tensorfs.Quote(name))
	case c.mlx && !c.arch.Makes("mlx"):
		return fmt.Errorf("mlx-lm has no such model as %s", c.model())
	}
	return nil
}

// refuse notes why there is no config.json, of which the first reason counts.
func (c *configMaker) refuse(format string, args ...any) {
	if c.failed == nil {
		c.failed = fmt.Errorf(format, args...)
	}
}

// tensor returns a tensor by its canonical name, nil where there is none.
func (c *configMaker) tensor(name string) *tensorfs.Tensor {
	if c.facts.tensor == nil {
		return nil
	}
	return c.facts.tensor(name)
}

// experts reports whether the experts are given as gpt-oss was published.
func (c *configMaker) experts() bool { return c.facts.experts && !c.mlx && c.model() == "gpt_oss" }

// mxfp4Config says which modules of gpt-oss are blocks of MXFP4: all the others.
var mxfp4Config = jsonObject{
	{"quant_method", "mxfp4"},
	{"modules_to_not_convert", []string{"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"}},
}
