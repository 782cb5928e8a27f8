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

// mlxValues are the values of mlx.txt that expressions cannot say, as that file explains.
var mlxValues = map[string]func(x *mlxConfig) any{
	"no_limit":   func(*mlxConfig) any { return []any{0.0, settings.Object{}.With("__float__", "Infinity")} },
	"plain_yarn": plainYarn,
	"released":   func(x *mlxConfig) any { return x.released },
}

// mlxFunctions are the functions that expressions of mlx.txt have beside the functions of all
// expressions, with the first argument.
var mlxFunctions = map[string]func(x *mlxConfig, arg *architectures.Expr) any{
	"of_full_layers": func(x *mlxConfig, arg *architectures.Expr) any { return x.ofFullLayers(arg.Name) },
	"is_null":        func(x *mlxConfig, arg *architectures.Expr) any { return x.at(arg.Name).Kind() == 'n' },
	"stored": func(x *mlxConfig, arg *architectures.Expr) any {
		end, isText := arg.Constant().(string)
		return isText && x.stored(end)
	},
}

// fieldsOf returns the fields that a class reads, of those whose names have a prefix;
// without one, all that have none.
func fieldsOf(c *architectures.MLXClass, prefix string) (list []mlxField) {
	for _, f := range c.Fields {
		name, ok := strings.CutPrefix(f.Name, prefix)
		if ok && (prefix != "" || !strings.Contains(name, ".")) {
			list = append(list, mlxField{name, func(x *mlxConfig) any { return x.eval(f.Value) }, f.Said})
		}
	}
	return list
}

// eval returns the value of an expression of mlx.txt: of a field as it is written.
func (x *mlxConfig) eval(e *architectures.Expr) any {
	if e.Name != "" && e.Args == nil && mlxValues[e.Name] == nil {
		return x.field(e.Name)
	}
	return e.In(x.env())
}

// env is what expressions of mlx.txt are evaluated in.
func (x *mlxConfig) env() *architectures.Env {
	return &architectures.Env{
		Facts: func(name string) any {
			if value := mlxValues[name]; value != nil {
				return value(x)
			}
			return x.value(x.at(name))
		},
		Call: func(name string, args []*architectures.Expr) any {
			if f := mlxFunctions[name]; f != nil && len(args) == 1 {
				return f(x, args[0])
			}
			return nil
		},
	}
}

// value returns a value of config.json as expressions have values.
func (x *mlxConfig) value(r jsonobj.Raw) any {
	switch r.Kind() {
	case '"':
		return r.Text()
	case 't', 'f':
		return r.Kind() == 't'
	case '0':
		f, err := strconv.ParseFloat(r.String(), 64)
		switch {
		case err != nil:
			return nil
		case f == math.Trunc(f) && math.Abs(f) <= math.MaxInt32:
			return int64(f)
		}
		return f
	case '[':
		var list []any
		for e := range r.Elements() {
			if list = append(list, x.value(e)); len(list) > jsonobj.MaxKeys {
				return nil
			}
		}
		return list
	}
	return nil
}

// plainYarn is a scaling that changes nothing, which mlx-lm's deepseek_v2 requires if there
// is no scaling.
func plainYarn(x *mlxConfig) any {
	context := x.raw("max_position_embeddings")
	if ropeKind(x.rope()) != "default" || context.Kind() != '0' {
		return nil
	}
	return settings.Object{}.With("type", "yarn").With("factor", 1.0).With("original_max_position_embeddings", context)
}

// ofFullLayers returns a size of the layers with full attention, if per_layer_config has
// another one for these layers than for most.
func (x *mlxConfig) ofFullLayers(name string) any {
	others := x.raw("per_layer_config")
	if others.Kind() != '{' {
		return nil
	}
	own := map[string]any{}
	for layer, config := range others.Members() {
		own[layer] = numberIn(config, name)
	}
	usual := x.field(name)
	var size any
	for i, kind := range x.words("layer_types") {
		window, ok := architectures.IsWindow(kind)
		of := own[strconv.Itoa(i)]
		if of == nil {
			of = usual
		}
		if !ok || window && of != usual || !window && size != nil && size != of {
			return nil
		}
		if !window {
			size = of
		}
	}
	return size
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
			if text := x.reason(name); text != "" {
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

// anyNotes are what may be wrong with any class. They are no lines of mlx_reasons.txt: they compare
// the class's other words, and objects, with the model.
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
		if x.raw("use_sliding_window").Kind() == 'f' || types != nil && !slices.Contains(types, architectures.WindowLayer) {
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

// reason returns a reason of mlx_reasons.txt, "" if it does not hold for the model.
func (x *mlxConfig) reason(name string) string {
	r, env := architectures.MLXReasons()[name], x.env()
	if r == nil || !r.When.HoldsIn(env) {
		return ""
	}
	return r.Text(env)
}

// compact is the text of a value without white space.
func compact(r jsonobj.Raw) string { return strings.Join(strings.Fields(r.String()), "") }
