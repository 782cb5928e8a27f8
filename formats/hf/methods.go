package hf

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// sameMethods are words for methods that have another name in the table of schemes: names of libraries, of
// kernels that a runtime chose, and older spellings.
var sameMethods = map[string]string{
	"compressed_tensors": compressedTensors,
	"auto_gptq":          "gptq", "autogptq": "gptq", "auto-gptq": "gptq", "gptqmodel": "gptq", "gptq_marlin": "gptq", "gptq_v2": "gptq",
	"auto_awq": "awq", "autoawq": "awq", "auto-awq": "awq", "awq_marlin": "awq",
	"auto_round": autoRound, "autoround": autoRound, "intel/auto-round": autoRound, "intel/auto_round": autoRound, "inc": autoRound,
	"rtn": neuralCompressor, "teq": neuralCompressor,
}

const (
	compressedTensors = "compressed-tensors"
	autoRound         = "auto-round"       // of Intel, for vLLM inc
	neuralCompressor  = "neuralcompressor" // Intel's older program
)

// schemesOf finds the method whose rows of the table of schemes a model uses, which its quant_method names
// or, for programs that pack in several ways, other fields.
func (q *quantConfig) schemesOf() {
	method := q.method
	if m, ok := sameMethods[method]; ok {
		method = m
	}
	q.methods = []string{method}
	switch {
	case method == autoRound:
		q.autoRound()
	case method == neuralCompressor, method == "awq" && strings.EqualFold(q.object.Raw("backend").Text(), "inc"):
		q.methods, q.wraps = []string{"gptq"}, true
	case q.method == "gptq_v2" && q.form == "":
		q.form = "gptq_v2"
	case method == compressedTensors:
		q.compressedWays()
	}
}

// roundPackings are AutoRound's ways to pack: parts of its packing_format, and the schemes that then occur.
// Beside integers there may be modules in 8-bit floats. The first row that fits counts.
var roundPackings = []struct {
	part    string
	methods []string
	form    string // checkpoint_format of GPTQ
}{
	{"awq", []string{"awq", "fp8"}, ""},
	{"gptqmodel", []string{"gptq", "fp8"}, "gptq_v2"},
	{"gptq", []string{"gptq", "fp8"}, "gptq"},
}

// roundWords are what packing_format may be besides.
var roundWords = map[string]struct {
	methods []string
	form    string
}{
	"":               {[]string{"gptq", "fp8"}, "gptq"}, // the default
	"auto":           {[]string{"gptq", "fp8"}, "gptq"},
	"auto_round":     {[]string{"gptq", "fp8"}, "gptq_v2"},
	"exllamav2":      {[]string{"gptq", "fp8"}, "gptq_v2"}, // with the kernel's name: versions before 0.5
	"triton":         {[]string{"gptq", "fp8"}, "gptq_v2"},
	"tritonv2":       {[]string{"gptq", "fp8"}, "gptq_v2"},
	"llm_compressor": {[]string{compressedTensors, "fp8"}, ""},
	"fp8":            {[]string{"fp8"}, ""},
	"fp8_static":     {[]string{"fp8"}, ""},
	"fake":           {nil, ""}, // plain numbers
}

// autoRound reads how AutoRound packed a model. In the layout of GPTQ's older versions, its
// zero points are stored less one; in GPTQModel's and AutoRound's own layout they are
// stored unchanged.
func (q *quantConfig) autoRound() {
	q.dynamic, q.stream, q.ways = q.object.Object("extra_config").Len() > 0, true, nil
	for _, format := range []string{"nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized"} {
		q.ways = append(q.ways, way{format: format})
	}
	for _, key := range []string{"rotation_config", "spinquant_config", "hadamard_config"} {
		if o := q.object.Raw(key); o.Kind() == '{' && o.Object().Len() > 0 || o.Kind() == '"' {
			q.changed = fmt.Errorf("%s is there: the weights are not the model without what that does", key)
		}
	}
	word, key := strings.ToLower(q.object.Raw("packing_format").Text()), "packing_format"
	if word == "" {
		word, key = strings.ToLower(q.object.Raw("backend").Text()), "backend" // of versions before 0.5
	}
	for _, p := range roundPackings {
		if strings.Contains(word, p.part) {
			q.methods, q.form = p.methods, p.form
			return
		}
	}
	short, _ := strings.CutPrefix(strings.ReplaceAll(word, "-", "_"), "auto_round:")
	p, ok := roundWords[short]
	if !ok && key == "backend" { // of the kernels of newer versions, which say nothing of the layout
		p, ok = roundWords[""], true
	}
	if !ok {
		q.changed = fmt.Errorf("%s is %s, which is not read", key, tensorfs.Quote(word))
		p.methods = roundWords[""].methods
	}
	q.methods, q.form = p.methods, p.form
}

// maxPatterns bounds the entries of extra_config that are patterns, and maxPattern their length.
const maxPatterns, maxPattern = 256, 256

// ownEntry returns a module's entry in AutoRound's extra_config: by its name, or by the
// first pattern that fits.
func (q *quantConfig) ownEntry(module string) jsonobj.Raw {
	all := q.object.Object("extra_config")
	if own := all.Raw(module); own.Kind() == '{' {
		return own
	}
	if !q.compiled {
		q.compiled = true
		for key, v := range all.All() {
			if !strings.ContainsAny(key, `*+?^$()[]|\`) || strings.Contains(key, "{") || len(key) > maxPattern || len(q.patterns) == maxPatterns {
				continue // counts of repetitions, which AutoRound does not write, multiply
			}
			if p, err := regexp.Compile(key); err == nil {
				q.patterns = append(q.patterns, pattern{p, v})
			}
		}
	}
	if i := slices.IndexFunc(q.patterns, func(p pattern) bool { return p.expression.MatchString(module) }); i >= 0 {
		return q.patterns[i].says
	}
	return jsonobj.Raw{}
}

// pattern is an entry of extra_config for the modules that a regular expression finds.
type pattern struct {
	expression *regexp.Regexp
	says       jsonobj.Raw
}

// blockOf returns the rows and columns of a module that share a scale, zero where none are named.
func (q *quantConfig) blockOf(m *module) [2]int {
	if !q.stream {
		return q.block
	}
	if block, ok := pair(q.ownEntry(strings.TrimSuffix(m.stem, ".weight")).Member("group_size")); ok {
		return block
	}
	if n, _ := tensorfs.Elements(m.parts[0].Shape); n > 1 && q.block[0] == 0 && m.scheme.need[0] == "_scale_inv" && len(m.main.Shape) >= 2 {
		// Modules that were in 8 bits already stay so, with the settings of the model
		// before.
		if block := [2]int{128, 128}; slices.Equal(m.parts[0].Shape, scaleShape(m.main.Shape, block)) {
			return block
		}
	}
	return q.block
}
