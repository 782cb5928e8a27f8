package adapter

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// MLXWeightsName is mlx-lm's file of an adapter. While it trains, it also writes
// 0000100_adapters.safetensors and the like.
const MLXWeightsName = "adapters.safetensors"

// IsWeights reports whether a file of that name is an adapter, if ConfigName is beside it.
func IsWeights(name string) bool { return name == WeightsName || isMLXWeights(name) }

func isMLXWeights(name string) bool {
	step, ok := strings.CutSuffix(name, MLXWeightsName)
	number := strings.TrimSuffix(step, "_")
	return ok && (step == "" || number != "" && number != step && strings.Trim(number, "0123456789") == "")
}

// mlxParts are mlx-lm's parameters by the ends of their names.
var mlxParts = map[string]func(x *Module) **tensorfs.Tensor{
	".lora_a": func(x *Module) **tensorfs.Tensor { return &x.A },
	".lora_b": func(x *Module) **tensorfs.Tensor { return &x.B },
	".m":      func(x *Module) **tensorfs.Tensor { return &x.Magnitude },
	".weight": func(x *Module) **tensorfs.Tensor { return &x.Weight },
	".bias":   func(x *Module) **tensorfs.Tensor { return &x.WholeBias },
}

// mlxKinds are the values of fine_tune_type, and the ends of names in such an adapter.
// mlx-lm refuses a file with others.
var mlxKinds = map[string][]string{
	"lora": {".lora_a", ".lora_b"},
	"dora": {".lora_a", ".lora_b", ".m"},
	"full": {".weight", ".bias"},
}

// ofMLX reads an adapter of mlx-lm.
func ofMLX(m *tensorfs.Model) (*Adapter, error) {
	c, where, err := readObject(m)
	if err != nil {
		return nil, err
	}
	refuse := func(key, why string) error {
		return refusal(where, key, why, "fuse the adapter with mlx_lm.fuse, and name the result")
	}
	a := &Adapter{Path: m.Path, Layout: "hf", MLX: true, About: About{Kind: "lora", Base: c.Raw("model").Text()}}
	kind := c.Raw("fine_tune_type")
	switch {
	case kind.Kind() != 0:
		a.Kind = kind.Text()
	case c.Raw("use_dora").Kind() == 't': // before there was fine_tune_type
		a.Kind = "dora"
	}
	ends := mlxKinds[a.Kind]
	if ends == nil {
		return nil, refuse("fine_tune_type", tensorfs.Quote(cmp.Or(kind.Text(), kind.String()))+" is not lora, dora or full")
	}
	var scale, rank float64
	if a.Kind != "full" {
		p := c.Object("lora_parameters")
		var ok bool
		if scale, ok = finite(p.Raw("scale")); !ok || math.Abs(scale) > math.MaxFloat32 {
			return nil, refuse("lora_parameters", "\"scale\" is not a number: mlx-lm multiplies the product by it")
		}
		if rank, ok = finite(p.Raw("rank")); !ok || rank < 1 || rank > maxRank || rank != math.Trunc(rank) {
			return nil, refuse("lora_parameters", "\"rank\" is not a whole number from 1 to "+fmt.Sprint(maxRank))
		}
		a.Rank, a.Alpha = int(rank), scale*rank
		for e := range p.Raw("keys").Elements() {
			a.Targets = append(a.Targets, e.Text())
		}
	}
	at := map[string]int{}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		name, end := cutSuffixes(t.Source, ends...)
		if end == "" || name == "" {
			return nil, wrong(m, t.Source, "it is not a known part of an adapter of mlx-lm with \"fine_tune_type\": %s", tensorfs.Quote(a.Kind))
		}
		n, ok := at[name]
		if !ok {
			n, at[name] = len(a.Modules), len(a.Modules)
			a.Modules = append(a.Modules, Module{Name: name, Scale: scale, Rank: int64(rank)})
		}
		*mlxParts[end](&a.Modules[n]) = t
	}
	if len(a.Modules) == 0 {
		return nil, wrong(m, "", "it has no tensors")
	}
	slices.SortFunc(a.Modules, func(x, y Module) int { return strings.Compare(x.Name, y.Name) })
	for i := range a.Modules {
		if err := completeMLX(m, &a.Modules[i], a.Kind == "dora"); err != nil {
			return nil, err
		}
	}
	if a.Targets == nil {
		a.Targets = targetsOf(a.Modules)
	}
	return a, nil
}

// completeMLX checks a module. lora_a is [in, r] and lora_b [r, out], of an embedding [V, r] and
// [r, H]; of a stack of experts they are [E, r, in] and [E, out, r].
func completeMLX(m *tensorfs.Model, x *Module, dora bool) error {
	if err := x.checkPair(m); err != nil {
		return err
	}
	if x.A == nil {
		if x.Magnitude != nil {
			return wrong(m, x.Magnitude.Source, "there is no lora_a and no lora_b beside it")
		}
		return nil
	}
	dims := len(x.A.Shape)
	if dims != 2 && dims != 3 {
		return wrong(m, x.A.Source, "shape %v, where it should have 2 or 3 dimensions", x.A.Shape)
	}
	for _, t := range []*tensorfs.Tensor{x.A, x.B} {
		if err := matrix(m, t, dims); err != nil {
			return err
		}
	}
	x.Transposed = dims == 2
	x.Embedding = path.Ext("."+x.Name) == ".embed_tokens" && x.Transposed
	a, b := x.A.Shape, x.B.Shape
	ranks := [2]int64{a[dims-2], b[dims-1]}
	out := b[dims-2]
	if x.Transposed {
		ranks, out = [2]int64{a[1], b[0]}, b[1]
	}
	if x.Embedding {
		out = a[0]
	}
	switch {
	case ranks != [2]int64{x.Rank, x.Rank}, dims == 3 && a[0] != b[0]:
		return wrong(m, x.A.Source, "shape %v and shape %v of lora_b do not fit the rank in %s, which is %d", a, b, ConfigName, x.Rank)
	case dora && dims == 3:
		return wrong(m, x.A.Source, "mlx-lm has no DoRA of experts")
	case dora && x.Magnitude == nil:
		return wrong(m, x.A.Source, "\"fine_tune_type\": \"dora\": there is no m for %s", tensorfs.Quote(x.Name))
	case !dora:
		return nil
	}
	x.RowLengths = true
	if err := matrix(m, x.Magnitude, 1); err != nil {
		return err
	}
	if x.Magnitude.Shape[0] != out {
		return wrong(m, x.Magnitude.Source, "shape %v, where the weight has %d rows", x.Magnitude.Shape, out)
	}
	return nil
}

// targetsOf returns the last parts of the names of modules, each once.
func targetsOf(list []Module) (targets []string) {
	for _, x := range list {
		if end := x.Name[strings.LastIndexByte(x.Name, '.')+1:]; !slices.Contains(targets, end) {
			targets = append(targets, end)
		}
	}
	slices.Sort(targets)
	return targets
}

// readObject reads adapter_config.json. where is its place for messages.
func readObject(m *tensorfs.Model) (c jsonobj.Object, where string, err error) {
	where = ConfigName
	if i := slices.IndexFunc(m.Sources, func(s tensorfs.Source) bool { return s.Name == ConfigName }); i >= 0 {
		where = m.Sources[i].Path
	}
	text, err := configText(m, where)
	if err != nil {
		return c, where, err
	}
	c, err = jsonobj.ParseFile(where, text)
	return c, where, err
}
