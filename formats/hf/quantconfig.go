package hf

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/assemble"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// quantConfig is what a model's files say about its quantisation.
type quantConfig struct {
	// said reports whether the files describe quantisation at all. The stored description
	// is only ever in method, which is quant_method in lower case: "" for MLX's own
	// settings, and if quant_method is not a word.
	stated bool
	method string
	label  string         // the scheme in a few words, see name
	object jsonobj.Object // the object with these settings
	outer  jsonobj.Object // that has it as a member, in older forms of compressed-tensors; or the same
	where  string         // for messages
	format string         // compressed-tensors: how the codes are stored
	block  [2]int         // FP8: rows and columns per scale, zero where none is named
	bits   int            // 0 where not named
	group  int            // 0 where not named

	mlx *assemble.Settings // MLX's own settings, nil with any other method

	methods []string // whose rows of the table of schemes the model uses
	form    string   // checkpoint_format, or format
	version string
	dynamic bool // modules have settings of their own
	stream  bool // codes of 5, 6 and 7 bits are a stream, as AutoRound writes them
	wraps   bool // GPTQ: a stored zero point of all ones is 0
	ways    []way
	tooMany error // why no module follows from ways
	changed error // why no module has the model's own numbers

	patterns []pattern // of extra_config, as soon as compiled
	compiled bool
}

// quantConfig finds the settings. The absence of quant_method tells MLX's settings from all others.
func (b *builder) quantConfig() quantConfig {
	for where, scope := range assemble.Scopes(b.config) {
		if s := assemble.FindSettings(where, scope); s != nil {
			return mlxConfig(s)
		}
		o := scope.Object("quantization_config")
		if method, said := methodOf(o); said {
			return newQuantConfig(method, o, where)
		}
	}
	for where, scope := range assemble.Scopes(b.config) { // an older name
		if o := scope.Object("compression_config"); o.Has("format") || o.Has("config_groups") || o.Has("quantization_config") {
			return newQuantConfig(compressedTensors, o, where)
		}
	}
	if o := b.modelOpt.Object("quantization"); o.Len() > 0 {
		return newQuantConfig("modelopt", o, "hf_quant_config.json")
	}
	if q, ok := b.quantFile(); ok {
		return q
	}
	// Not written by mlx-lm, but seen: the settings as a string in the header.
	for _, f := range b.files {
		for _, kv := range f.Metadata {
			if kv[0] != "quantization" && kv[0] != "quantization_config" {
				continue
			}
			if o, err := jsonobj.Parse([]byte(kv[1])); err == nil {
				if s := assemble.NewSettings("the header's __metadata__", o); s != nil {
					return mlxConfig(s)
				}
			}
		}
	}
	return quantConfig{}
}

// quantFiles are the files in which programs stored settings before config.json had them,
// with the method to assume if the file names none.
var quantFiles = []struct{ name, method string }{{"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}, {"quantization_config.json", ""}}

// quantFile finds the settings in a file of their own.
func (b *builder) quantFile() (quantConfig, bool) {
	if !b.isDirectory {
		return quantConfig{}, false
	}
	for _, f := range quantFiles {
		o, err := optionalObject(b.dir, f.name)
		if err != nil {
			b.warn("%v", err)
			continue
		}
		method, said := methodOf(o)
		if !said && (o.Has("bits") || o.Has("w_bit")) {
			method, said = f.method, f.method != ""
		}
		if said {
			return newQuantConfig(method, o, f.name), true
		}
	}
	return quantConfig{}, false
}

func mlxConfig(s *assemble.Settings) quantConfig {
	q := quantConfig{stated: true, object: s.Object, where: s.Where, mlx: s}
	q.label = q.name()
	return q
}

// newQuantConfig parses the settings in an object once. Words from the file are
// shortened, because they also appear in the reasons of every tensor.
func newQuantConfig(method string, o jsonobj.Object, where string) quantConfig {
	q := quantConfig{stated: true, method: brief(method), object: o, outer: o, where: where}
	if inner := o.Object("quantization_config"); method == compressedTensors && inner.Len() > 0 {
		q.object = inner // beside sparsity_config, in an older form
	}
	q.format = brief(q.object.Raw("format").Text())
	q.numbers()
	q.label = q.name()
	q.version, q.dynamic = brief(strings.ToLower(q.object.Raw("version").Text())), q.object.Object("dynamic").Len() > 0
	if q.form = brief(q.object.Raw("checkpoint_format").Text()); q.form == "" {
		q.form = q.format
	}
	q.schemesOf()
	return q
}

// brief makes a few printable words of text from a file.
func brief(s string) string {
	if len(s) > 60 {
		return tensorfs.Quote(s)
	}
	return tensorfs.Printable(s)
}

// firstOf returns the value of the first key that an object has.
func firstOf(o jsonobj.Object, keys ...string) jsonobj.Raw {
	for _, key := range keys {
		if o.Has(key) {
			return o.Raw(key)
		}
	}
	return jsonobj.Raw{}
}

// isTrue reports whether a key is present and true.
func isTrue(o jsonobj.Object, key string) bool { return o.Raw(key).Kind() == 't' }

// pair returns the two positive integers of a list of length two.
func pair(list jsonobj.Raw) ([2]int, bool) {
	var p [2]int
	n := 0
	for e := range list.Elements() {
		i, ok := e.Int()
		if !ok || i <= 0 || n == 2 {
			return [2]int{}, false
		}
		p[n] = i
		n++
	}
	if n != 2 {
		return [2]int{}, false
	}
	return p, true
}

// methodOf returns the quant_method of an object, and whether it has one, if only an
// empty one. bitsandbytes did not always name itself.
func methodOf(o jsonobj.Object) (method string, said bool) {
	m := strings.ToLower(o.Raw("quant_method").Text())
	switch {
	case m == "" && (isTrue(o, "load_in_4bit") || isTrue(o, "load_in_8bit")):
		return "bitsandbytes", true
	case strings.HasPrefix(m, "modelopt"):
		return "modelopt", true
	case m == "compressed_tensors":
		return compressedTensors, true
	}
	return m, o.Has("quant_method")
}

// word names the method in messages.
func (q *quantConfig) word() string {
	switch {
	case q.mlx != nil:
		return "mlx"
	case q.method == "":
		return "unnamed"
	}
	return q.method
}

// numbers reads bits, group and block size from where each method has them.
func (q *quantConfig) numbers() {
	q.bits, _ = firstOf(q.object, "bits", "w_bit").Int()
	q.group, _ = firstOf(q.object, "group_size", "q_group_size").Int()
	q.block, _ = pair(firstOf(q.object, "weight_block_size", "group_size"))
	first := true
	for _, g := range q.object.Object("config_groups").All() { // compressed-tensors
		w := g.Member("weights")
		bits, _ := w.Member("num_bits").Int()
		group, _ := w.Member("group_size").Int()
		block, _ := pair(w.Member("block_structure"))
		if !first && (bits != q.bits || group != q.group || block != q.block) {
			q.bits, q.group, q.block = 0, 0, [2]int{} // no single answer
			break
		}
		q.bits, q.group, q.block = bits, group, block
		first = false
	}
	if q.method == "bitsandbytes" {
		q.bits = 8
		if isTrue(q.object, "load_in_4bit") {
			q.bits = 4
		}
	}
}

// name describes the scheme in a few words.
func (q *quantConfig) name() string {
	var s strings.Builder
	object := q.object
	if q.mlx != nil {
		s.WriteString("mlx")
		if p, ok := q.mlx.Usual(); ok {
			fmt.Fprintf(&s, " %s %d-bit, group %d", brief(p.Mode), p.Bits, p.Group)
		}
		entries := 0
		for _, v := range object.All() {
			if v.Kind() == '{' {
				entries++
			}
		}
		if entries > 0 {
			fmt.Fprintf(&s, ", %d modules with their own settings", entries)
		}
		return s.String()
	}
	switch q.method {
	case "modelopt":
		s.WriteString("modelopt " + brief(object.Raw("quant_algo").Text()))
	case "bitsandbytes":
		s.WriteString("bitsandbytes")
		if q.bits == 4 {
			s.WriteString(" " + brief(object.Raw("bnb_4bit_quant_type").Text()))
		}
	case "compressed-tensors":
		s.WriteString("compressed-tensors " + q.format)
	case "fp8":
		if q.block[0] > 0 {
			return fmt.Sprintf("fp8, blocks of %d x %d", q.block[0], q.block[1])
		}
		return "fp8"
	default:
		s.WriteString(q.word())
	}
	text := strings.TrimRight(s.String(), " ")
	if q.bits > 0 {
		text += fmt.Sprintf(" %d-bit", q.bits)
	}
	if q.group > 0 {
		text += fmt.Sprintf(", group %d", q.group)
	}
	return text
}
