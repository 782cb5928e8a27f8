package ollama

import (
	"strings"

	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/internal/assemble"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// modelConfig is a config.json of the model or of one of its components. A nil modelConfig
// is empty.
type modelConfig struct {
	root   jsonobj.Object
	quant  *assemble.Settings // for the whole model or component; nil without any
	widths map[width]int64    // the widths that it tells
}

func newConfig(root jsonobj.Object) *modelConfig {
	c := &modelConfig{root: root, widths: make(map[width]int64)}
	for where, scope := range assemble.Scopes(root) {
		if c.quant = assemble.FindSettings(where, scope); c.quant != nil {
			break
		}
	}
	if c.quant != nil {
		if _, ok := c.quant.Usual(); !ok {
			c.quant = nil
		}
	}
	for w, keys := range widthKeys {
		c.widths[w], _ = config.Count(root.Lookup, keys...)
	}
	return c
}

// width is a number of columns that several modules of a model share.
type width int

const (
	none width = iota
	hidden
	heads
	ffn // only other modules tell it: intermediate_size may be the width of other layers
)

// widthKeys are the counts of config.json whose product is a width.
var widthKeys = map[width][]string{
	hidden: {"hidden_size"},
	heads:  {"num_attention_heads", "head_dim"},
}

// widthOf are the widths of modules, by the last part of their paths.
var widthOf = map[string]width{
	"embed_tokens": hidden,
	"lm_head":      hidden,
	"q_proj":       hidden,
	"k_proj":       hidden,
	"v_proj":       hidden,
	"qkv_proj":     hidden,
	"gate_proj":    hidden,
	"up_proj":      hidden,
	"gate_up_proj": hidden,
	"down_proj":    ffn,
	"o_proj":       heads,
}

// columns returns the length of a module's rows where config.json or another
// tensor tells it. rows returns the number of rows of a plain or quantised
// weight by its module's path.
func (c *modelConfig) columns(path string, rows func(path string) (int64, bool)) (int64, bool) {
	i := strings.LastIndexByte(path, '.') + 1
	w := widthOf[path[i:]]
	if w == ffn {
		for _, sibling := range []string{"up_proj", "gate_proj"} {
			if n, ok := rows(path[:i] + sibling); ok {
				return n, true
			}
		}
	}
	if c == nil {
		return 0, false
	}
	n := c.widths[w]
	return n, n > 0
}
