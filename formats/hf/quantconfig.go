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
	// method is quant_method in lower case, "mlx" for MLX's own settings, ""
	// where nothing is said.
	method string
	label  string         // the scheme in a few words, see name
	object jsonobj.Object // that says it
	where  string         // for messages
	format string         // compressed-tensors: how the codes are stored
	block  [2]int         // FP8: rows and columns per scale, zero where none is named
	bits   int            // 0 where not named
	group  int            // 0 where not named

	mlx *assemble.Settings // of method "mlx"

	form    string // checkpoint_format, or format
	version string
	dynamic bool // modules have settings of their own
	ways    []way
	whyNot  error // why no module of compressed-tensors is decoded
}

// quantConfig finds the settings. The absence of quant_method tells MLX's settings from all others.
func (b *builder) quantConfig() quantConfig {
	for where, scope := range assemble.Scopes(b.config) {
		if s := assemble.FindSettings(where, scope); s != nil {
			return mlxConfig(s)
		}
		o := scope.Object("quantization_config")
		if method := methodOf(o); method != "" {
			return newQuantConfig(method, o, where)
		}
	}
	if o := b.modelOpt.Object("quantization"); o.Len() > 0 {
		return newQuantConfig("modelopt", o, "hf_quant_config.json")
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

func mlxConfig(s *assemble.Settings) quantConfig {
	q := quantConfig{method: "mlx", object: s.Object, where: s.Where, mlx: s}
	q.label = q.name()
	return q
}

// newQuantConfig parses the settings in an object once. Words from the file are
// shortened, because they also appear in the reasons of every tensor.
func newQuantConfig(method string, o jsonobj.Object, where string) quantConfig {
	q := quantConfig{method: brief(method), object: o, where: where, format: brief(o.Raw("format").Text())}
	q.numbers()
	q.label = q.name()
	q.version, q.dynamic = brief(strings.ToLower(o.Raw("version").Text())), o.Object("dynamic").Len() > 0
	if q.form = brief(o.Raw("checkpoint_format").Text()); q.form == "" {
		q.form = q.format
	}
	if method == "compressed-tensors" {
		q.compressedWays()
	}
	return q
}

// brief makes a few printable words of text from a file.
func brief(s string) string {
	if len(s) > 60 {
		return tensorfs.Quote(s)
	}
	return tensorfs.Printable(s)
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

// methodOf returns the quant_method of an object. bitsandbytes did not always
// name itself.
func methodOf(o jsonobj.Object) string {
	m := strings.ToLower(o.Raw("quant_method").Text())
	switch {
	case m == "" && (isTrue(o, "load_in_4bit") || isTrue(o, "load_in_8bit")):
		return "bitsandbytes"
	case m == "" && o.Has("quant_method"):
		return "unnamed"
	case strings.HasPrefix(m, "modelopt"):
		return "modelopt"
	}
	if m == "compressed_tensors" {
		return "compressed-tensors"
	}
	return m
}

// numbers reads bits, group and block size from where each method has them.
func (q *quantConfig) numbers() {
	q.bits, _ = q.object.Raw("bits").Int()
	q.group, _ = q.object.Raw("group_size").Int()
	q.block, _ = pair(q.object.Raw("weight_block_size"))
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
	switch q.method {
	case "":
		return ""
	case "mlx":
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
		s.WriteString(q.method)
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
