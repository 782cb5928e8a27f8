package hfdir

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/tree/whole/internal/settings"
)

// mlxField is a field of config.json that libraries read.
type mlxField struct {
	name  string
	value mlxValue
}

// mlxValue computes a value as settings.Object has them; nil: the field is not added.
type mlxValue func(x *mlxConfig) any

// mlxValues are values of fields, as descriptions of mlx-lm's classes name them.
var mlxValues = map[string]mlxValue{
	"letters": layerLetters, "period": layerPeriod, "plain_yarn": plainYarn, "rotary_part": rotaryPart, "rows_of_text": rowsOfText,
}

// mlxRefusals are why a class does not load a model, "" if it does.
var mlxRefusals = map[string]func(m *tensorfs.Model, config *mlxConfig) string{
	"dense_experts": denseExperts, "further_layers": furtherLayers, "not_fourfold": notFourfold, "prefixed": prefixed,
	"first_release": func(*tensorfs.Model, *mlxConfig) string {
		return "mlx-lm's olmo loads the first release's files alone, not those of transformers"
	},
}

// mlxNotes are what of a model a class computes otherwise.
var mlxNotes = map[string]func(x *mlxConfig) string{"rounded_norms": roundedNorms, "unordered": unordered, "whole_heads": wholeHeads}

// fieldsOf returns the fields that a class reads.
func fieldsOf(c *architectures.MLXClass) []mlxField {
	list := make([]mlxField, len(c.Fields))
	for i, f := range c.Fields {
		list[i] = mlxField{f.Name, mlxValues[f.Value.Name]}
		switch {
		case f.Value.Name == "copied":
			list[i].value = copied(f.Value.Args[0].Name)
		case f.Value.Literal != nil:
			list[i].value = func(*mlxConfig) any { return f.Value.Literal }
		}
	}
	return list
}

// instead is a value that takes the place of another: of a field that two libraries
// mean by one name.
type instead struct{ value any }

// plainYarn is a scaling that changes nothing, which mlx-lm's deepseek_v2 wants where
// there is none.
func plainYarn(x *mlxConfig) any {
	context := x.raw("max_position_embeddings")
	if ropeKind(x.scaling()) != "default" || context.Kind() != '0' {
		return nil
	}
	return instead{settings.Object{}.With("type", "yarn").With("factor", 1.0).With("original_max_position_embeddings", context)}
}

// rowsOfText returns the size of the vocabulary, which mlx-lm's gemma3 wants outside
// of the object that has it.
func rowsOfText(x *mlxConfig) any {
	if r := x.raw("text_config").Member("vocab_size"); r.Kind() == '0' {
		return r
	}
	return nil
}

// wholeHeads notes heads of which a part is rotated.
func wholeHeads(x *mlxConfig) string {
	if part, ok := x.number("partial_rotary_factor"); ok && part != 1 {
		return "rotates whole heads, and the model a part of each: it gives other numbers"
	}
	return ""
}

// roundedNorms notes norms to which mlx-lm adds one in a type that rounds the sum.
func roundedNorms(x *mlxConfig) string {
	if x.released && x.raw("torch_dtype").Text() == "bfloat16" {
		return "adds one to the norms in BF16, which rounds them: it gives slightly other numbers"
	}
	return ""
}

// Reasons why a class does not load a release.

// unloaded returns why mlx-lm does not load a release, "" if it does.
func unloaded(m *tensorfs.Model, c *architectures.MLXClass, x *mlxConfig) string {
	if x.at("quantization_config") >= 0 && !c.Says("packed", x.raw("quantization_config").Member("quant_method").Text()) {
		return "the model is quantised in a way that mlx-lm does not load: it has a quantization_config"
	}
	// Embedding models are released as their other part loads them.
	if slices.ContainsFunc(m.Tensors, func(t tensorfs.Tensor) bool { return t.Source == "embed_tokens.weight" }) {
		return "mlx-lm knows the tensors by names with model. before them, and the model's have none"
	}
	for _, name := range c.Names("refuses") {
		return mlxRefusals[name](m, x)
	}
	return ""
}

// prefixed refuses the tensors of GPT-2 under the names that transformers gives them.
func prefixed(m *tensorfs.Model, _ *mlxConfig) string {
	if slices.ContainsFunc(m.Tensors, func(t tensorfs.Tensor) bool { return strings.HasPrefix(t.Source, "transformer.") }) {
		return "mlx-lm's gpt2 knows the tensors by the names of the first release, without transformer. before them"
	}
	return ""
}

// notFourfold refuses a feed-forward part that is not four times as wide as the rest.
func notFourfold(_ *tensorfs.Model, x *mlxConfig) string {
	width, _ := x.number("hidden_size")
	if ff, ok := x.number("intermediate_size"); ok && ff != 4*width {
		return fmt.Sprintf("mlx-lm's gpt_neox has feed-forward parts of four times the width %.0f, and the model's have %.0f", width, ff)
	}
	return ""
}

// denseExperts refuses experts of gpt-oss that are not in blocks.
func denseExperts(m *tensorfs.Model, _ *mlxConfig) string {
	for i := range m.Tensors {
		if t := &m.Tensors[i]; strings.HasSuffix(t.Source, ".experts.gate_up_proj") || strings.HasSuffix(t.Source, ".experts.down_proj") {
			return "mlx-lm's gpt_oss takes experts in blocks of MXFP4, and the model's are not"
		}
	}
	return ""
}

// furtherLayers refuses layers that predict further tokens: mlx-lm's deepseek_v3
// leaves those of the first release out, layer 61, and no others.
func furtherLayers(m *tensorfs.Model, x *mlxConfig) string {
	layers, ok := x.number("num_hidden_layers")
	for i := range m.Tensors {
		var n int
		if _, err := fmt.Sscanf(m.Tensors[i].Source, "model.layers.%d.", &n); err == nil && ok && float64(n) >= layers && n != 61 {
			return fmt.Sprintf("mlx-lm's deepseek_v3 has no layers that predict further tokens, and the model has one, layer %d", n)
		}
	}
	return ""
}

// rotaryPart returns how many numbers of a head are rotated.
func rotaryPart(x *mlxConfig) any {
	head, ok := x.number("head_dim")
	part, said := x.number("partial_rotary_factor")
	if n := head * part; ok && said && n >= 1 && n <= math.MaxInt32 {
		return int64(n)
	}
	return nil
}

// layerKinds returns for each layer whether it sees a window only.
func (x *mlxConfig) layerKinds() (sliding []bool, ok bool) {
	r := x.raw("layer_types")
	for e := range r.Elements() {
		switch e.Text() {
		case "sliding_attention":
			sliding = append(sliding, true)
		case "full_attention":
			sliding = append(sliding, false)
		default:
			return nil, false
		}
	}
	return sliding, len(sliding) > 0
}

// layerLetters returns the layers as mlx-lm's exaone4 has them: L for those that see
// a window, G for the others; null where none does, as those rotate then.
func layerLetters(x *mlxConfig) any {
	sliding, ok := x.layerKinds()
	switch {
	case !ok || x.raw("sliding_window_pattern").Kind() == '"':
		return nil
	case !slices.Contains(sliding, true) && x.raw("sliding_window").Kind() != '0':
		return instead{architectures.Null{}}
	}
	letters := make([]byte, len(sliding))
	for i, s := range sliding {
		letters[i] = map[bool]byte{true: 'L', false: 'G'}[s]
	}
	return instead{string(letters)}
}

// layerPeriod returns after how many layers one sees everything, nil where they have
// no such order.
func layerPeriod(x *mlxConfig) any {
	sliding, ok := x.layerKinds()
	if !ok {
		return nil
	}
	n := slices.Index(sliding, false) + 1
	if n == 0 {
		n = len(sliding) + 1
	}
	if !settings.HasPeriod(sliding, int64(n)) {
		return nil
	}
	return int64(n)
}

// unordered notes layers in an order that a class with a number for it cannot have.
func unordered(x *mlxConfig) string {
	sliding, ok := x.layerKinds()
	n, said := x.number("sliding_window_pattern")
	if !ok || said && n >= 1 && settings.HasPeriod(sliding, int64(n)) {
		return ""
	}
	return "knows no such order of layers that see a window and layers that see everything: it gives other numbers"
}
