package whole

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// arch is a row: an architecture of GGUF, and what describes it. Its tensors are
// in tensors.go.
type arch struct {
	name    string
	classes string // in config.json's architectures, separated by spaces
	types   string // model_type, which decides where there is no class

	only       []condition                                        // what config.json may say
	refuse     func(m *tensorfs.Model, cfg settings) (why string) // what no condition can tell; nil: nothing
	own        string                                             // the common keys that it has; "" for all
	rows       []key                                              // keys of its own, or in place of common ones
	needs      string                                             // keys without which llama.cpp refuses the file
	vocabulary bool                                               // vocab_size is written beside a tokenizer
	ropes      []string                                           // ways to scale rotary embeddings; nil for plainRope
	shapes     []shape                                            // that keys and tensors must agree on
	checks     []func(d *describer)
}

// condition is a row: what a field may be, since files of the architecture, or
// llama.cpp, have no other. A field that is absent is fine,
// and one without such values has to be.
type condition struct {
	field string
	want  []any // string, bool or float64
	said  bool  // the field may not be absent: its default is another
}

func only(field string, want ...any) condition { return condition{field, want, false} }

// must is only for a field that may not be absent.
func must(field string, want ...any) condition { return condition{field, want, true} }

// problem says why a condition does not hold, "" where it does.
func (c condition) problem(cfg settings) string {
	v := cfg.value(c.field)
	if v == nil && c.said {
		return fmt.Sprintf("%s is missing, and its default cannot be said in a GGUF file", c.field)
	}
	if v == nil {
		return ""
	}
	if x, ok := finite(v); ok {
		v = x
	}
	// What is not a plain value is never one of those wanted, and cannot be compared.
	switch v.(type) {
	case string, bool, float64:
		if slices.Contains(c.want, v) {
			return ""
		}
	}
	if len(c.want) == 0 {
		return fmt.Sprintf("%s is %s, which cannot be said in a GGUF file", c.field, shown(v))
	}
	want := make([]string, len(c.want))
	for i, w := range c.want {
		want[i] = shown(w)
	}
	return fmt.Sprintf("%s is %s, and only %s can be said in a GGUF file", c.field, shown(v), strings.Join(want, " or "))
}

// architecture returns GGUF's name of the model's architecture, or the reason why
// there is no file of it.
func architecture(m *tensorfs.Model, cfg settings) (string, error) {
	if cfg.problem == nil {
		cfg.problem = new(error)
	}
	top := settings{top: cfg.top, problem: cfg.problem, file: cfg.file}
	classes := top.words("architectures")
	if classes == nil {
		classes = cfg.words("architectures")
	}
	named := func(a arch) string { return a.types }
	name := cfg.word("model_type")
	if top.word("model_type") != "" {
		name = top.word("model_type")
	}
	if len(classes) > 0 {
		named, name = func(a arch) string { return a.classes }, classes[0]
	}
	if err := cfg.err(); err != nil {
		return "", err
	}
	if name == "" {
		return "", refusal("nothing names the model's architecture, neither architectures nor model_type")
	}
	i := slices.IndexFunc(architectures, func(a arch) bool { return slices.Contains(strings.Fields(named(a)), name) })
	if i < 0 {
		return "", refusal("no GGUF file is made of the architecture %s", shown(name))
	}
	a := &architectures[i]
	for _, c := range slices.Concat(everywhere, a.only) {
		if why := c.problem(cfg); why != "" {
			return "", refusal("%s of %s", why, a.name)
		}
	}
	if a.refuse != nil {
		if why := a.refuse(m, cfg); why != "" {
			return "", refusal("%s", why)
		}
	}
	return a.name, cfg.err()
}

// everywhere are conditions of all architectures.
var everywhere = []condition{only("is_encoder_decoder", false), only("add_cross_attention", false)}
