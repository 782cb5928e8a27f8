package ollama

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// modelConfig is a config.json of the model or of one of its components. A nil
// one says nothing.
type modelConfig struct {
	root  jsonobj.Object
	quant jsonobj.Object // what MLX wrote about how modules are quantised; without keys where it did not

	usual   params // of modules without an entry of their own
	unusual string // why there are none
}

// quantKeys are where MLX's exports have it.
var quantKeys = []struct{ scope, key string }{
	{"", "quantization"}, {"", "quantization_config"}, {"text_config", "quantization"}, {"text_config", "quantization_config"},
}

func newConfig(root jsonobj.Object) *modelConfig {
	c := &modelConfig{root: root}
	for _, k := range quantKeys {
		scope := root
		if k.scope != "" {
			scope = root.Object(k.scope)
		}
		q := scope.Object(k.key)
		// Another method has a quant_method there.
		if q.Has("bits") && q.Has("group_size") && !q.Has("quant_method") {
			c.quant = q
			c.usual, c.unusual = paramsOf(q)
			break
		}
	}
	return c
}

func (c *modelConfig) quantised() bool { return c != nil && c.quant.Len() > 0 }

// params returns the parameters of a module by its path: an entry of its own
// inherits nothing from the rest.
func (c *modelConfig) params(path string) (params, string) {
	switch own := c.quant.Raw(path); own.Kind() {
	case '{':
		return paramsOf(own.Object())
	case 'f':
		return params{}, "config.json says that it is not quantised, and there are scales beside it"
	}
	return c.usual, c.unusual
}

// paramsOf reads parameters, with the defaults of their mode.
func paramsOf(q jsonobj.Object) (params, string) {
	p := params{mode: "affine"}
	if mode := q.Raw("mode"); mode.Kind() == '"' {
		p.mode = mode.Text()
	}
	def, ok := configModes[p.mode]
	if !ok {
		return p, fmt.Sprintf("mode %s of config.json is not known", tensorfs.Quote(p.mode))
	}
	p.bits, p.group = def.bits, def.group
	for _, f := range []struct {
		key string
		to  *int64
	}{{"bits", &p.bits}, {"group_size", &p.group}} {
		if !q.Has(f.key) {
			continue
		}
		v := q.Raw(f.key)
		n, ok := v.Int()
		if !ok || n <= 0 {
			return p, fmt.Sprintf("%s %s of config.json is not a positive number", f.key, tensorfs.Quote(v.String()))
		}
		*f.to = int64(n)
	}
	return p, ""
}

// configModes are the modes of config.json with what holds for missing fields.
var configModes = map[string]params{
	"affine": {"affine", 4, 64},
	"mxfp4":  quantTypes["mxfp4"],
	"nvfp4":  quantTypes["nvfp4"],
	"mxfp8":  quantTypes["mxfp8"],
}

// count returns a number of the language model.
func (c *modelConfig) count(key string) (int64, bool) {
	if c == nil {
		return 0, false
	}
	for _, scope := range []jsonobj.Object{c.root.Object("text_config"), c.root.Object("llm_config"), c.root.Object("language_config"), c.root.Object("thinker_config").Object("text_config"), c.root} {
		if scope.Has(key) {
			n, ok := scope.Raw(key).Int()
			return int64(n), ok && n > 0
		}
	}
	return 0, false
}

// columns returns the length of a module's rows where config.json or another
// tensor tells it. rows returns the number of rows of a plain or quantised
// weight by its module's path.
func (c *modelConfig) columns(path string, rows func(path string) (int64, bool)) (int64, bool) {
	parent, own := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, own = path[:i+1], path[i+1:]
	}
	rule, ok := columnRules[own]
	if !ok {
		return 0, false
	}
	for _, sibling := range rule.rowsOf {
		if n, ok := rows(parent + sibling); ok {
			return n, true
		}
	}
	for _, key := range rule.keys {
		if n, ok := c.count(key); ok {
			return n, true
		}
	}
	if heads, ok := c.count("num_attention_heads"); ok && rule.heads {
		if dim, ok := c.count("head_dim"); ok {
			return heads * dim, true
		}
	}
	return 0, false
}

// columnRule says where the length of a module's rows is found.
type columnRule struct {
	rowsOf []string // modules beside it whose outputs are its inputs
	keys   []string // of config.json
	heads  bool     // num_attention_heads * head_dim
}

var (
	fromHidden = columnRule{keys: []string{"hidden_size"}}
	fromFFN    = columnRule{rowsOf: []string{"up_proj", "gate_proj"}} // intermediate_size may be that of other layers
)

// columnRules are by the last part of the module's path.
var columnRules = map[string]columnRule{
	"embed_tokens": fromHidden,
	"lm_head":      fromHidden,
	"q_proj":       fromHidden,
	"k_proj":       fromHidden,
	"v_proj":       fromHidden,
	"qkv_proj":     fromHidden,
	"gate_proj":    fromHidden,
	"up_proj":      fromHidden,
	"gate_up_proj": fromHidden,
	"down_proj":    fromFFN,
	"o_proj":       {heads: true},
}
