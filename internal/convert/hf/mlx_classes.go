package hf

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// mlxValues are values that mlx.txt names: as facts, or as functions of literals.
var mlxValues = map[string]func(x *mlxConfig, args []any) any{
	"always":         func(_ *mlxConfig, args []any) any { return args[0] },
	"dense_layers":   denseLayers,
	"if_null":        ifNull,
	"if_stored":      ifStored,
	"integer":        integer,
	"letters":        layerLetters,
	"mamba_layers":   mambaLayers,
	"no_limit":       func(*mlxConfig, []any) any { return []any{0.0, settings.Object{}.With("__float__", "Infinity")} },
	"of_full_layers": ofFullLayers,
	"period":         layerPeriod,
	"plain_yarn":     plainYarn,
	"rows_of_text":   func(x *mlxConfig, _ []any) any { return numberIn(x.raw("text_config"), "vocab_size") },
	"sparse_layers":  sparseLayers,
}

// mlxInstead are values that replace others.
var mlxInstead = map[string]bool{"always": true, "if_stored": true, "letters": true, "mamba_layers": true, "plain_yarn": true}

// fieldsOf returns the fields that a class reads, of those whose names have a prefix;
// without one, all that have none.
func fieldsOf(c *architectures.MLXClass, prefix string) (list []mlxField) {
	for _, f := range c.Fields {
		name, ok := strings.CutPrefix(f.Name, prefix)
		if ok && (prefix != "" || !strings.Contains(name, ".")) {
			list = append(list, mlxField{name, func(x *mlxConfig) any { return x.eval(f.Value) }, mlxInstead[f.Value.Name]})
		}
	}
	return list
}

// eval returns the value of an expression of mlx.txt: of a field as it is written, of
// numbers as int64 or float64.
func (x *mlxConfig) eval(e *architectures.Expr) any {
	if e.Name != "" && e.Args == nil {
		return x.fact(e.Name)
	}
	env := architectures.Env{Facts: func(name string) any {
		if f, ok := x.number(name); ok && f == math.Trunc(f) && math.Abs(f) <= math.MaxInt32 {
			return int64(f)
		} else if ok {
			return f
		}
		return nil
	}}
	env.Call = func(name string, args []*architectures.Expr) any {
		values := make([]any, len(args))
		for i, a := range args {
			if values[i] = a.In(&env); a.Name != "" && a.Args == nil {
				values[i] = a.Name // of a field
			}
		}
		return mlxValues[name](x, values)
	}
	return e.In(&env)
}

// ifStored returns a value if there is a tensor whose name ends so.
func ifStored(x *mlxConfig, args []any) any {
	if end, _ := args[0].(string); !x.stored(end) {
		return nil
	}
	return args[1]
}

// ifNull returns a value if a field is null.
func ifNull(x *mlxConfig, args []any) any {
	if name, _ := args[0].(string); x.raw(name).Kind() != 'n' {
		return nil
	}
	return args[1]
}

// integer returns a number without what it has behind the point, nil if it is not
// positive.
func integer(_ *mlxConfig, args []any) any {
	switch n := args[0].(type) {
	case int64:
		return n
	case float64:
		if n >= 1 && n <= math.MaxInt32 {
			return int64(n)
		}
	}
	return nil
}

// plainYarn is a scaling that changes nothing, which mlx-lm's deepseek_v2 requires if there
// is no scaling.
func plainYarn(x *mlxConfig, _ []any) any {
	context := x.raw("max_position_embeddings")
	if ropeKind(x.rope()) != "default" || context.Kind() != '0' {
		return nil
	}
	return settings.Object{}.With("type", "yarn").With("factor", 1.0).With("original_max_position_embeddings", context)
}

// mambaLayers returns the kinds of Granite's layers by the names that they had before
// transformers 5.
func mambaLayers(x *mlxConfig, _ []any) any {
	older := map[string]string{"linear_attention": "mamba", "full_attention": "attention"}
	kinds := x.words("layer_types")
	for i, kind := range kinds {
		if kinds[i] = older[kind]; kinds[i] == "" {
			return nil
		}
	}
	if kinds == nil {
		return nil
	}
	return kinds
}

// sparseLayers returns for each layer whether it has experts.
func sparseLayers(x *mlxConfig, _ []any) any {
	var sparse []any
	for _, kind := range x.words("mlp_layer_types") {
		sparse = append(sparse, kind == "sparse")
	}
	if sparse == nil {
		return nil
	}
	return sparse
}

// denseLayers returns how many layers without experts come before the layers with experts,
// nil if that is not a complete description.
func denseLayers(x *mlxConfig, _ []any) any {
	kinds := x.words("mlp_layer_types")
	n := slices.Index(kinds, "sparse")
	if n < 0 || slices.ContainsFunc(kinds[n:], func(kind string) bool { return kind != "sparse" }) {
		return nil
	}
	return int64(n)
}

// layerKinds returns for each layer whether it sees a window only.
func (x *mlxConfig) layerKinds() (sliding []bool, ok bool) {
	for _, kind := range x.words("layer_types") {
		if kind != "sliding_attention" && kind != "full_attention" {
			return nil, false
		}
		sliding = append(sliding, kind == "sliding_attention")
	}
	return sliding, len(sliding) > 0
}

// ofFullLayers returns a size of the layers with full attention, if per_layer_config has
// another one for these layers than for most.
func ofFullLayers(x *mlxConfig, args []any) any {
	sliding, ok := x.layerKinds()
	name, _ := args[0].(string)
	others := x.raw("per_layer_config")
	if !ok || others.Kind() != '{' {
		return nil
	}
	own := map[string]any{}
	for layer, config := range others.Members() {
		own[layer] = numberIn(config, name)
	}
	usual := x.field(name)
	var size any
	for i, s := range sliding {
		of := own[strconv.Itoa(i)]
		if of == nil {
			of = usual
		}
		if s && of != usual || !s && size != nil && size != of {
			return nil
		}
		if !s {
			size = of
		}
	}
	return size
}

// layerLetters returns the layers in mlx-lm's form for exaone4: L for layers with a window,
// G for full attention; null if no layer has a window, because full layers rotate then.
func layerLetters(x *mlxConfig, _ []any) any {
	sliding, ok := x.layerKinds()
	switch {
	case !ok || x.raw("sliding_window_pattern").Kind() == '"':
		return nil
	case !slices.Contains(sliding, true) && x.raw("sliding_window").Kind() != '0':
		return architectures.Null{}
	}
	letters := make([]byte, len(sliding))
	for i, s := range sliding {
		letters[i] = map[bool]byte{true: 'L', false: 'G'}[s]
	}
	return string(letters)
}

// layerPeriod returns the period of layers with full attention, nil if they are not
// periodic.
func layerPeriod(x *mlxConfig, _ []any) any {
	sliding, ok := x.layerKinds()
	n := slices.Index(sliding, false) + 1
	if n == 0 {
		n = len(sliding) + 1
	}
	if !ok || !settings.HasPeriod(sliding, int64(n)) {
		return nil
	}
	return int64(n)
}

// What of a model a class computes otherwise.

// notes returns it, a sentence each.
func (x *mlxConfig) notes() (list []string) {
	for _, class := range x.classes {
		for _, note := range anyNotes {
			if text := note(x, class); text != "" {
				list = append(list, "mlx-lm's "+tensorfs.Printable(x.kind)+" "+text)
			}
		}
		for _, name := range class.Names("notes") {
			if text := mlxNotes[name](x); text != "" {
				list = append(list, "mlx-lm's "+tensorfs.Printable(x.kind)+" "+text)
			}
		}
	}
	return list
}

// towers notes the parts that mlx-lm leaves out.
func (x *mlxConfig) towers() (list []string) {
	for _, part := range []string{convert.Vision, convert.Audio} {
		if x.raw(part+"_config").Kind() == '{' {
			list = append(list, "mlx-lm loads only the language model, without "+part)
		}
	}
	return list
}

// anyNotes are what may be wrong with any class.
var anyNotes = []func(x *mlxConfig, class *architectures.MLXClass) string{
	func(x *mlxConfig, class *architectures.MLXClass) string { // scaled in a way that the class does not know
		kind := ropeKind(x.rope())
		if kind == "default" || !class.Has("rope") || class.Lists("rope", kind) {
			return ""
		}
		return fmt.Sprintf("does not scale rotary embeddings by %s, as the model does: it refuses the model, or gives other numbers", tensorfs.Quote(kind))
	},
	func(x *mlxConfig, _ *architectures.MLXClass) string {
		r := x.rope()
		switch ropeKind(r) {
		case "yarn":
			for _, name := range []string{"truncate", "attention_factor"} {
				if k := r.Member(name).Kind(); k == 'f' || k == '0' {
					return "ignores " + name + " of rope_scaling, which the model has: it gives slightly other numbers"
				}
			}
		case "longrope", "su":
			if short, long := r.Member("short_factor"), r.Member("long_factor"); compact(short) != compact(long) {
				return "takes the factors of rotary embeddings that are for long texts for short ones too: those are computed in another way than the model's"
			}
		}
		return ""
	},
	func(x *mlxConfig, class *architectures.MLXClass) string { // a window that the class does not have
		window, ok := x.number("sliding_window")
		types := x.words("layer_types")
		known := class.Has("windows") && (!class.Lists("windows", "listed") || types != nil)
		if context, said := x.number("max_position_embeddings"); !ok || window < 1 || known || said && window >= context {
			return ""
		}
		if x.raw("use_sliding_window").Kind() == 'f' || types != nil && !slices.Contains(types, "sliding_attention") {
			return ""
		}
		return fmt.Sprintf("has no sliding window: texts of more than %.0f tokens are computed in another way than the model's", window)
	},
	func(x *mlxConfig, _ *architectures.MLXClass) string {
		if x.raw("is_causal").Kind() != 'f' {
			return ""
		}
		return "does not read is_causal, which is false: no token sees those after it, as the model's do, so it gives other numbers"
	},
}

// mlxNotes are the texts for the word notes of mlx.txt.
var mlxNotes = map[string]func(x *mlxConfig) string{
	"jamba": func(*mlxConfig) string { return "gives other numbers than the model" },
	"rounded_norms": func(x *mlxConfig) string { // in a type that rounds the sum
		if x.released && x.raw("torch_dtype").Text() == "bfloat16" {
			return "adds one to the norms in BF16, which rounds them: it gives slightly other numbers"
		}
		return ""
	},
	"several_groups": func(x *mlxConfig) string {
		if groups, ok := x.number("n_groups"); ok && groups > 1 {
			return "gives other numbers than the model, whose state has several groups"
		}
		return ""
	},
	"uncorrected": func(x *mlxConfig) string {
		if x.stored("e_score_correction_bias") {
			return "leaves out what corrects the choice of experts: it gives other numbers"
		}
		return ""
	},
	"unordered": func(x *mlxConfig) string { // layers in an order that a class with a number for it cannot have
		sliding, ok := x.layerKinds()
		n, said := x.number("sliding_window_pattern")
		if !ok || said && n >= 1 && settings.HasPeriod(sliding, int64(n)) {
			return ""
		}
		return "knows no such order of layers that see a window and layers that see everything: it gives other numbers"
	},
	"whole_heads": func(x *mlxConfig) string {
		if part, ok := x.number("partial_rotary_factor"); ok && part != 1 {
			return "rotates whole heads, and the model a part of each: it gives other numbers"
		}
		return ""
	},
}

// compact is the text of a value without white space.
func compact(r jsonobj.Raw) string { return strings.Join(strings.Fields(r.String()), "") }
