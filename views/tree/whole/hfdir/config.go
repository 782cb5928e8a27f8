package hfdir

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
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
	c := &configMaker{model: m, facts: f, mlx: mlx, keys: readKeys(m.Metadata), dims: map[string]int64{}}
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
	o := jsonObject{{"architectures", []string{c.arch.class}}, {"model_type", c.arch.model}}
	for _, row := range c.arch.rows() {
		v := row.value(c)
		if c.failed != nil {
			return nil, c.failed
		}
		if v != nil {
			o = append(o, jsonMember{row.name, v})
		}
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
	model  *tensorfs.Model
	keys   ggufKeys
	facts  facts
	mlx    bool
	arch   *configArch
	dims   map[string]int64 // what configMaker.measure found
	ends   []int            // ids of the tokens at which llama.cpp ends a generation
	failed error            // the first
}

// choose finds the architecture's row.
func (c *configMaker) choose() error {
	v, ok := c.keys.at["general.architecture"]
	name, text := v.(string)
	switch {
	case !ok:
		return fmt.Errorf("the file has no general.architecture")
	case !text:
		return fmt.Errorf("general.architecture is %s, not a text", shownValue(v))
	}
	c.keys.prefix = name + "."
	for i := range configArchs {
		if a := &configArchs[i]; a.name == name && (a.when == nil || a.when(c)) {
			c.arch = a
			break
		}
	}
	switch {
	case c.failed != nil:
		return c.failed
	case c.arch == nil && tensorfs.Printable(name) == name:
		return fmt.Errorf("no Hugging Face form known for architecture %s", name[:min(len(name), 100)])
	case c.arch == nil:
		return fmt.Errorf("no Hugging Face form known for architecture %s", tensorfs.Quote(name))
	case c.mlx && c.arch.mlx == nil:
		return fmt.Errorf("mlx-lm has no such model as %s", c.arch.model)
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
func (c *configMaker) experts() bool { return c.facts.experts && !c.mlx && c.arch.model == "gpt_oss" }

// mxfp4Config says which modules of gpt-oss are blocks of MXFP4: all the others.
var mxfp4Config = jsonObject{
	{"quant_method", "mxfp4"},
	{"modules_to_not_convert", []string{"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"}},
}
