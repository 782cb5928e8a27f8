package settings

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

// Given is what only the tensors and the tokenizer of a model know.
type Given struct {
	Rows   int64                                   // of the token embedding
	Tensor func(canonical string) *tensorfs.Tensor // may be nil

	// Towards GGUF.
	Tokenizer bool   // false: tokenizer.ggml.model is "none"
	Own       int64  // tokens of a tokenizer.json that are not added ones, 0 if unknown
	FileType  uint32 // general.file_type
	Templates int    // chat templates beside the tokenizer

	// From GGUF.
	MLX          bool   // for mlx/, not hf/
	Torch        string // torch_dtype: "bfloat16", "float32", "float16"
	Quantization []byte // mlx/: a JSON object with "quantization" and "quantization_config"; nil: nothing is quantised
	Experts      bool   // the experts of gpt-oss are given as blocks of MXFP4 (hf/ only)
}

// Model is a model whose settings are made: keys of a GGUF file from its config.json,
// or config.json from its keys.
type Model struct {
	m     *tensorfs.Model
	arch  *architectures.Settings
	to    architectures.Direction
	given Given

	cfg, rope Fields   // towards GGUF: config.json, and its objects about rotary embeddings
	keys      metadata // from GGUF

	known  map[string]any // facts that were read from config.json, or measured
	env    architectures.Env
	ends   []int // ids of the tokens at which llama.cpp ends a generation
	failed error // the first

	bidirectional bool // tokens see those after them, which config.json has to say

	reads  *architectures.Reads // what programs read of config.json; nil if that is not known
	class  *architectures.Reads // the library's own class is read if it has the model type, even if code is beside config.json
	unread []string             // fields of config.json that are left out

	generation func() (Fields, error) // reads generation_config.json, once
	notes      []string
}

func newModel(m *tensorfs.Model, to architectures.Direction) *Model {
	s := &Model{m: m, to: to, known: map[string]any{}}
	s.generation = sync.OnceValues(func() (Fields, error) { return Read(m, GenerationName) })
	s.env = architectures.Env{Facts: s.fact, Source: s, Call: s.call, List: func(e *architectures.Expr) any { return call{s, []*architectures.Expr{e}}.list(0) }}
	return s
}

// Architecture is the model's architecture by GGUF's name.
func (s *Model) Architecture() string { return s.arch.GGUF }

// Block is the name of the model's description.
func (s *Model) Block() string { return s.arch.Name }

// Notes returns what a user should know of the keys that were made.
func (s *Model) Notes() []string { return s.notes }

// A meaning is what descriptions of architectures call by a name: a value, a condition,
// or what has to agree, in which case the value is of no use. A direction that has no use
// for it is nil.
type meaning struct{ toGGUF, fromGGUF func(c call) any }

// call is the use of a meaning.
type call struct {
	*Model
	args []*architectures.Expr
}

// meanings are all of them, by subject in the files of this package.
var meanings = map[string]meaning{}

func init() {
	for _, subject := range []map[string]meaning{generalMeanings, headMeanings, ropeMeanings, expertMeanings, windowMeanings, poolingMeanings, stateMeanings, sparsityMeanings, scalarMeanings, towerMeanings, generationMeanings} {
		for name, m := range subject {
			meanings[name] = m
		}
	}
}

// check is a meaning without a value.
func check(f func(c call)) func(c call) any {
	return func(c call) any { f(c); return nil }
}

// call returns the value of a function, nil if it has none.
func (s *Model) call(name string, args []*architectures.Expr) any {
	m := meanings[name]
	f := m.toGGUF
	if s.to == architectures.FromGGUF {
		f = m.fromGGUF
	}
	if f == nil {
		return nil
	}
	return f(call{s, args})
}

// value returns the meaning of an expression of a description, nil if it has none. A
// meaning may have the name of a fact, which is then meant inside of expressions.
func (s *Model) value(e *architectures.Expr) any {
	if s.means(e.Name) {
		return s.call(e.Name, e.Args)
	}
	return e.In(&s.env)
}

// means reports whether there is a meaning of that name.
func (s *Model) means(name string) bool {
	m := meanings[name]
	return s.to == architectures.ToGGUF && m.toGGUF != nil || s.to == architectures.FromGGUF && m.fromGGUF != nil
}

// arg returns the value of an argument.
func (c call) arg(i int) any {
	if i >= len(c.args) {
		return nil
	}
	return c.value(c.args[i])
}

// number returns an argument that is a whole number, 0 without it.
func (c call) number(i int) int64 {
	n, _ := c.arg(i).(int64)
	return n
}

// fact returns what expressions call by a name, besides what [architectures.Source] has for
// them: a fact of keys.txt, a meaning without arguments, or
//
//	rope           how rotary embeddings are scaled
//	tokenizer      whether the GGUF file has one
//	templates      how many chat templates it has
func (s *Model) fact(name string) any {
	layer := s.env.Layer()
	switch name {
	case "rope":
		return s.ropeType()
	case "tokenizer":
		return s.given.Tokenizer
	case "templates":
		return int64(s.given.Templates)
	case "experts": // dense models may say that they have none
		if s.to == architectures.ToGGUF {
			n, _ := s.cfg.Integer(architectures.FactOf("n_experts").Fields...)
			return n
		}
		name = "n_experts"
	}
	if architectures.FactOf(name) == nil && s.means(name) {
		return s.call(name, nil)
	}
	v := s.raw(name)
	list, ok := v.([]any)
	switch {
	case !ok:
		return v
	case layer >= int64(len(list)):
		return nil
	case layer >= 0:
		return list[layer]
	case architectures.FactOf(name).List || s.to == architectures.ToGGUF:
		return list
	}
	if slices.ContainsFunc(list, func(v any) bool { return v != list[0] }) {
		s.refuse("%s differs from layer to layer, and config.json has one number", s.full(name))
		return nil
	}
	return list[0]
}

// raw returns a fact as it was made, measured or read: a []any of one with a value for
// each layer.
func (s *Model) raw(name string) any {
	v := s.known[name]
	if f := architectures.FactOf(name); v == nil && f != nil && s.to == architectures.FromGGUF {
		if v = s.key(f, true); v != nil {
			s.known[name] = v
		}
	}
	return v
}

// Field returns a field of config.json for expressions. Of a field of each object of a list it is the layer's one.
func (s *Model) Field(path string) any {
	v := s.cfg.plain(path)
	if list, ok := v.([]any); ok && isOfEach(path) && s.env.Layer() >= 0 {
		if s.env.Layer() >= int64(len(list)) {
			return nil
		}
		return list[s.env.Layer()]
	}
	return v
}

// Shape returns the shape of a tensor for expressions.
func (s *Model) Shape(tensor string) []int64 {
	if s.given.Tensor == nil {
		return nil
	}
	t := s.given.Tensor(tensor)
	if t == nil {
		return nil
	}
	return append([]int64{}, t.Numbers()...)
}

// Refuse notes why an expression has no value.
func (s *Model) Refuse(format string, args ...any) { s.refuse(format, args...) }

// tensor returns a tensor by its canonical name, nil if it is missing. A name without
// .weight or .bias means the weight, of this layer or the first.
func (s *Model) tensor(name string) *tensorfs.Tensor {
	if s.given.Tensor == nil {
		return nil
	}
	if strings.HasSuffix(name, ".weight") || strings.HasSuffix(name, ".bias") {
		return s.given.Tensor(name)
	}
	if t := s.given.Tensor(name + ".weight"); t != nil {
		return t
	}
	name = inLayer(max(s.env.Layer(), 0), name)
	if t := s.given.Tensor(name + ".weight"); t != nil {
		return t
	}
	return s.given.Tensor(name) // of a module that is one tensor
}

func layerPrefix(layer int64) string { return inLayer(layer, "") }

// inLayer is the canonical name of a module of a layer.
func inLayer(layer int64, module string) string {
	return architectures.Canonical(module, strconv.FormatInt(layer, 10)+".")
}

// count returns a fact that is a whole number, the largest of all layers; 0 without it.
func (s *Model) count(name string) (n int64) {
	v := s.raw(name)
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, v := range list {
		i, _ := v.(int64)
		n = max(n, i)
	}
	return n
}

// has reports whether there is a fact.
func (s *Model) has(name string) bool { return s.raw(name) != nil }

// refuse notes why a conversion is impossible. The first reason counts.
func (s *Model) refuse(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if s.to == architectures.ToGGUF {
		err = fmt.Errorf("config.json: %w", err)
	}
	s.fail(err)
}

// fail notes an error as the reason why nothing is made.
func (s *Model) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// err returns why nothing is made.
func (s *Model) err() error {
	if err := s.cfg.Err(); err != nil {
		return err
	}
	return s.failed
}

// agree evaluates a word's values that have to agree.
func (s *Model) agree(words ...string) {
	for _, word := range words {
		for _, e := range s.arch.Calls(word) {
			if s.failed != nil {
				return
			}
			s.value(e)
		}
	}
}

// list returns the values of an argument, even if it is a single one; a fact has one for
// each layer.
func (c call) list(i int) []any {
	var v any
	if c.env.Layer() < 0 && i < len(c.args) && architectures.FactOf(c.args[i].Name) != nil {
		v = c.raw(c.args[i].Name)
	} else {
		v = c.arg(i)
	}
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

// movedAlike are the moves that leave a shape as it is.
var movedAlike = []string{"heads", "plus", "plus_mlx", "keep", "groups", "thirds", "tokens"}

// checkShapes refuses settings that the shapes of tensors contradict. It ends at the
// first layer that is not there, so a file's number of layers costs nothing.
func (s *Model) checkShapes() {
	described := architectures.Find(s.arch.GGUF)
	facts := layout.FactsOf(s.m)
	sizes := described.Sizes(s.to, func(name string) any {
		switch name {
		case "vocab":
			return s.given.Rows
		case "positions":
			name = "max_seq_len"
		}
		if v := s.env.Fact(name); v != nil {
			return v
		}
		return facts(name)
	})
	hold := func(list []architectures.Tensor) (found bool) {
		for i := range list {
			t := &list[i]
			stays := func(move string) bool {
				return slices.Contains(movedAlike, move) || s.to == architectures.FromGGUF && move != "row"
			}
			if slices.ContainsFunc(t.Moves, func(m architectures.Move) bool { return !stays(m.Name) }) || !t.When.Holds(sizes.Fact) ||
				t.Needs(".weight", s.to) == architectures.Never && t.Needs(".bias", s.to) != architectures.Never {
				continue
			}
			name := t.Module
			if layer := s.env.Layer(); layer >= 0 {
				name = inLayer(layer, name)
			}
			have := s.tensor(name + ".weight")
			found = found || have != nil
			want := make([]int64, len(t.Shape))
			for i, name := range t.Shape {
				if n, err := strconv.ParseInt(name, 10, 64); err == nil {
					want[i] = n
				} else {
					want[i] = sizes.Len(name)
				}
			}
			// A module whose codes are not decoded has a reason of its own.
			if have != nil && have.Opaque == "" && !slices.Contains(want, 0) && !slices.Equal(have.Numbers(), want) {
				what := map[architectures.Direction]string{architectures.ToGGUF: "it", architectures.FromGGUF: "the metadata"}[s.to]
				s.refuse("%s contradicts the tensor %s, whose shape is %v and would have to be %v", what, have.Weight(), have.Numbers(), want)
				return
			}
		}
		return found
	}
	hold(described.First)
	hold(described.Last)
	defer s.env.SetLayer(-1)
	layers := cmp.Or(sizes.Len("layers"), s.count("n_layers"))
	for layer := range layers {
		s.env.SetLayer(layer)
		found := hold(described.Layer)
		if !found && s.to == architectures.FromGGUF {
			s.refuse("there are %d layers, and the file has no %sattention.output.weight", layers, layerPrefix(layer))
		}
		if s.failed != nil {
			return
		}
	}
}
