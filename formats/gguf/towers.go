package gguf

import (
	_ "embed"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
)

// Ollama's own converter put the tower of a model into the file of the language model.
// llama.cpp reads it from a file of its own, whose keys and tensors TowerInLlama returns.

//go:embed ollama_towers.txt
var ollamaTowersText string

// towerForm is a block of ollama_towers.txt.
type towerForm struct {
	name  string
	names string // the word of that name
	lines []step
}

var towerForms = sync.OnceValue(func() map[string]*towerForm {
	forms := map[string]*towerForm{}
	var form *towerForm
	for line := range strings.Lines(ollamaTowersText) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0][0] == '#' {
			continue
		}
		switch f[0] {
		case "tower":
			form = &towerForm{name: f[1]}
			forms[f[1]] = form
		case "like":
			like := forms[f[1]]
			form.names, form.lines = like.names, slices.Clone(like.lines)
		case "names":
			form.names = f[1]
		default:
			if towerSteps[f[0]] == nil && steps[f[0]] == nil {
				panic("ollama_towers.txt has no word " + f[0])
			}
			form.lines = append(form.lines, step{f[0], f[1:]})
		}
	}
	return forms
})

// Tower is the tower of a model in a file of Ollama's converter.
type Tower struct {
	Metadata []tensorfs.Meta // keys of llama.cpp's file
	Parts    []TowerPart
	IsHF     bool // whether parts have names and layout of Hugging Face, not of llama.cpp's file
	// IsWhole reports that these are all tensors of llama.cpp's file, in its layout, by the
	// table.
	IsWhole bool
	F32     []string // tensors that have this type there
}

// TowerPart is a tensor of a tower: one of Ollama's file, or the rows of several.
type TowerPart struct {
	Name string
	Rows []tensorfs.Tensor
}

// TowerOf returns the tower of a model whose file Ollama's converter wrote, nil without one.
// The error is why it cannot be told.
func TowerOf(m *tensorfs.Model) (*Tower, error) {
	t := &towerTranslation{translation: translation{before: lookup(m.Metadata), own: ownTensors(m)}}
	t.from, _ = t.before("general.architecture").(string)
	for _, x := range m.Tensors {
		if t.own(&x) && IsTower(x.Source) && !IsAudio(x.Source) {
			t.tensors = append(t.tensors, x)
		}
	}
	if len(t.tensors) == 0 {
		return nil, nil
	}
	form := towerForms()[t.from]
	if form == nil {
		return nil, fmt.Errorf("no projector for the tower of %s is known", tensorfs.Quote(t.from))
	}
	t.parts = make([]TowerPart, len(t.tensors))
	for _, s := range form.lines {
		if f := towerSteps[s.word]; f != nil {
			f(t, s.args)
		} else {
			steps[s.word](&t.translation, s.args)
		}
	}
	tower := &Tower{Metadata: t.meta, IsHF: form.names == "hf", IsWhole: form.names == "all", F32: t.f32}
	for i, x := range t.tensors {
		switch p := t.parts[i]; {
		case p.Name == "" && tower.IsWhole:
			t.fail("the tower of %s does not have the tensor %s", t.from, tensorfs.Quote(x.Source))
		case p.Rows != nil:
			tower.Parts = append(tower.Parts, p)
		case p.Name == "": // as it is
			tower.Parts = append(tower.Parts, TowerPart{x.Source, []tensorfs.Tensor{x}})
		}
	}
	return tower, t.failed
}

// IsTower reports whether a tensor of a file of Ollama's converter belongs to a tower.
func IsTower(name string) bool {
	return slices.ContainsFunc([]string{"v.", "a.", "s.", "mm.", "model.vision_tower."}, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

// IsAudio reports whether a tensor of a tower hears.
func IsAudio(name string) bool {
	return strings.HasPrefix(name, "a.") || strings.HasPrefix(name, "mm.a.")
}

// towerTranslation makes a tower.
type towerTranslation struct {
	translation
	parts  []TowerPart // what each tensor becomes: undecided, a part, or only a name for a tensor that is in another part
	failed error
	layers int64    // the number of layers that lines "part" are about, 0 if they are not about layers
	f32    []string // tensors that are F32 in llama.cpp's file
}

// noPart is the name of what a tensor becomes that is not a part of its own.
const noPart = "-"

func (t *towerTranslation) fail(format string, args ...any) {
	if t.failed == nil {
		t.failed = fmt.Errorf(format, args...)
	}
}

// rest returns the remainder of a tensor's name after a name of the table, and the number
// of the layer that matches "*".
func rest(name, tensor string) (after, layer string, ok bool) {
	begin, end, layers := strings.Cut(name, "*")
	after, ok = strings.CutPrefix(tensor, begin)
	if ok && layers {
		digits := strings.TrimLeft(after, "0123456789")
		layer = after[:len(after)-len(digits)]
		after, ok = strings.CutPrefix(digits, end)
		ok = ok && layer != ""
	}
	return after, layer, ok && (after == "" || after[0] == '.')
}

// indexOf returns which tensor of the tower has a name, -1 for none.
func (t *towerTranslation) indexOf(name string) int {
	return slices.IndexFunc(t.tensors, func(x tensorfs.Tensor) bool { return x.Source == name })
}

// towerConstant reads a value of the table.
func towerConstant(s string) any {
	inside, isList := strings.CutPrefix(s, "[")
	if !isList {
		if s == "true" {
			return true
		}
		return constant(s)
	}
	var list listOf[float32]
	for _, n := range strings.Split(strings.TrimSuffix(inside, "]"), ",") {
		x, _ := strconv.ParseFloat(n, 32)
		list = append(list, float32(x))
	}
	return list
}

// listOf is an array that is made here.
type listOf[T float32 | bool] []T

// Len returns how many values there are.
func (a listOf[T]) Len() int { return len(a) }

// Values returns the values.
func (a listOf[T]) Values() iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, x := range a {
			if !yield(x) {
				return
			}
		}
	}
}

// towerSteps are the words in blocks of towers, besides the words that they share with the
// language models' blocks.
var towerSteps = map[string]func(t *towerTranslation, args []string){
	"set":     func(t *towerTranslation, args []string) { t.set(args[0], towerConstant(args[1])) },
	"default": func(t *towerTranslation, args []string) { t.setMissing(args[0], towerConstant(args[1])) },
	"only": func(t *towerTranslation, args []string) {
		v := t.before(t.full(args[0]))
		if v == nil {
			return
		}
		n, isNumber := integer(v)
		asked, isReal := constant(args[1]).(float32)
		switch {
		case isNumber && n == 0: // what config.json does not say
		case v == any(asked), v == constant(args[1]), isNumber && isReal && float32(n) == asked, v == float32(0):
		default:
			t.fail("%s is %v, and llama.cpp computes only with %s", t.full(args[0]), v, args[1])
		}
	},
	"inverse": func(t *towerTranslation, args []string) {
		x, _ := t.before(t.full(args[1])).(float32)
		n := math.Round(1 / float64(x))
		if x <= 0 || n < 1 || float32(1/n) != x {
			t.fail("%s is not one divided by a whole number", t.full(args[1]))
			return
		}
		t.set(args[0], uint32(n))
	},
	"scale": func(t *towerTranslation, args []string) {
		side, patch := math.Sqrt(float64(t.integerKey(args[1]))), t.integerKey("vision.patch_size")
		if side < 1 || patch < 1 {
			return
		}
		if n := t.integerKey("vision.image_size") / patch / int64(side); n > 0 && n != 4 {
			t.set(args[0], uint32(n))
		}
	},
	"side": func(t *towerTranslation, args []string) {
		x, patch := t.firstTensor(args[1]), t.integerKey("vision.patch_size")
		if x == nil || len(x.Shape) != 2 || patch < 1 || patch > 1<<16 || x.Shape[0] > 1<<31 {
			t.fail("the size of a picture cannot be told: there is no %s or no %s", args[1], t.full("vision.patch_size"))
			return
		}
		t.set(args[0], uint32(math.Sqrt(float64(x.Shape[0]))*float64(patch)))
	},
	"pattern": func(t *towerTranslation, args []string) {
		list := t.list(args[1])
		every, _ := strconv.ParseInt(args[2], 10, 32)
		if len(list) > 0 {
			every = list[0] + 1
		}
		for i, at := range list {
			if at != every*int64(i+1)-1 {
				t.fail("%s is not every so many layers, as llama.cpp has it", t.full(args[1]))
			}
		}
		left := t.integerKey("vision.block_count") - every*int64(len(list))
		if every < 1 || every > maxLayers || len(list) > 0 && (left < 0 || left >= every) {
			t.fail("%s does not go to the last layer, as llama.cpp has it", t.full(args[1]))
		}
		t.set(args[0], uint32(every))
	},
	"deep": func(t *towerTranslation, args []string) {
		layers := t.integerKey("vision.block_count")
		if layers < 1 || layers > maxLayers {
			t.fail("%s is %d", t.full("vision.block_count"), layers)
			return
		}
		deep := make(listOf[bool], layers)
		last := int64(-1)
		for _, at := range t.list(args[1]) {
			if at <= last || at >= layers {
				t.fail("%s has %d, which is not a later layer than the number before it", t.full(args[1]), at)
				return
			}
			deep[at], last = true, at
		}
		t.set(args[0], deep)
	},
	"colours": func(t *towerTranslation, args []string) {
		i := t.indexOf(args[0])
		if i < 0 {
			return
		}
		x := &t.tensors[i]
		if len(x.Shape) != 4 || x.Shape[0]%3 != 0 {
			t.fail("shape %v of %s does not fit patches of two pictures", x.Shape, tensorfs.Quote(x.Source))
			return
		}
		x.Shape = slices.Concat([]int64{x.Shape[0] / 3, 3}, x.Shape[1:])
	},
	"join": func(t *towerTranslation, args []string) {
		for i, x := range t.tensors {
			after, layer, ok := rest(args[1], x.Source)
			if !ok || t.parts[i].Name != "" {
				continue
			}
			p := TowerPart{Name: strings.Replace(args[0], "*", layer, 1) + after}
			for _, name := range args[1:] {
				name = strings.Replace(name, "*", layer, 1) + after
				j := t.indexOf(name)
				if j < 0 {
					t.fail("the tensor %s is missing", tensorfs.Quote(name))
					return
				}
				p.Rows, t.parts[j].Name = append(p.Rows, t.tensors[j]), noPart
			}
			t.parts[i] = p
		}
	},
	"tensor": func(t *towerTranslation, args []string) {
		for i, x := range t.tensors {
			if after, layer, ok := rest(args[0], x.Source); ok && t.parts[i].Name == "" {
				t.parts[i] = TowerPart{strings.Replace(args[1], "*", layer, 1) + after, []tensorfs.Tensor{x}}
			}
		}
	},
	"layers": func(t *towerTranslation, args []string) {
		if t.layers = t.integerKey(args[0]); t.layers < 1 || t.layers > maxLayers {
			t.fail("%s is %d", t.full(args[0]), t.layers)
			t.layers = 0
		}
	},
	"part": func(t *towerTranslation, args []string) {
		at := make(map[string]int, len(t.tensors))
		for i := range t.tensors {
			at[t.tensors[i].Source] = i
		}
		for layer := range max(t.layers, 1) {
			number := strconv.FormatInt(layer, 10)
			for _, end := range args[2:] {
				end = strings.TrimPrefix(end, "-")
				name := strings.Replace(args[0], "*", number, 1) + end
				i, ok := at[name]
				if !ok {
					t.fail("the tensor %s of the tower of %s is missing", tensorfs.Quote(name), t.from)
					return
				}
				t.parts[i] = TowerPart{strings.Replace(args[1], "*", number, 1) + end, t.tensors[i : i+1 : i+1]}
			}
		}
	},
	"row": func(t *towerTranslation, args []string) {
		if i := t.indexOf(args[0]); i >= 0 && len(t.tensors[i].Shape) == 1 {
			t.tensors[i].Shape = append([]int64{1}, t.tensors[i].Shape...)
		}
	},
	"f32": func(t *towerTranslation, args []string) { t.f32 = args },
	"fourfold": func(t *towerTranslation, args []string) {
		if n := t.integerKey(args[1]); n > 0 && n < 1<<16 {
			t.set(args[0], uint32(4*n))
		}
	},
	"leave": func(t *towerTranslation, args []string) {
		for i, x := range t.tensors {
			if slices.ContainsFunc(args, func(pattern string) bool { return matches(pattern, x.Source) }) {
				t.parts[i].Name = noPart
			}
		}
	},
}
