package hf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/assemble"
)

// scheme is one way to store a module's numbers in several tensors. It is
// recognised by its tensors and confirmed by the quant_method.
type scheme struct {
	name    string           // in messages
	methods []string         // values of quant_method that may use it, nil if it belongs to MLX's own settings
	main    string           // suffix of the tensor with the codes
	codes   []tensorfs.DType // its types
	need    []string         // suffixes of tensors that must be beside it
	may     []string         // suffixes of tensors that may be beside it
	scales  []tensorfs.DType // types of the first of need; nil: any
	not     []string         // suffixes of tensors that mark another scheme
	// decode computes numbers from codes and companions. Schemes without one, and modules
	// that it refuses, are raw bytes only.
	decode func(b *builder, q *quantConfig, m *module) (*tensorfs.Quant, error)
}

var (
	f8  = []tensorfs.DType{tensorfs.F8_E4M3, tensorfs.F8_E5M2}
	u8  = []tensorfs.DType{tensorfs.U8}
	i8  = []tensorfs.DType{tensorfs.I8}
	i32 = []tensorfs.DType{tensorfs.I32, tensorfs.U32}
)

// schemes is the table of all schemes, the more particular first.
var schemes = []scheme{
	{name: "MLX", main: ".weight", codes: []tensorfs.DType{tensorfs.U32}, need: []string{".scales"}, may: []string{".biases"}, decode: mlx},
	{name: "FP8 with inverse scales", methods: []string{"fp8"}, main: "", codes: f8, need: []string{"_scale_inv"}, decode: fp8},
	{name: "FP8 with Mistral's scales", methods: []string{"fp8"}, main: ".weight", codes: f8, need: []string{".qscale_weight"}, decode: fp8},
	{name: "FP8 with DeepSeek's scales", methods: []string{"fp8"}, main: ".weight", codes: f8, need: []string{".scale"}, decode: fp8},
	{name: "DeepSeek's FP4", methods: []string{"fp8"}, main: ".weight", codes: i8, need: []string{".scale"}, scales: []tensorfs.DType{tensorfs.F8_E8M0}, decode: fp4},
	{name: "MiMo's MXFP4", methods: []string{"fp8"}, main: ".weight", codes: u8, need: []string{".weight_scale"}, scales: u8, decode: fp4},
	{name: "compressed-tensors MXFP8", methods: []string{"compressed-tensors"}, main: ".weight", codes: f8, need: []string{".weight_scale"}, scales: u8, decode: mxfp8},
	{name: "FP8 with scales", methods: []string{"fp8", "fbgemm_fp8", "compressed-tensors", "modelopt", "quark"}, main: "", codes: f8, need: []string{"_scale"}, not: []string{"_zero_point", "_scale_2"}, decode: fp8},
	{name: "gpt-oss MXFP4", methods: []string{"mxfp4"}, main: "_blocks", codes: u8, need: []string{"_scales"}, decode: mxfp4},
	{name: "compressed-tensors NVFP4", methods: []string{"compressed-tensors"}, main: ".weight_packed", codes: u8, need: []string{".weight_scale", ".weight_global_scale"}, may: []string{".input_global_scale"}, decode: nvfp4},
	{name: "compressed-tensors MXFP4", methods: []string{"compressed-tensors"}, main: ".weight_packed", codes: u8, need: []string{".weight_scale"}, scales: u8, not: []string{".weight_global_scale"}, decode: mxfp4Packed},
	{name: "compressed-tensors packed integers", methods: []string{"compressed-tensors"}, main: ".weight_packed", codes: i32, need: []string{".weight_scale"}, may: []string{".weight_shape", ".weight_zero_point", ".weight_g_idx"}, decode: compressedPack},
	{name: "compressed-tensors integers", methods: []string{"compressed-tensors"}, main: ".weight", codes: i8, need: []string{".weight_scale"}, may: []string{".weight_zero_point", ".input_scale", ".input_zero_point"}, decode: compressedInt},
	{name: "ModelOpt NVFP4", methods: []string{"modelopt"}, main: ".weight", codes: u8, need: []string{".weight_scale", ".weight_scale_2"}, may: []string{".input_scale"}, decode: modelOptNVFP4},
	{name: "BitNet", methods: []string{"bitnet"}, main: ".weight", codes: u8, need: []string{".weight_scale"}},
	{name: "GPTQ", methods: []string{"gptq"}, main: ".qweight", codes: i32, need: []string{".qzeros", ".scales"}, may: []string{".g_idx"}, decode: gptq},
	{name: "AWQ", methods: []string{"awq"}, main: ".qweight", codes: i32, need: []string{".scales"}, may: []string{".qzeros"}, not: []string{".g_idx"}, decode: awq},
	{name: "bitsandbytes 4-bit", methods: []string{"bitsandbytes"}, main: ".weight", codes: u8, need: []string{".weight.absmax", ".weight.quant_map"},
		may: []string{".weight.nested_absmax", ".weight.nested_quant_map", ".weight.quant_state.bitsandbytes__nf4", ".weight.quant_state.bitsandbytes__fp4"}, decode: bnb4},
	{name: "bitsandbytes 8-bit", methods: []string{"bitsandbytes"}, main: ".weight", codes: i8, need: []string{".SCB"}, may: []string{".weight_format"}, decode: bnb8},
}

// module is a module for which a scheme's tensors were found.
type module struct {
	scheme *scheme
	stem   string             // source name without the scheme's suffix
	main   *tensorfs.Tensor   // the codes
	parts  []*tensorfs.Tensor // scheme.need
	others []*tensorfs.Tensor // tensors of scheme.may that exist
}

// rawHint ends every message about numbers that cannot be decoded.
const rawHint = "; see raw/"

// quantise finds the modules that are quantised and returns the name of the
// scheme, "" for a model without one.
func (b *builder) quantise() string {
	q := b.quantConfig()
	if b.isDirectory && (q.mlx != nil || b.headerSays("format", "mlx")) {
		b.model.Format = "mlx"
	}
	found, confirmed := 0, 0
	owners := map[string]*tensorfs.Tensor{} // codes by the name of their module, the first of a layer's part by that
	for i := range b.tensors.List {
		m, agrees := b.moduleOf(&b.tensors.List[i], &q)
		if m == nil {
			continue
		}
		found++
		if agrees {
			confirmed++
		}
		if why := b.apply(&q, m, agrees); why != "" {
			m.main.Opaque = why
			for _, t := range slices.Concat(m.parts, m.others) {
				t.Opaque = why
			}
			continue
		}
		module := strings.TrimSuffix(m.stem, ".weight")
		owners[module] = m.main
		if part := stemOf(module); owners[part] == nil {
			owners[part] = m.main
		}
	}
	scaled := b.activations(&q, owners)
	b.leftovers(&q)
	if q.stated && confirmed == 0 && !scaled {
		if q.known() && len(b.tensors.List) > 0 {
			b.warn("by %s the model is quantised (%s), but no tensor is", q.where, q.label)
			return ""
		}
	}
	return q.label
}

// moduleOf returns the module whose codes are tensor t, nil if t has no companions.
// agrees reports whether its scheme is one of the method's.
func (b *builder) moduleOf(t *tensorfs.Tensor, q *quantConfig) (m *module, agrees bool) {
	for k := range schemes {
		s := &schemes[k]
		stem, ok := strings.CutSuffix(t.Source, s.main)
		if !ok || !slices.Contains(s.codes, t.DType) {
			continue
		}
		agrees := s.isOf(q)
		if m != nil && !agrees {
			continue // for a message, the first is good enough
		}
		if c := b.collect(s, stem, t); c != nil {
			m = c
			if agrees {
				return m, true
			}
		}
	}
	return m, false
}

// collect returns the module of scheme s at stem, nil if tensors are missing.
func (b *builder) collect(s *scheme, stem string, main *tensorfs.Tensor) *module {
	m := &module{scheme: s, stem: stem, main: main}
	for _, suffix := range s.need {
		t := b.tensors.Source(stem + suffix)
		if t == nil {
			return nil
		}
		if len(m.parts) == 0 && s.scales != nil && !slices.Contains(s.scales, t.DType) {
			return nil
		}
		m.parts = append(m.parts, t)
	}
	for _, suffix := range s.not {
		if b.tensors.Source(stem+suffix) != nil {
			return nil
		}
	}
	for _, suffix := range s.may {
		if t := b.tensors.Source(stem + suffix); t != nil {
			m.others = append(m.others, t)
		}
	}
	return m
}

// apply gives a module its numbers, or returns why it has none.
func (b *builder) apply(q *quantConfig, m *module, agrees bool) string {
	switch {
	case !agrees && !q.stated:
		return fmt.Sprintf("its module looks like %s, but no config.json describes the quantisation%s", m.scheme.name, rawHint)
	case !agrees:
		if s, lacks := b.incomplete(m.main, q); lacks != "" {
			return lacking(s, lacks)
		}
		return fmt.Sprintf("its module looks like %s, but %s has %s%s", m.scheme.name, q.where, q.word(), rawHint)
	case m.scheme.decode == nil:
		return fmt.Sprintf("its module is quantised with %s (%s), which is not decoded here%s", m.scheme.name, q.label, rawHint)
	}
	quant, err := (*tensorfs.Quant)(nil), q.changed
	if err == nil {
		quant, err = m.scheme.decode(b, q, m)
	}
	if err != nil {
		return fmt.Sprintf("its module is quantised with %s, but %v%s", m.scheme.name, err, rawHint)
	}
	b.unpacked(m, quant)
	assemble.Attach(m.main, quant)
	return ""
}

// isOf reports whether modules of a method may be stored so.
func (s *scheme) isOf(q *quantConfig) bool {
	if q.mlx != nil {
		return s.methods == nil
	}
	return slices.ContainsFunc(s.methods, func(method string) bool { return slices.Contains(q.methods, method) })
}

// known reports whether the method has a row in the table.
func (q *quantConfig) known() bool {
	return slices.ContainsFunc(schemes, func(s scheme) bool { return s.isOf(q) })
}

// leftovers marks codes that no scheme accounts for: codes of methods that are
// not in the table, and 8-bit floats that have a scale somewhere, or should.
func (b *builder) leftovers(q *quantConfig) {
	var scaled map[string]string // module to a tensor of it that looks like a scale
	for i := range b.tensors.List {
		t := &b.tensors.List[i]
		isF8 := slices.Contains(f8, t.DType)
		if t.Quant != nil || t.Opaque != "" || t.Owner != "" || !isF8 && t.DType.Kind() == tensorfs.KindFloat {
			continue
		}
		if q.stated && !q.known() {
			t.Opaque = fmt.Sprintf("by %s the model is quantised with %s, which is not known%s", q.where, q.label, rawHint)
			continue
		}
		s, lacks := b.incomplete(t, q)
		if q.stated && isF8 {
			if lacks != "" {
				lacks = ": " + lacks + " is missing"
			}
			t.Opaque = fmt.Sprintf("by %s the model is quantised with %s, but no scale for these 8-bit floats was found%s%s", q.where, q.label, lacks, rawHint)
			continue
		}
		if lacks != "" {
			why := lacking(s, lacks)
			t.Opaque = why
			for _, suffix := range slices.Concat(s.need, s.may) {
				if part := b.tensors.Source(strings.TrimSuffix(t.Source, s.main) + suffix); part != nil && part.Owner == "" && part.Quant == nil {
					part.Opaque = why
				}
			}
			continue
		}
		if !isF8 {
			continue
		}
		if scaled == nil {
			scaled = b.scaleLike()
		}
		if s, ok := scaled[stemOf(t.Source)]; ok {
			t.Opaque = fmt.Sprintf("%s looks like its scale, but no config.json tells how to apply it%s", tensorfs.Quote(s), rawHint)
		}
	}
}

// incomplete returns the scheme of the model's method that uses a tensor as its codes and
// that has most of its tensors, with the names of the missing tensors; "" if the tensor
// fits no scheme.
func (b *builder) incomplete(t *tensorfs.Tensor, q *quantConfig) (of *scheme, missing string) {
	fewest := 0
	for k := range schemes {
		s := &schemes[k]
		stem, ok := strings.CutSuffix(t.Source, s.main)
		if !ok || !s.isOf(q) || !slices.Contains(s.codes, t.DType) {
			continue
		}
		var lacks []string
		for _, suffix := range s.need {
			if b.tensors.Source(stem+suffix) == nil {
				lacks = append(lacks, tensorfs.Quote(stem+suffix))
			}
		}
		if n := len(lacks); n > 0 && (of == nil || n < fewest) {
			of, fewest, missing = s, n, strings.Join(lacks, " and ")
		}
	}
	return of, missing
}

// lacking explains why a module that lacks tensors of its scheme has no numbers.
func lacking(s *scheme, lacks string) string {
	return fmt.Sprintf("its module is quantised with %s, but %s is missing%s", s.name, lacks, rawHint)
}

// stemOf returns a source name without its last part.
func stemOf(name string) string {
	return name[:max(strings.LastIndexByte(name, '.'), 0)]
}

// scaleLike returns for each module the first tensor whose name suggests a scale. A scale is not an
// 8-bit float itself; FLUX names the weights of its norms so.
func (b *builder) scaleLike() map[string]string {
	m := make(map[string]string)
	for i := range b.tensors.List {
		name := b.tensors.List[i].Source
		stem := stemOf(name)
		if _, ok := m[stem]; !ok && !slices.Contains(f8, b.tensors.List[i].DType) && strings.Contains(name[len(stem):], "scale") {
			m[stem] = name
		}
	}
	return m
}
