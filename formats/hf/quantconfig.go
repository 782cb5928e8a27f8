package hf

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// quantConfig is what a model's files say about its quantisation.
type quantConfig struct {
	// method is quant_method in lower case, "mlx" for MLX's own settings, ""
	// where nothing is said.
	method string
	object object // that says it
	where  string // for messages
	format string // compressed-tensors: how the codes are stored
	block  [2]int // FP8: rows and columns per scale, zero where none is named
	bits   int    // 0 where not named
	group  int    // 0 where not named
}

// quantConfig finds the settings. MLX writes "quantization", and the same again
// as "quantization_config", which is what all others write; the absence of
// quant_method tells the two apart.
func (b *builder) quantConfig() quantConfig {
	text := b.config.object("text_config")
	for _, c := range []struct {
		where string
		in    object
		key   string
		mlx   bool
	}{
		{"config.json", b.config, "quantization", true},
		{"config.json", b.config, "quantization_config", true},
		{"config.json", b.config, "quantization_config", false},
		{"config.json (text_config)", text, "quantization", true},
		{"config.json (text_config)", text, "quantization_config", true},
		{"config.json (text_config)", text, "quantization_config", false},
		{"hf_quant_config.json", b.modelOpt, "quantization", false},
	} {
		o := c.in.object(c.key)
		method := methodOf(o)
		if c.where == "hf_quant_config.json" && len(o.keys) > 0 {
			method = "modelopt"
		}
		switch {
		case len(o.keys) == 0:
		case c.mlx && method == "" && mlxSettings(o):
			return quantConfig{method: "mlx", object: o, where: c.where}
		case !c.mlx && method != "":
			q := quantConfig{method: method, object: o, where: c.where, format: o.text("format")}
			q.numbers()
			return q
		}
	}
	// Not written by mlx-lm, but seen: the settings as a string in the header.
	for _, f := range b.files {
		for _, kv := range f.Metadata {
			if kv[0] != "quantization" && kv[0] != "quantization_config" {
				continue
			}
			if o, err := parseObject([]byte(kv[1])); err == nil && methodOf(o) == "" && mlxSettings(o) {
				return quantConfig{method: "mlx", object: o, where: "the header's __metadata__"}
			}
		}
	}
	return quantConfig{}
}

// methodOf returns the quant_method of an object. bitsandbytes did not always
// name itself.
func methodOf(o object) string {
	m := strings.ToLower(o.text("quant_method"))
	switch {
	case m == "" && (o.isTrue("load_in_4bit") || o.isTrue("load_in_8bit")):
		return "bitsandbytes"
	case m == "" && o.has("quant_method"):
		return "unnamed"
	case strings.HasPrefix(m, "modelopt"):
		return "modelopt"
	}
	if m == "compressed_tensors" {
		return "compressed-tensors"
	}
	return m
}

// mlxSettings reports whether an object holds settings of MLX: for the whole
// model or at least for some modules.
func mlxSettings(o object) bool {
	if o.has("bits") || o.has("group_size") {
		return true
	}
	for _, k := range o.keys {
		if sub := o.object(k); sub.has("bits") || sub.has("group_size") {
			return true
		}
	}
	return false
}

// numbers reads bits, group and block size from where each method has them.
func (q *quantConfig) numbers() {
	q.bits, _ = q.object.integer("bits")
	q.group, _ = q.object.integer("group_size")
	q.block, _ = q.object.pair("weight_block_size")
	groups := q.object.object("config_groups") // compressed-tensors
	for i, k := range groups.keys {
		w := groups.object(k).object("weights")
		bits, _ := w.integer("num_bits")
		group, _ := w.integer("group_size")
		block, _ := w.pair("block_structure")
		if i > 0 && (bits != q.bits || group != q.group || block != q.block) {
			q.bits, q.group, q.block = 0, 0, [2]int{} // no single answer
			break
		}
		q.bits, q.group, q.block = bits, group, block
	}
	if q.method == "bitsandbytes" {
		q.bits = 8
		if q.object.isTrue("load_in_4bit") {
			q.bits = 4
		}
	}
}

// label names the scheme in a few words.
func (q *quantConfig) label() string {
	var s strings.Builder
	object := q.object
	switch q.method {
	case "":
		return ""
	case "mlx":
		s.WriteString("mlx")
		if object.has("bits") && object.has("group_size") {
			mode, bits, group, _ := mlxParameters(object, false)
			fmt.Fprintf(&s, " %s %d-bit, group %d", tensorfs.Printable(mode), bits, group)
		}
		entries := 0
		for _, k := range object.keys {
			if v := object.values[k]; v.Kind() == '{' {
				entries++
			}
		}
		if entries > 0 {
			fmt.Fprintf(&s, ", %d modules with their own settings", entries)
		}
		return s.String()
	case "modelopt":
		s.WriteString("modelopt " + object.text("quant_algo"))
	case "bitsandbytes":
		s.WriteString("bitsandbytes")
		if q.bits == 4 {
			s.WriteString(" " + object.text("bnb_4bit_quant_type"))
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
	return tensorfs.Printable(text)
}
