package hf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/formats/packing"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// other returns the module's tensor of a suffix, nil if it is missing.
func (b *builder) other(m *module, suffix string) *tensorfs.Tensor {
	return b.tensors.Source(m.stem + suffix)
}

// unpacked gives a module whose codes are not called .weight the name of its weight, and
// the float type of the model.
func (b *builder) unpacked(m *module, quant *tensorfs.Quant) {
	if m.scheme.methods != nil {
		if b.float == nil {
			f := b.floatType()
			b.float = &f
		}
		if *b.float != tensorfs.Unknown {
			quant.Float = *b.float
		}
	}
	if strings.HasSuffix(m.main.Source, ".weight") || quant.Weight != "" || m.scheme.main != ".qweight" && m.scheme.main != ".weight_packed" {
		return
	}
	i, _ := b.tensors.Find(m.main.Source)
	stem := strings.TrimSuffix(m.main.Name, m.scheme.main)
	if r := &b.tensors.Names[i]; r.Mapped {
		stem = r.Stem
	}
	if b.claim(stem + ".weight") {
		quant.Weight = stem + ".weight"
	}
}

// torchTypes are the float types of config.json.
var torchTypes = map[string]tensorfs.DType{"float16": tensorfs.F16, "bfloat16": tensorfs.BF16, "float32": tensorfs.F32}

// floatType is the type in which the model is to be computed, Unknown if it is not
// specified.
func (b *builder) floatType() tensorfs.DType {
	return torchTypes[config.FloatType(b.config.Lookup)]
}

// side returns a dimension of a tensor, 0 if the tensor does not have it.
func side(t *tensorfs.Tensor, dim int) int64 {
	if t == nil || len(t.Shape) != 2 {
		return 0
	}
	return t.Shape[dim]
}

// lacksPart is that a module does not have a tensor that its settings require.
func lacksPart(m *module, suffix string) error {
	return fmt.Errorf("%s is missing", tensorfs.Quote(m.stem+suffix))
}

// gptq reads bits and groups from shapes, because dynamic may give modules their own; a
// config.json without that has to agree.
func gptq(b *builder, q *quantConfig, m *module) (*tensorfs.Quant, error) {
	if !slices.Contains([]string{"", "gptq", "gptq_v2"}, q.form) {
		return nil, fmt.Errorf("checkpoint_format is %s, and gptq and gptq_v2 are read", q.form)
	}
	if arch := b.model.Architecture; names.Turned(arch) {
		return nil, fmt.Errorf("the matrices of %s are stored the other way round (Conv1D)", arch)
	}
	zeros, scales, order := m.parts[0], m.parts[1], b.other(m, ".g_idx")
	n, lines, groups := side(m.main, 1), side(m.main, 0), side(scales, 0)
	if scale := cmp.Or(b.other(m, ".w_bf16_to_fp8_scale"), b.other(m, ".scale_bf16_to_fp8")); scale != nil {
		return nil, fmt.Errorf("%s is beside it, which is not read", tensorfs.Quote(scale.Source))
	}
	c := packing.GPTQConfig{V2: q.form == "gptq_v2", Wraps: q.wraps, Stream: q.stream, Bits: q.bits, Group: q.group}
	if w := side(zeros, 1); n > 0 && w > 0 && w < 1<<40 && w*32%n == 0 && w*32/n <= 8 {
		if bits := int(w * 32 / n); q.dynamic || q.bits == 0 {
			c.Bits = bits
		} else if bits != q.bits {
			return nil, fmt.Errorf("bits is %d, but its shapes fit %d", q.bits, bits)
		}
	}
	if k := columnsOf(lines, c.Bits); groups > 0 && k > 0 && (k-1)/int64(max(c.Group, 1))+1 != groups && (q.dynamic || c.Group == 0) && k%groups == 0 {
		c.Group = int(k / groups)
	}
	return packing.GPTQ(c, m.main, zeros, scales, order)
}

// columnsOf is how many codes of so many bits words hold.
func columnsOf(words int64, bits int) int64 {
	if bits < 1 || words > 1<<40 {
		return 0
	}
	return words * 32 / int64(bits)
}

func awq(b *builder, q *quantConfig, m *module) (*tensorfs.Quant, error) {
	scales := m.parts[0]
	bits, group := q.bits, q.group
	k, groups := side(m.main, 0), side(scales, 0)
	if n := side(scales, 1); q.dynamic && n > 0 && side(m.main, 1) < 1<<40 && side(m.main, 1)*32%n == 0 {
		bits = int(side(m.main, 1) * 32 / n)
	}
	if (q.dynamic || group == 0) && groups > 0 && k%groups == 0 {
		group = int(k / groups)
	}
	if bits != 0 && bits != 4 {
		return nil, fmt.Errorf("bits is %d, and 4 are read", bits)
	}
	if err := packing.AWQLayout(q.version); err != nil {
		return nil, err
	}
	zeros := b.other(m, ".qzeros")
	if zeros == nil && (isTrue(q.object, "zero_point") || q.object.Raw("sym").Kind() == 'f') {
		return nil, lacksPart(m, ".qzeros")
	}
	return packing.AWQ(group, m.main, zeros, scales)
}

// way is one of config_groups of compressed-tensors: how some modules are packed.
type way struct {
	format  string
	zeros   bool // modules have zero points
	ordered bool // modules say which group each column has
	packing.CompressedConfig
}

// maxWays bounds the different ones.
const maxWays = 16

// compressedWays reads config_groups. Which modules each is for follows from the shapes.
func (q *quantConfig) compressedWays() {
	for _, o := range []jsonobj.Object{q.outer, q.object} {
		for name, v := range o.Object("transform_config").All() {
			if v.Kind() == '{' && v.Object().Len() > 0 {
				q.changed = fmt.Errorf("transform_config names %s: the weights are not the model without what that does", brief(name))
				return
			}
		}
		if s := brief(o.Object("sparsity_config").Raw("format").Text()); s != "" && s != "dense" {
			q.changed = fmt.Errorf("sparsity_config is %s, which cannot be read", s)
			return
		}
	}
	dense := !before020(q.version)
	add := func(g jsonobj.Raw) {
		w := way{format: brief(g.Member("format").Text()), CompressedConfig: packing.CompressedConfig{Dense: dense}}
		if w.format == "" {
			w.format = q.format
		}
		w.Bits, _ = g.Member("weights").Member("num_bits").Int()
		w.Group, _ = g.Member("weights").Member("group_size").Int()
		w.zeros = g.Member("weights").Member("symmetric").Kind() == 'f'
		w.ordered = w.Group > 0 && slices.Contains([]string{`"group"`, `"dynamic"`, "true"}, g.Member("weights").Member("actorder").String())
		if !slices.Contains(q.ways, w) {
			q.ways = append(q.ways, w)
		}
	}
	groups := q.object.Object("config_groups")
	for _, g := range groups.All() {
		if len(q.ways) == maxWays {
			q.tooMany = fmt.Errorf("config_groups has more than %d different ways to pack", maxWays)
			return
		}
		add(g)
	}
	if groups.Len() == 0 {
		add(jsonobj.Raw{})
	}
}

// fitting returns the module that fits the shapes, by the one of config_groups that has
// one of these formats.
func (q *quantConfig) fitting(try func(way) (*tensorfs.Quant, error), formats ...string) (*tensorfs.Quant, error) {
	if q.tooMany != nil {
		return nil, q.tooMany
	}
	var found *tensorfs.Quant
	err := fmt.Errorf("format is %s, but its tensors fit %s", tensorfs.Quote(q.format), strings.Join(formats, " and "))
	for _, w := range q.ways {
		if !slices.Contains(formats, w.format) {
			continue
		}
		quant, why := try(w)
		switch {
		case why != nil:
			err = why
		case found != nil && (found.Bits != quant.Bits || found.GroupSize != quant.GroupSize):
			return nil, errors.New("several of config_groups fit its shapes")
		default:
			found = quant
		}
	}
	if found != nil {
		return found, nil
	}
	return nil, err
}

// before020 reports whether a version of compressed-tensors packs whole codes into words.
func before020(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && major == 0 && minor < 20
}

func compressedPack(b *builder, q *quantConfig, m *module) (*tensorfs.Quant, error) {
	return q.fitting(func(w way) (*tensorfs.Quant, error) {
		zeros, order := b.other(m, ".weight_zero_point"), b.other(m, ".weight_g_idx")
		if w.zeros && zeros == nil {
			return nil, lacksPart(m, ".weight_zero_point")
		}
		if w.ordered && order == nil {
			return nil, lacksPart(m, ".weight_g_idx")
		}
		return packing.CompressedPack(w.CompressedConfig, m.main, m.parts[0], b.other(m, ".weight_shape"), zeros, order)
	}, "pack-quantized")
}

func compressedInt(b *builder, q *quantConfig, m *module) (*tensorfs.Quant, error) {
	return q.fitting(func(w way) (*tensorfs.Quant, error) {
		zeros := b.other(m, ".weight_zero_point")
		if w.zeros && zeros == nil {
			return nil, lacksPart(m, ".weight_zero_point")
		}
		return packing.CompressedInt(w.CompressedConfig, m.main, m.parts[0], zeros)
	}, "int-quantized", "naive-quantized")
}

func nvfp4(_ *builder, q *quantConfig, m *module) (*tensorfs.Quant, error) {
	return q.fitting(func(way) (*tensorfs.Quant, error) {
		return packing.NVFP4("nvfp4-pack-quantized", false, m.main, m.parts[0], m.parts[1])
	}, "nvfp4-pack-quantized")
}

func modelOptNVFP4(_ *builder, _ *quantConfig, m *module) (*tensorfs.Quant, error) {
	return packing.NVFP4("modelopt-nvfp4", true, m.main, m.parts[0], m.parts[1])
}

func mxfp4Packed(_ *builder, q *quantConfig, m *module) (*tensorfs.Quant, error) {
	return q.fitting(func(way) (*tensorfs.Quant, error) {
		return packing.MXFP4(m.main, m.parts[0])
	}, "mxfp4-pack-quantized")
}

func mxfp8(_ *builder, q *quantConfig, m *module) (*tensorfs.Quant, error) {
	return q.fitting(func(way) (*tensorfs.Quant, error) {
		return packing.MXFP8(m.main, m.parts[0])
	}, "mxfp8-quantized")
}

// maxState bounds the size of bitsandbytes's description of a module.
const maxState = 64 << 10

// bnb4 reads bitsandbytes's description of a module: JSON in a tensor of bytes.
func bnb4(b *builder, _ *quantConfig, m *module) (*tensorfs.Quant, error) {
	const before = ".weight.quant_state.bitsandbytes__"
	state := b.other(m, before+"nf4")
	if state == nil {
		state = b.other(m, before+"fp4")
	}
	if state == nil {
		return nil, fmt.Errorf("it has no %snf4 or fp4", before[1:])
	}
	if state.DType != tensorfs.U8 || state.Data.Size() > maxState {
		return nil, fmt.Errorf("%s is %s of %d bytes, and not up to %d bytes of JSON", tensorfs.Quote(state.Source), state.DType, state.Data.Size(), maxState)
	}
	text := make([]byte, state.Data.Size())
	if err := tensorfs.ReadFull(state.Data, text, 0); err != nil {
		return nil, err
	}
	s, err := newState(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tensorfs.Quote(state.Source), err)
	}
	return packing.BnB4(s, m.main, m.parts[0], m.parts[1], b.other(m, ".weight.nested_absmax"), b.other(m, ".weight.nested_quant_map"), state)
}

// newState parses bitsandbytes's description of a module.
func newState(text []byte) (s packing.State, err error) {
	o, err := jsonobj.Parse(text)
	if err != nil {
		return s, err
	}
	for e := range o.Raw("shape").Elements() {
		n, ok := e.Int()
		if !ok || n < 0 || len(s.Shape) == 8 {
			return s, errors.New("shape is not a list of up to 8 sizes")
		}
		s.Shape = append(s.Shape, int64(n))
	}
	s.Block, _ = o.Raw("blocksize").Int()
	s.NestedBlock, _ = o.Raw("nested_blocksize").Int()
	s.Float = torchTypes[o.Raw("dtype").Text()]
	if raw := o.Raw("nested_offset"); raw.Kind() != 0 && raw.Kind() != 'n' {
		if err := json.Unmarshal([]byte(raw.String()), &s.NestedOffset); err != nil {
			return s, errors.New("nested_offset is not a number")
		}
	}
	return s, nil
}

func bnb8(b *builder, _ *quantConfig, m *module) (*tensorfs.Quant, error) {
	form := b.other(m, ".weight_format")
	if form == nil {
		return packing.BnB8(m.main, m.parts[0])
	}
	var code [1]byte
	if n, _ := tensorfs.Elements(form.Shape); form.DType != tensorfs.U8 || n != 1 {
		return nil, fmt.Errorf("%s is %s of shape %v, and not one U8", tensorfs.Quote(form.Source), form.DType, form.Shape)
	}
	if err := tensorfs.ReadFull(form.Data, code[:], 0); err != nil {
		return nil, err
	}
	if code[0] != 0 {
		return nil, fmt.Errorf("%s is %d, and 0, rows, is read", tensorfs.Quote(form.Source), code[0])
	}
	return packing.BnB8(m.main, m.parts[0], form)
}
