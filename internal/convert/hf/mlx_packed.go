package hf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// packing is a way of another library to quantise, which classes of mlx-lm load.
type packing struct {
	name   string // in mlx.txt
	method string // quant_method of config.json
	// fits reports whether config.json describes this packing.
	fits func(q jsonobj.Raw) bool
	// ends are what names of tensors end in that mlx-lm does not load with it, and why.
	ends   []string
	reason string
}

// packings are the ways that mlx-lm knows, in the order in which they are tried.
var packings = []packing{
	{name: "awq", method: "awq", fits: isGemm, reason: "experts and kv_b_proj that are packed", ends: []string{".kv_b_proj.qweight", ".w1.qweight", ".0.gate_proj.qweight"}},
	{name: "bitnet", method: "bitnet", fits: func(q jsonobj.Raw) bool { return q.Member("quantization_mode").Text() != "online" }},
	{name: "fp8", method: "fp8", fits: func(q jsonobj.Raw) bool { return isPair(q.Member("weight_block_size"), 128) }},
	{name: "int4", method: "compressed-tensors", fits: isSymmetric, reason: "groups in another order, or with zeros of their own", ends: []string{".weight_g_idx", ".weight_zero_point"}},
	{name: "mxfp4", method: "mxfp4", fits: anyWay},
	{name: "mxfp4_packed", method: "compressed-tensors", fits: func(q jsonobj.Raw) bool { return q.Member("format").Text() == "mxfp4-pack-quantized" }},
	{name: "mxfp8", method: "mxfp8", fits: anyWay},
	{name: "mxfp8", method: "fp8", fits: func(q jsonobj.Raw) bool {
		return q.Member("scale_fmt").Text() == "ue8m0" && isPair(q.Member("weight_block_size"), 32)
	}},
	{name: "nvfp4", method: "modelopt", fits: func(q jsonobj.Raw) bool {
		return q.Member("quant_algo").Text() == "NVFP4" || q.Member("quantization").Member("quant_algo").Text() == "NVFP4"
	}},
}

func anyWay(jsonobj.Raw) bool { return true }

// isPair reports whether a value is a list of a number twice.
func isPair(list jsonobj.Raw, want int) bool {
	n := 0
	for e := range list.Elements() {
		if v, ok := e.Int(); !ok || v != want {
			return false
		}
		n++
	}
	return n == 2
}

// isGemm reports whether weights are packed as AWQ does it for matrix products, in
// groups that MLX has.
func isGemm(q jsonobj.Raw) bool {
	version := strings.ToLower(q.Member("version").Text())
	return !strings.EqualFold(q.Member("backend").Text(), "inc") && isInt(q.Member("bits"), true, 4) && isInt(q.Member("group_size"), true, 32, 64, 128) && (version == "" || version == "gemm")
}

// isSymmetric reports whether weights are integers of 4 bits in groups that MLX has,
// around 0.
func isSymmetric(q jsonobj.Raw) bool {
	groups := 0
	for _, group := range q.Member("config_groups").Members() {
		w := group.Member("weights")
		if !isInt(w.Member("num_bits"), false, 4) || !isInt(w.Member("group_size"), false, 32, 64, 128) || w.Member("symmetric").Kind() != 't' || w.Member("type").Text() == "float" {
			return false
		}
		groups++
	}
	return groups > 0 && q.Member("format").Text() == "pack-quantized"
}

// isInt reports whether a value is one of these, or missing if that is allowed.
func isInt(r jsonobj.Raw, absent bool, of ...int) bool {
	n, ok := r.Int()
	return ok && slices.Contains(of, n) || absent && r.Kind() == 0
}

// isDense reports whether all tensors are numbers that no library quantised, as in a model that was quantised only
// for training and then merged with its adapter.
func isDense(m *tensorfs.Model) bool {
	return len(m.Tensors) > 0 && !slices.ContainsFunc(m.Tensors, func(t tensorfs.Tensor) bool {
		return t.Quant != nil || !slices.Contains([]tensorfs.DType{tensorfs.F32, tensorfs.F16, tensorfs.BF16}, t.DType)
	})
}

// unpacked returns why a class of mlx-lm does not load how another library quantised a
// model, "" if it does.
func unpacked(m *tensorfs.Model, config mlxText) string {
	if len(config.x.classes) == 0 {
		return ""
	}
	q := config.x.raw("quantization_config")
	if q.Kind() == 0 {
		q = config.y.raw("quantization_config") // where mlx-lm looks next
	}
	kind := tensorfs.Printable(config.x.kind)
	switch q.Kind() {
	case 0:
		if slices.ContainsFunc(m.Sources, func(s tensorfs.Source) bool { return s.Name == "hf_quant_config.json" }) {
			return "the model is quantised, and hf_quant_config.json does not name it as mlx-lm wants: there is no quant_method"
		}
		if config.x.raw("compression_config").Kind() == '{' || config.y.raw("compression_config").Kind() == '{' {
			return "the model is quantised, and config.json names it compression_config, which mlx-lm does not read"
		}
		if slices.ContainsFunc(m.Tensors, func(t tensorfs.Tensor) bool { return t.Quant != nil && t.Quant.Numbers != nil }) {
			return "the model is quantised, and config.json, which mlx-lm reads, does not say how"
		}
		return ""
	case 'n':
		return ""
	}
	method := q.Member("quant_method").Text()
	if isDense(m) && (q.String() == "{}" || method != "" && !slices.Contains([]string{"awq", "bitnet", "gptq"}, method)) {
		return "" // nothing is packed: mlx-lm asks tensors
	}
	for _, p := range packings {
		if p.method != method || !p.fits(q) || !config.x.classes[0].Lists("packed", p.name) {
			continue
		}
		if slices.ContainsFunc(p.ends, config.x.stored) {
			return fmt.Sprintf("mlx-lm's %s does not load %s: the model is quantised by %s with such", kind, p.reason, method)
		}
		return ""
	}
	detail := ""
	for _, name := range []string{"format", "quant_algo", "version"} {
		if text := q.Member(name).Text(); text != "" {
			detail = ", " + tensorfs.Printable(text)
		}
	}
	if bits, ok := q.Member("bits").Int(); ok {
		detail += fmt.Sprintf(", %d bits", bits)
	}
	return fmt.Sprintf("the model is quantised in a way that mlx-lm's %s does not load: %s%s", kind, tensorfs.Quote(method), detail)
}
