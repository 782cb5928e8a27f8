package hf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/views"
)

// asked is what mlx_lm.convert writes of a module that is not as all others.
type asked struct {
	Group *int   `json:"group_size"`
	Bits  int    `json:"bits"`
	Mode  string `json:"mode,omitempty"`
}

// quantiseMLX quantises the matrices of a directory that class takes quantised, as o
// selects. layers is how many the language model has.
func (x *tensorMaker) quantiseMLX(o *convert.MLX, class *architectures.MLXClass, layers int64) error {
	said := map[string]asked{}
	for _, m := range x.modules { // stored so
		said[m.name] = asked{&m.Group, m.Bits, m.Mode}
	}
	listed := len(said) > 0
	at, err := recipePart(o, x.list, layers)
	if err != nil {
		return err
	}
	list := x.list
	x.list = nil
	for _, p := range list {
		module, ok := strings.CutSuffix(p.Name, ".weight")
		if !ok || !x.isModule(p, module, class, o.Group) {
			x.list = append(x.list, p)
			continue
		}
		by := views.Grouping{Mode: o.Mode, Bits: o.Bits, Group: o.Group, CPU: o.CPU}
		switch {
		case o.Recipe != nil:
			if by.Bits, err = recipeBits(o.Recipe, module, at, layers); err != nil {
				return err
			}
			own := asked{nil, by.Bits, by.Mode}
			if o.GroupSaid {
				own.Group = &by.Group
			}
			said[module] = own
		case endsIn(module, class.Names("eight")):
			by.Mode, by.Bits, by.Group = "affine", 8, 64
			said[module] = asked{&by.Group, by.Bits, ""}
		case listed:
			said[module] = asked{&by.Group, by.Bits, by.Mode}
		}
		q, err := views.Quantise(&tensorfs.Tensor{Name: p.Name, Source: p.Name, DType: p.DType, Shape: p.Shape, Data: p.Data}, by)
		if err != nil {
			return fmt.Errorf("%s: %w", tensorfs.Printable(p.Name), err)
		}
		x.made++
		x.store(p.Name, q, p.Origin)
		x.store(module+".scales", q.Quant.Scales, p.Origin)
		if q.Quant.Biases != nil {
			x.store(module+".biases", q.Quant.Biases, p.Origin)
		}
	}
	if x.made == 0 {
		return fmt.Errorf("%s changes nothing: no matrix has rows of whole groups of %d", o, o.Group)
	}
	x.description, err = quantizationOf(o, said)
	return err
}

// isModule reports whether mlx-lm quantises a tensor.
func (x *tensorMaker) isModule(p placed, module string, class *architectures.MLXClass, group int) bool {
	rank := len(p.Shape)
	return layout.IsFloat(p.DType) && (rank == 2 || rank == 3) && p.Shape[rank-1]%int64(group) == 0 && !x.quantised[p.Name] && !endsIn(module, class.Names("plain"))
}

// quantizationOf is the JSON object of config.json.
func quantizationOf(o *convert.MLX, said map[string]asked) ([]byte, error) {
	text := fmt.Appendf(nil, `{"group_size":%d,"bits":%d,"mode":%q`, o.Group, o.Bits, o.Mode)
	names := make([]string, 0, len(said))
	for name := range said {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		own, err := json.Marshal(said[name])
		if err != nil {
			return nil, err
		}
		text = append(append(tensorfs.AppendJSONString(append(text, ','), name), ':'), own...)
	}
	return append(text, '}'), nil
}

// recipePart is which part of a path is the number of a layer, by the first module that
// has one, as mlx_lm.convert finds it.
func recipePart(o *convert.MLX, list []placed, layers int64) (int, error) {
	if o.Recipe == nil {
		return 0, nil
	}
	if layers < 1 {
		return 0, errors.New("config.json does not say how many layers there are, on which a recipe depends")
	}
	for _, p := range list {
		if strings.Contains(p.Name, "down_proj") {
			if at := slices.IndexFunc(strings.Split(p.Name, "."), isNumber); at >= 0 {
				return at, nil
			}
		}
	}
	return 0, fmt.Errorf("--mlx-recipe %s is for models whose modules have the names of llama's (down_proj), as mlx_lm.convert has it; --mlx-bits does it for this one", o.Recipe.Name)
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}

// recipeBits returns a module's bits by a recipe.
func recipeBits(r *convert.Recipe, module string, at int, layers int64) (int, error) {
	i := int64(0)
	if path := strings.Split(module, "."); at < len(path) {
		n, err := strconv.ParseInt(path[at], 10, 32)
		if err != nil {
			return 0, fmt.Errorf("--mlx-recipe %s is not for models with %s, whose layer mlx_lm.convert cannot tell; --mlx-bits does it for this one", r.Name, tensorfs.Printable(module))
		}
		i = n
	}
	more := i < layers/8 || i >= 7*layers/8 || (i-layers/8)%3 == 2
	has := func(part string) bool { return strings.Contains(module, part) }
	if more && (has("v_proj") || has("v_a_proj") || has("v_b_proj") || has("down_proj")) || has("lm_head") {
		return r.High, nil
	}
	return r.Low, nil
}

// converts returns mlx-lm's class of a model, if mlx_lm.convert's conversion of it is
// known, and how many layers the language model has.
func converts(config mlxText) (*architectures.MLXClass, int64, error) {
	classes := config.x.classes
	if len(classes) == 0 {
		return nil, 0, errors.New("mlx-lm is not known to have the model type " + tensorfs.Quote(config.x.kind))
	}
	if !classes[0].Has("converts") {
		return nil, 0, fmt.Errorf("what mlx_lm.convert quantises of the model type %s is not known here; run it on hf/", tensorfs.Quote(config.x.kind))
	}
	for _, name := range []string{"num_hidden_layers", "n_layer", "n_layers"} {
		if n, ok := config.part.number(name); ok {
			return classes[0], int64(n), nil
		}
	}
	return classes[0], 0, nil
}

// quantisedForMLX quantises the tensors of mlx/ of a model that is not stored as a directory. r is what they are before.
func (x *tensorMaker) quantisedForMLX(k *kind, r result, o *convert.MLX) (result, error) {
	text, err := k.configText(x.m, r)
	if err != nil {
		return result{}, err
	}
	names := make([]string, len(r.List))
	for i := range names {
		names[i] = r.List[i].Name
	}
	config, err := forMLX(text, false, names)
	if err != nil {
		return result{}, err
	}
	class, layers, err := converts(config)
	if err == nil {
		err = x.quantiseMLX(o, class, layers)
	}
	if err != nil {
		return result{}, err
	}
	r = x.finish()
	r.Exact, r.Notes, r.Parameters = false, append(r.Notes, x.note(o)), x.parameters()
	return r, nil
}

// configText is config.json before the keys about quantisation are added.
func (k *kind) configText(m *tensorfs.Model, r result) ([]byte, error) {
	given := tensorFacts(m, r)
	given.MLX, given.Quantization = k == mlx, nil
	if m.Layout == "gguf" {
		about, err := settings.FromGGUF(m, given)
		if err != nil {
			return nil, err
		}
		return about.Config()
	}
	stored, err := storedConfig(m)
	if err != nil {
		return nil, err
	}
	return adapted(stored, given, k == mlx)
}

// quantisedStored returns mlx/ of a directory of Hugging Face or MLX as mlx_lm.convert
// makes it; without o it quantises nothing.
func quantisedStored(m *tensorfs.Model, o *convert.MLX) (*convert.Files, error) {
	stored, config, err := storedForMLX(m)
	if err != nil {
		return nil, err
	}
	if why := cmp.Or(unloaded(m, config), config.lacks); why != "" {
		return nil, errors.New(why)
	}
	class, layers, err := converts(config)
	if err != nil {
		return nil, err
	}
	c := &conversion{
		tensorMaker: &tensorMaker{m: m, purpose: purpose{mlx: true}, left: convert.Towers{}},
		config:      config, class: class, stacks: map[string]map[int]*tensorfs.Tensor{},
	}
	if o != nil {
		c.again, c.cast = o.Requantise, castOf(stored)
	}
	if err := c.convert(); err != nil {
		return nil, err
	}
	if o != nil {
		if err := c.quantiseMLX(o, class, layers); err != nil {
			return nil, err
		}
	}
	r := c.finish()
	weights, err := safetensors.Compose([][2]string{{"format", "mlx"}}, r.List)
	if err != nil {
		return nil, err
	}
	f := &convert.Files{Tensors: len(r.List), Types: r.Types, Exact: o == nil && r.Exact, Notes: append(r.Notes, config.notes...)}
	if f.List, err = filesWithoutTensors(m); err != nil {
		return nil, err
	}
	text, err := convertedConfig(m, config.text, r.Quantization)
	if err != nil {
		return nil, err
	}
	f.List = append(f.List, convert.File{Path: configName, Data: tensorfs.Bytes(text)}, convert.File{Path: weightsName, Data: weights},
		convert.File{Path: weightsName + ".index.json", Data: convertedIndex(r.List, c.parameters())})
	if o != nil {
		f.Notes = append(f.Notes, c.note(o))
	}
	f.BitsPerWeight = convert.BitsPerWeight(weights.Size(), c.parameters())
	slices.SortFunc(f.List, func(a, b convert.File) int { return strings.Compare(a.Path, b.Path) })
	return f, nil
}

// note describes what was quantised.
func (x *tensorMaker) note(o *convert.MLX) string {
	return fmt.Sprintf("%d modules are quantised as mlx_lm.convert does it, by %s", x.made, o)
}

// castOf is the type that mlx_lm.convert gives all numbers: config.json's under its older
// name, else the one in the language model's part.
func castOf(config []byte) tensorfs.DType {
	o, err := jsonobj.Parse(config)
	if err != nil {
		return tensorfs.Unknown
	}
	said := o.Raw("torch_dtype")
	if said.Kind() == 0 || said.Kind() == 'n' {
		said = o.Raw("text_config").Member("dtype")
	}
	return torchTypes[said.Text()]
}

// convertedConfig is config.json as mlx_lm.convert writes it, with the fields that were
// added for mlx-lm.
func convertedConfig(m *tensorfs.Model, text, quantization []byte) ([]byte, error) {
	o, err := jsonobj.ParseFile(configName, text)
	if err != nil {
		return nil, err
	}
	q, err := jsonobj.Parse(slices.Concat([]byte(`{"q":`), quantization, []byte(`}`)))
	if err != nil {
		return nil, err
	}
	var list settings.Object
	for name, raw := range o.All() {
		if name != "_name_or_path" && name != "vision_config" && !quantKeys[name] {
			list = list.With(name, raw)
		}
	}
	list = append(list, settings.Member{Name: "quantization", Value: q.Raw("q")}, settings.Member{Name: "quantization_config", Value: q.Raw("q")})
	generation, err := settings.ReadText(m, settings.GenerationName, maxConfig)
	if err != nil {
		return nil, err
	}
	if g, err := jsonobj.Parse(generation); err == nil && g.Raw("eos_token_id").Kind() != 0 && g.Raw("eos_token_id").Kind() != 'n' {
		list.Set("eos_token_id", g.Raw("eos_token_id"))
	}
	slices.SortStableFunc(list, func(a, b settings.Member) int { return strings.Compare(a.Name, b.Name) })
	return list.Lines(false), nil
}

// parameters counts the numbers of all tensors, quantised ones with their count before
// quantising.
func (x *tensorMaker) parameters() (n int64) {
	for _, p := range x.list {
		switch {
		case strings.HasSuffix(p.Name, ".scales"), strings.HasSuffix(p.Name, ".biases"):
		default:
			count, _ := tensorfs.Elements(p.Numbers)
			n += count
		}
	}
	return n
}

// convertedIndex is the index that mlx_lm.convert writes beside one file, too.
func convertedIndex(list []safetensors.Stored, parameters int64) tensorfs.Data {
	head := fmt.Sprintf("{\n    \"metadata\": {\n        \"total_size\": %%d,\n        \"total_parameters\": %d\n    },\n    \"weight_map\": {", parameters)
	return indexText(list, head, "\n        ", "\n    }\n}")
}

// KeptMLX explains why mlx/ is not quantised although that was asked for, "" if weights are
// quantised or it was not asked for. It looks only at types and shapes.
func KeptMLX(m *tensorfs.Model, opts convert.Options) string {
	o := opts.MLX
	if o == nil {
		return ""
	}
	quantised, odd := false, false
	for i := range m.Tensors {
		t := &m.Tensors[i]
		shape := t.Numbers()
		if t.Owner != "" || len(shape) < 2 || !strings.HasSuffix(t.Weight(), ".weight") {
			continue
		}
		switch {
		case t.Quant != nil || t.DType.Kind() != tensorfs.KindFloat || !layout.IsFloat(t.DType):
			quantised = true
			if o.Requantise {
				return ""
			}
		case shape[len(shape)-1]%int64(o.Group) == 0:
			return ""
		default:
			odd = true
		}
	}
	switch {
	case quantised:
		return "its weights are quantised already, and are not quantised again"
	case odd:
		return fmt.Sprintf("no weight has rows of whole groups of %d", o.Group)
	}
	return "it has no weights in F32, F16 or BF16"
}
