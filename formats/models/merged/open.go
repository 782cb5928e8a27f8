package merged

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/recipe"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/views/mix"
)

// Open opens the merge that a recipe describes. at is the recipe's path, for messages, and
// open opens a model by the name that the recipe gives it. The merge owns the models.
//
// An error names the key of the recipe, or the model, that is the problem.
func Open(at string, text []byte, open func(name string) (*tensorfs.Model, error)) (m *tensorfs.Model, err error) {
	x := merge{at: at, text: text}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.Close())
		}
	}()
	if x.recipe, err = recipe.Parse(text); err != nil {
		return nil, x.fail(err)
	}
	for _, name := range x.recipe.Models {
		given, err := open(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tensorfs.Printable(at), err)
		}
		if err := x.add(name, given); err != nil {
			return nil, x.fail(fmt.Errorf("%s: %w", tensorfs.Printable(name), err))
		}
	}
	if err := x.sameTokens(); err != nil {
		return nil, x.fail(err)
	}
	list, made, err := x.tensors()
	if err != nil {
		return nil, x.fail(err)
	}
	dir, err := x.directory(list)
	if err != nil {
		return nil, x.fail(err)
	}
	if m, err = formats.OpenFS(dir, "."); err != nil {
		return nil, err
	}
	// Each tensor knows its own inputs, so that a change of one concerns no other.
	for i := range m.Tensors {
		if t := made[m.Tensors[i].Source]; t != nil {
			m.Tensors[i].Data = t
		}
	}
	m.Path = at
	if method := x.recipe.Method; !method.Exact {
		x.differs = slices.Insert(x.differs, 0, fmt.Sprintf("a merge by %s is mergekit's but for last bits: %s", method.Name, method.Differs))
	}
	m.Merge = &tensorfs.Merge{Method: x.recipe.Method.Name, Recipe: text, Names: x.recipe.Models, Models: x.given, Differs: x.differs, Notes: append(x.notes, x.recipe.Notes()...)}
	m.Warnings = slices.Concat(m.Warnings, m.Merge.Differs, m.Merge.Notes)
	m.Own(&x)
	return m, nil
}

// merge is a merge that is being opened, with its models.
type merge struct {
	at      string
	text    []byte
	recipe  *recipe.Recipe
	inputs  []input
	given   []*tensorfs.Model // as they were opened
	opened  []*tensorfs.Model // they, and what they were brought to
	differs []string          // see tensorfs.Merge
	notes   []string          // see tensorfs.Merge
	set     []field           // of config.json
	rows    int64             // of the embedding and the head, 0 as the models have them
}

// The canonical names of the first and the last matrix.
const (
	embeddingName = "token_embedding.weight"
	headName      = "output.weight"
)

// input is one of the models, as a directory of Hugging Face's kind.
type input struct {
	model   *tensorfs.Model
	config  config
	tensors map[string]*tensorfs.Tensor
	shape   recipe.Shape
}

// Close closes the models.
func (x *merge) Close() error {
	var errs []error
	for _, m := range slices.Backward(x.opened) {
		errs = append(errs, m.Close())
	}
	x.opened = nil
	return errors.Join(errs...)
}

// fail is an error about the recipe.
func (x *merge) fail(err error) error {
	return tensorfs.Unsupported(x.at, err.Error(), "change the recipe")
}

// add takes a model, which the merge owns from here on.
func (x *merge) add(name string, m *tensorfs.Model) error {
	x.given, x.opened = append(x.given, m), append(x.opened, m)
	quantised := slices.ContainsFunc(m.Tensors, func(t tensorfs.Tensor) bool { return t.Quant != nil })
	if m.Format != "huggingface" || quantised || len(m.Adapters) > 0 {
		f := hf.HF(m, convert.Options{Dequantise: quantised})
		if f.Reason != "" {
			return fmt.Errorf("it has no hf/, which models are merged by: %s", f.Reason)
		}
		switch {
		case len(m.Adapters) > 0:
			x.differs = append(x.differs, fmt.Sprintf("%s: mergekit has PEFT apply adapters, which rounds about 1 in 100,000 numbers of BF16 otherwise", tensorfs.Printable(name)))
		case !f.Exact:
			x.differs = append(x.differs, fmt.Sprintf("%s takes part as its hf/: %s", tensorfs.Printable(name), strings.Join(f.Notes, "; ")))
		}
		dense, err := formats.OpenFS(directoryOf("hf/ of "+m.Path, f.List, m.ModTime), ".")
		if err != nil {
			return err
		}
		m = dense
		x.opened = append(x.opened, m)
	}
	in := input{model: m, tensors: map[string]*tensorfs.Tensor{}}
	var err error
	if in.config, err = configOf(m); err != nil {
		return err
	}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		in.tensors[t.Source] = t
		in.shape.Names = append(in.shape.Names, t.Source)
		switch t.Name {
		case embeddingName:
			in.shape.Embedding = t.Source
		case headName:
			in.shape.Head = t.Source
		}
	}
	slices.Sort(in.shape.Names)
	in.shape.Layers = in.config.layers
	x.inputs = append(x.inputs, in)
	return recipe.CheckModels(x.shapes())
}

// shapes are what plans have to know of the models.
func (x *merge) shapes() []recipe.Shape {
	list := make([]recipe.Shape, len(x.inputs))
	for i := range x.inputs {
		list[i] = x.inputs[i].shape
	}
	return list
}

// tensors returns what the merge stores, and the data of each.
func (x *merge) tensors() (list []safetensors.Stored, made map[string]tensorfs.Data, err error) {
	plan, err := x.recipe.Plan(x.shapes())
	if err != nil {
		return nil, nil, err
	}
	x.heads(plan)
	made = map[string]tensorfs.Data{}
	for i := range plan {
		t, err := x.tensor(&plan[i])
		if err != nil {
			return nil, nil, err
		}
		list = append(list, safetensors.Stored{Name: plan[i].Name, DType: t.DType, Shape: t.Shape, Data: t.Data})
		made[plan[i].Name] = t.Data
	}
	return list, made, nil
}

// heads sets the merge's key about one tensor for embedding and output, if its models
// disagree.
func (x *merge) heads(plan []recipe.Made) {
	like, has, tied := &x.inputs[x.recipe.Reference()].shape, false, ""
	for i := range plan {
		for _, part := range plan[i].Parts {
			has = has || part.Tied || part.Tensor == x.inputs[part.Model].shape.Head
			if part.Tied {
				tied = "false"
				x.notes = append(x.notes, fmt.Sprintf("%s has no %s, so its %s is merged instead; the merge has both tensors, so its config.json sets %s to false",
					tensorfs.Printable(x.recipe.Models[part.Model]), tensorfs.Printable(plan[i].Name), tensorfs.Printable(part.Tensor), tiedKey))
			}
		}
	}
	if has && like.Head == "" {
		tied = "false"
	}
	if !has && like.Head != "" {
		tied = "true"
		x.notes = append(x.notes, fmt.Sprintf("the last slice has no %s, so the merge's config.json sets %s to true", tensorfs.Printable(like.Head), tiedKey))
	}
	if tied != "" {
		x.set = append(x.set, field{tiedKey, tied})
	}
}

// tensor makes one tensor of the merge.
func (x *merge) tensor(p *recipe.Made) (tensorfs.Tensor, error) {
	number := func(values map[string]any, key string, otherwise float64) float64 {
		if v, ok := values[key].(float64); ok {
			return v
		}
		return otherwise
	}
	m := mix.Merge{Method: x.recipe.Method.Name, DType: x.recipe.DType, Out: x.recipe.Out,
		T: number(p.Numbers, "t", 0), Lambda: number(p.Numbers, "lambda", 1)}
	m.Normalize, _ = p.Numbers["normalize"].(bool)
	m.Rescale, _ = p.Numbers["rescale"].(bool)
	for _, part := range p.Parts {
		m.Inputs = append(m.Inputs, mix.Input{Tensor: x.cut(x.inputs[part.Model].tensors[part.Tensor]), Base: part.Base,
			Weight: number(part.Numbers, "weight", 0), Density: number(part.Numbers, "density", 1)})
		if s, ok := part.Numbers["scale"].(float64); ok {
			m.Scale = &s
		}
	}
	t, err := m.Tensor()
	if err != nil && len(m.Inputs) > 0 {
		err = fmt.Errorf("%s: %w", tensorfs.Printable(p.Name), err)
	}
	return t, err
}

// torch are how config.json calls types.
var torch = map[tensorfs.DType]string{tensorfs.F32: "float32", tensorfs.F16: "float16", tensorfs.BF16: "bfloat16"}

// directory lays out the files of the merge.
func (x *merge) directory(list []safetensors.Stored) (d directory, err error) {
	weights, err := safetensors.Compose([][2]string{{"format", "pt"}}, list)
	if err != nil {
		return d, err
	}
	like := &x.inputs[x.recipe.Reference()]
	types := map[tensorfs.DType]int{}
	for _, t := range list {
		types[t.DType]++
	}
	most := tensorfs.F32
	for t, n := range types {
		if n > types[most] {
			most = t
		}
	}
	configs := make([]config, len(x.inputs))
	for i := range configs {
		configs[i] = x.inputs[i].config
	}
	text, err := like.config.with(x.recipe.Layers(like.config.layers), configs, torch[most], x.set)
	if err != nil {
		return d, err
	}
	var newest time.Time
	for _, m := range x.opened {
		if m.ModTime.After(newest) {
			newest = m.ModTime
		}
	}
	d = directoryOf("the merge of "+x.at, []convert.File{{Path: configName, Data: tensorfs.Bytes(text)}, {Path: weightsName, Data: weights},
		{Path: recipeName, Data: tensorfs.Bytes(x.text)}}, newest)
	if err := like.others(d, func(name string) bool { return !isTokenizer(name) }); err != nil {
		return d, err
	}
	tokens := like
	if x.recipe.Tokenizer >= 0 {
		tokens = &x.inputs[x.recipe.Tokenizer]
	}
	return d, tokens.others(d, isTokenizer)
}

// others puts the model's files that hold no weights into the directory.
func (in *input) others(d directory, wanted func(name string) bool) error {
	for _, s := range in.model.Sources {
		name := s.Name
		if strings.Contains(name, "/") || name == configName || path.Ext(name) == ".safetensors" || strings.HasSuffix(name, ".index.json") || !wanted(name) {
			continue
		}
		data, err := in.model.File(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		d.files[name] = data
	}
	return nil
}
