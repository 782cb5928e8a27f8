package architectures

import (
	_ "embed"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs/formats/names"
)

//go:embed modules.txt
var modulesText string

// Direction is the way of a conversion.
type Direction int

// The two directions.
const (
	ToGGUF Direction = iota
	FromGGUF
)

// Need is whether a tensor has to be present.
type Need int

// The needs. A tensor that is not known makes a model one of another kind.
const (
	Always Need = iota
	Maybe
	Never
)

// Tensor is the weight and the bias of a module, on both sides.
type Tensor struct {
	Module string   // canonical, without the number of a layer and without .weight and .bias
	Shape  []string // of the weight, outermost first: names of sizes, and numbers
	Moves  []Move   // what becomes of the numbers towards GGUF, one after the other
	When   *Expr    // the condition in which the module is there

	// The names of the two sides, without .weight and .bias. In a layer they begin after
	// the layer's number. {e} is the number of an expert. GGUF and HF are "" if the side
	// does not have the module, MLX is "" if it equals HF.
	GGUF, HF, MLX string

	// Whole marks a module that is one tensor with the module's own canonical name.
	// BareGGUF and Bare mark names that have no .weight or .bias on that side.
	Whole, BareGGUF, Bare bool

	Plain bool // mlx-lm takes the weight only as plain numbers

	// The weight is below .linear for Hugging Face, and the bounds of what goes in and of
	// what comes out may be beside it.
	Clipped bool

	weight, bias [2]Need
}

// Needs returns whether the weight (".weight") or the bias (".bias") has to be present.
func (t *Tensor) Needs(param string, to Direction) Need {
	switch param {
	case ".weight":
		return t.weight[to]
	case ".bias":
		return t.bias[to]
	}
	return Maybe
}

// Params are the ends of names that tensors of the module may have.
func (t *Tensor) Params() []string {
	if t.Clipped {
		return clippedParams
	}
	return clippedParams[:2]
}

var clippedParams = []string{".weight", ".bias", ".input_min", ".input_max", ".output_min", ".output_max"}

// Canonical returns the canonical name of a module of a layer, without .weight and .bias.
// The layer is its number with a dot. Modules of encoders beside a decoder begin with enc.
func Canonical(module, layer string) string {
	if rest, ok := strings.CutPrefix(module, "enc."); ok {
		return "enc.layers." + layer + rest
	}
	return "layers." + layer + module
}

// InGGUF returns a module's name in a GGUF file, without .weight and .bias. The layer is
// its number with a dot, or "" for modules outside of the layers.
func (a *Architecture) InGGUF(t *Tensor, layer string) string {
	if before, after, ok := strings.Cut(t.GGUF, "{n}."); ok {
		return before + layer + after
	}
	if layer == "" {
		return t.GGUF
	}
	return a.Blocks + layer + t.GGUF
}

// InHF returns a module's name in Hugging Face's files for a spelling, without .weight and
// .bias. nth is the position among the layers that have the module.
func (a *Architecture) InHF(spelling, layer string, nth int) string {
	name := strings.Replace(strings.Replace(spelling, "{i}", strconv.Itoa(nth), 1), "{n}.", layer, 1)
	name = strings.Replace(name, "{p}", a.Places[layer], 1)
	if layer != "" && !strings.HasPrefix(name, "~") && !strings.Contains(spelling, "{n}.") && !strings.Contains(spelling, "{p}") {
		name = a.Prefix + layer + name
	}
	if rest, ok := strings.CutPrefix(name, "~"); ok {
		return a.Tower + rest
	}
	return name
}

// InMLX returns the name that InHF would, in mlx-lm's files.
func (a *Architecture) InMLX(spelling, layer string, nth int) string {
	const body = "model."
	name := a.InHF(spelling, layer, nth)
	if strings.HasPrefix(a.MLXPrefix, body) && len(a.MLXPrefix) > len(body) {
		name = strings.TrimPrefix(name, body)
	}
	return a.MLXPrefix + name
}

// GGUFPart and HFPart put the end to the name of a module, as [Tensor.Params] has it.
func (t *Tensor) GGUFPart(name, param string) string {
	if t.BareGGUF {
		return name
	}
	return name + param
}

// HFPart is GGUFPart for Hugging Face.
func (t *Tensor) HFPart(name, param string) string {
	switch {
	case t.Bare:
		return name
	case strings.HasSuffix(name, "_") && param != "": // as PyTorch's own attention has its joined matrix
		return name + param[1:]
	case t.Clipped && param == ".weight":
		return name + ".linear" + param
	}
	return name + param
}

// Moved reports whether a move is one of the tensor's.
func (t *Tensor) Moved(move string) bool {
	return slices.ContainsFunc(t.Moves, func(m Move) bool { return m.Name == move })
}

// Joined is the module that Hugging Face has the tensor joined with others in, "" for none.
func (t *Tensor) Joined() string {
	for _, m := range t.Moves {
		if (m.Name == "part" || m.Name == "of") && len(m.Args) == 1 || m.Name == "row_of" && len(m.Args) == 2 {
			return m.Args[0]
		}
	}
	return ""
}

// Move is a permutation of numbers by its name in modules.txt, with its arguments: the
// words in parentheses.
type Move struct {
	Name string
	Args []string
}

// Effect is what a move changes of a tensor; modules.txt explains the words.
type Effect string

// The effects of moves.
const (
	Place     Effect = "place"
	Heads     Effect = "heads"
	Rows      Effect = "rows"
	Columns   Effect = "columns"
	Transpose Effect = "transpose"
	Numbers   Effect = "numbers"
)

// Effect returns the effect of a move of a language model.
func (m Move) Effect() Effect { return modules().moves[m.Name] }

// MovesOf returns the moves of a tensor between the two sides, by its canonical name.
func (a *Architecture) MovesOf(canonical string) (list []Move) {
	stem := strings.TrimSuffix(strings.TrimSuffix(canonical, ".weight"), ".bias")
	tensors := slices.Concat(a.First, a.Last)
	if rest, ok := strings.CutPrefix(stem, "layers."); ok {
		if _, rest, ok = strings.Cut(rest, "."); ok {
			stem, tensors = rest, a.Layer
		}
	}
	for _, t := range tensors {
		if t.Module == stem {
			list = append(list, t.Moves...)
		}
	}
	return list
}

// module is a line of modules.txt.
type module struct {
	inLayer       bool
	shape         []string
	gguf, hf, mlx string
	plain         bool
}

// moduleTable is modules.txt.
type moduleTable struct {
	file    string
	modules map[string]module
	sizes   map[string]*Expr
	moves   map[string]Effect
}

// Moves returns the names of all moves.
func Moves() []string { return slices.Sorted(maps.Keys(modules().moves)) }

// moveLine is a line about a move: its name, its arguments, its effect, and its explanation.
var moveLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^move ([^ (]+)(?:\([^)]*\))? +([a-z]+) +\S`) })

var modules = sync.OnceValue(func() *moduleTable { return must(readModules("modules.txt", modulesText)) })

func readModules(file, text string) (*moduleTable, error) {
	all := &moduleTable{file: file, modules: map[string]module{}, sizes: map[string]*Expr{}, moves: map[string]Effect{}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if f[0] == "size" && len(f) > 2 {
			e, err := ParseExpr(strings.Join(f[2:], " "))
			if err != nil || all.sizes[f[1]] != nil {
				return nil, mistake(file, n, "%s is there twice, or %v", f[1], err)
			}
			all.sizes[f[1]] = e
			continue
		}
		if f[0] == "move" {
			move := moveLine().FindStringSubmatch(line)
			if move == nil || !slices.Contains([]Effect{Place, Heads, Rows, Columns, Transpose, Numbers}, Effect(move[2])) {
				return nil, mistake(file, n, "a move has a name, an effect and an explanation")
			}
			if all.moves[move[1]] != "" {
				return nil, mistake(file, n, "%s is there twice", move[1])
			}
			all.moves[move[1]] = Effect(move[2])
			continue
		}
		m := module{inLayer: f[0] == "layer"}
		if m.inLayer {
			f = f[1:]
		}
		side := map[string]*string{"gguf": &m.gguf, "hf": &m.hf, "mlx": &m.mlx}
		if len(f) < 2 || side[f[1]] != nil {
			return nil, mistake(file, n, "a module has a name and a shape")
		}
		name := f[0]
		if _, ok := all.modules[name]; ok {
			return nil, mistake(file, n, "%s is there twice", name)
		}
		for f = f[1:]; len(f) > 0 && side[f[0]] == nil; f = f[1:] {
			m.shape = append(m.shape, f[0])
		}
		for ; len(f) > 0; f = f[2:] {
			if side[f[0]] == nil || len(f) == 1 || *side[f[0]] != "" {
				return nil, mistake(file, n, "%q is not a side and how it spells the module", strings.Join(f, " "))
			}
			*side[f[0]] = f[1]
		}
		if m.plain = m.mlx == "plain"; m.plain {
			m.mlx = ""
		}
		all.modules[name] = m
	}
	return all, nil
}

// readTensors reads the tensors of a word, either of a layer or of the model.
func readTensors(file string, items []Item, inLayer bool, table *moduleTable) ([]Tensor, error) {
	var list []Tensor
	for _, x := range items {
		m, ok := table.modules[x.Name]
		switch {
		case !ok:
			return nil, mistake(file, x.Line, "%s has no %q", table.file, x.Name)
		case m.inLayer != inLayer:
			return nil, mistake(file, x.Line, "%s is not in that part of the model", x.Name)
		}
		t := Tensor{Module: x.Name, Shape: m.shape, When: x.When, GGUF: m.gguf, HF: m.hf, MLX: m.mlx, Plain: m.plain, bias: [2]Need{Never, Never}}
		if why := t.read(x.Text[len(x.Name):], table); why != "" {
			return nil, mistake(file, x.Line, "%s: %s", x.Text, why)
		}
		t.spell(inLayer)
		list = append(list, t)
	}
	return list, nil
}

// read reads what follows the name of an item. It returns what is wrong with it.
func (t *Tensor) read(text string, table *moduleTable) string {
	if rest, ok := strings.CutPrefix(text, "("); ok {
		shape, rest, _ := strings.Cut(rest, ")")
		if t.Shape = strings.Fields(shape); len(t.Shape) == 0 {
			return "a shape without dimensions"
		}
		text = rest
	}
	if rest, ok := strings.CutPrefix(text, ":"); ok {
		var why string
		if text, why = t.readMoves(rest, table); why != "" {
			return why
		}
	}
	marks, spellings, _ := strings.Cut(text, "=")
	marks, t.Clipped = strings.CutSuffix(marks, "+c")
	if !t.mark(marks) {
		return "unknown marks"
	}
	for spelling := range strings.SplitSeq(spellings, "=") {
		side, name, ok := strings.Cut(spelling, ":")
		switch {
		case spelling == "":
		case !ok:
			t.HF = side
		case side == "gguf":
			t.GGUF = name
		case side == "mlx":
			t.MLX = name
		default:
			return "unknown side " + side
		}
	}
	return ""
}

// readMoves reads NAME or NAME(A B), with commas between them, and returns what follows.
func (t *Tensor) readMoves(text string, table *moduleTable) (rest, why string) {
	for {
		name := nameOf(text)
		if table.moves[name] == "" {
			return "", table.file + " has no move " + name
		}
		m := Move{Name: name}
		text = text[len(name):]
		if inside, ok := strings.CutPrefix(text, "("); ok {
			inside, text, _ = strings.Cut(inside, ")")
			m.Args = strings.Fields(inside)
		}
		if slices.Contains([]string{"as", "as_turned", "part", "of", "row_of", "times", "times_states", "joined", "copied", "turned_by", "halved", "plus", "plus_mlx"}, name) && len(m.Args) == 0 {
			return "", name + " needs arguments in parentheses"
		}
		t.Moves = append(t.Moves, m)
		if rest, ok := strings.CutPrefix(text, ","); ok {
			text = rest
			continue
		}
		return text, ""
	}
}

// marks are what follows "" or "+b", and the needs in the two directions.
var marks = map[string][2]Need{
	"": {Always, Always}, ">": {Always, Never}, "?": {Maybe, Maybe}, "?>": {Maybe, Never}, "?<": {Always, Maybe}, "<": {Never, Maybe},
}

func (t *Tensor) mark(text string) (ok bool) {
	weight, bias, hasBias := strings.Cut(text, "+b")
	if weight == "-w" {
		t.weight, ok = [2]Need{Never, Never}, hasBias
	} else {
		t.weight, ok = marks[weight]
	}
	if hasBias && ok {
		t.bias, ok = marks[bias]
	}
	return ok
}

// spell fills in the names that formats/names knows. A spelling of the text that ends with
// "!" is a whole name.
func (t *Tensor) spell(inLayer bool) {
	canonical, ggufPrefix, anyPrefix := t.Module, "", ""
	if inLayer {
		canonical, ggufPrefix, anyPrefix = Canonical(t.Module, "{n}."), "blk.{n}.", "{n}."
	}
	param := ".weight"
	if t.Whole = len(names.Spellings(names.GGUF, canonical)) > 0; t.Whole {
		param, t.BareGGUF, t.Bare = "", true, true
	} else if t.weight == [2]Need{Never, Never} {
		param = ".bias"
	}
	if known := names.Spellings(names.GGUF, canonical+param); t.GGUF == "" && len(known) > 0 {
		t.GGUF = strings.TrimSuffix(strings.TrimPrefix(known[0], ggufPrefix), param)
	}
	for name, bare := range map[*string]*bool{&t.GGUF: &t.BareGGUF, &t.HF: &t.Bare} {
		if text, ok := strings.CutSuffix(*name, "!"); ok {
			*name, *bare = text, true
		}
	}
	spelt := func(name string) bool {
		return slices.ContainsFunc(names.Spellings(names.HF, canonical+param), func(s string) bool {
			_, below, _ := strings.Cut(s, anyPrefix)
			return t.HF != "" && below == name
		})
	}
	t.Bare = t.Bare || spelt(t.HF) && !spelt(t.HF+param)
}
