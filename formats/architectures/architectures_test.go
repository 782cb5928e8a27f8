package architectures

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats/names"
)

// TestText: the text is what the reader takes.
func TestText(t *testing.T) {
	if all := All(); len(all) < 15 {
		t.Errorf("%d architectures", len(all))
	}
}

// texts returns the texts of items.
func texts(items []Item) string {
	var list []string
	for _, x := range items {
		if x.When != nil {
			list = append(list, "["+x.When.String()+"]"+x.Text)
		} else {
			list = append(list, x.Text)
		}
	}
	return strings.Join(list, " ")
}

// TestLike: a block begins with the lines of the other.
func TestLike(t *testing.T) {
	all, err := readArchitectures("text", `# comment
arch a
  prefix  one.
  dropped   a b(1 2):x [rope y]
          c [] d
          [!e] f
  dropped   g
arch b like a
  dropped   -b +d:more @a +h +i
arch c like b
  prefix  two.
  dropped   -c +j
`, modules())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a b(1 2):x [rope y]c d [!e]f g", "a h i [rope y]c d:more [!e]f g", "a h i d:more [!e]f g j"} {
		if got := texts(all[i].words["dropped"]); got != want {
			t.Errorf("%s has %s, want %s", all[i].Name, got, want)
		}
	}
	if a, b := texts(all[1].words["prefix"]), texts(all[2].words["prefix"]); a != "one." || b != "two." {
		t.Error(a, b)
	}
}

// TestMistakes: a mistake in a text is an error with its line.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"arch a\n  what b\n":      "text:2: unknown word",
		"arch a\narch a\n":        "text:2: a is there twice",
		"arch a like b\n":         "text:1: a is like b",
		"arch a b\n":              `text:1: "arch a b"`,
		"  dropped a\n":           "text:1: a line before",
		"arch a\n  dropped a a\n": "text:2: dropped has a twice",
		"arch a\n  dropped +a\n":  "text:2: +a changes",
		"arch a\n  dropped a\narch b like a\n  dropped -b\n":                           "text:4: there is no b",
		"arch a\n  dropped a\narch b like a\n  dropped -a b\n":                         "text:4: dropped mixes changes with other items",
		"arch a\n  dropped [a b\n":                                                     "text:2: a condition without its end",
		"arch a\n  dropped [a +] b\n":                                                  "text:2: the expression",
		"arch a\n  dropped b(c\n":                                                      "text:2: parentheses",
		"arch a\n  dropped \u00fc\n":                                                   "text:2: only printable ASCII",
		"arch a\n  first output:nothing\n":                                             "text:2: output:nothing: modules.txt has no move nothing",
		"arch a\n  first output!\n":                                                    "text:2: output!: unknown marks",
		"arch a\n  first attention.q\n":                                                "text:2: attention.q is not in that part",
		"arch a\n  layer nobody\n":                                                     `text:2: modules.txt has no "nobody"`,
		"arch a\n  layer attention.q\narch b like a\n  gguf a\n  layer -attention.q\n": "text:3: b: layer is not allowed here, because block a already",
		"arch a\n  sizes q=1\narch b like a\n  gguf a\n  sizes q=2\n":                  "text:3: b: sizes is not allowed here",
		"arch a\n  sizes a=b+\n":                                                       "text:2: a=b+: the expression",
		"arch a\n  dropped [" + strings.Repeat("!", 99) + "a]":                         "it is too deep",
	} {
		if _, err := readArchitectures("text", text, modules()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestExpr(t *testing.T) {
	facts := Facts(func(name string) any {
		return map[string]any{"width": int64(12), "heads": int64(4), "rope": "yarn", "zero": int64(0), "half": 0.5, "single": float32(0.1), "yes": true, "big": int64(1) << 62, "small": int64(math.MinInt64)}[name]
	})
	env := &Env{Facts: facts}
	env.Call = func(name string, args []*Expr) any {
		if name != "twice" {
			return nil
		}
		return 2 * args[0].In(env).(int64)
	}
	for text, want := range map[string]any{
		"width/heads": int64(3), "width/5": nil, "width/zero": nil, "2*width+1": int64(25), "width-heads*2": int64(4), "-(width)": int64(-12),
		"none | width": int64(12), "none": nil, "none+1": nil, "big*2": nil, "big+big": nil, "small-1": nil, "small*-1": nil, "-1*small": nil, "small/-1": nil, "small+big+big": int64(0), "big/width*3": nil, "big-1": int64(1<<62 - 1), "17 % 5": int64(2), "5 % zero": nil, "1e-3": 1e-3, `"yarn"`: "yarn", "rope == \"yarn\"": true, "null": Null{}, "true": true,
		"twice(width)": int64(24), "twice(twice(2)+1)": int64(10), "nobody(1)": nil, "none == false": false, "false == false": true, "single": float32(0.1), "single*1": 0.1, "half*width": 6.0, "0.25": 0.25,
		"rope llama3 yarn": true, "rope linear": false, "none linear": false, "!none": true, "!width": false, "!zero": true,
		"width < 13": true, "width >= 13": false, "heads == 4 and yes": true, "zero or none": false, "rope == rope": true,
		"width if yes else heads": int64(12), "width if zero else heads": int64(4), "width if zero": nil, "(1+2)*3": int64(9), "9-2-3": int64(4),
	} {
		e, err := ParseExpr(text)
		if err != nil {
			t.Error(err)
		} else if got := e.In(env); got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"", "a b +", "a+", "(a", "a)", "if", "a ? b", "1 2", "f(", "f(a", "f(a b", "[a", "[a)", `"a`} {
		if _, err := ParseExpr(text); err == nil {
			t.Errorf("%q is an expression", text)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add(architecturesText)
	f.Add("arch a\n dropped [a+b*2 < (c|d)] x(y z):m+b?\narch b like a\n dropped -x +y @y +z\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := readArchitectures("text", text, modules())
		if err != nil && (len(all) > 0 || !strings.HasPrefix(err.Error(), "text:")) {
			t.Error(all, err)
		}
		for _, a := range all {
			for _, x := range a.words["dropped"] {
				x.When.Holds(func(string) any { return int64(1) << 62 })
			}
		}
	})
}

// TestMoves: a move of towers.txt has the effect of its namesake in modules.txt, and a line without an effect is a mistake.
func TestMoves(t *testing.T) {
	for name, effect := range towers().moves {
		if of := modules().moves[name]; of != "" && of != effect {
			t.Errorf("%s: %s for towers, %s in modules.txt", name, effect, of)
		}
	}
	for _, text := range []string{"move a", "move a rows", "move a text of it", "move (a) rows text", "move a rows text\nmove a place again"} {
		if _, err := readModules("text", text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestMovesOf(t *testing.T) {
	for _, c := range []struct{ architecture, name, want string }{
		{"llama", "layers.3.attention.q.weight", "heads"}, {"llama", "layers.3.attention.q.bias", "heads"}, {"llama", "layers.3.ffn.up.weight", ""},
		{"gpt2", "layers.0.ffn.up.weight", "transpose"}, {"bloom", "layers.0.attention.qkv.weight", "thirds"}, {"llama", "token_embedding.weight", "keep"},
	} {
		var got []string
		for _, m := range Find(c.architecture).MovesOf(c.name) {
			got = append(got, m.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s %s: %v, want %q", c.architecture, c.name, got, c.want)
		}
	}
}

// TestNames: names of both sides find their module.
func TestNames(t *testing.T) {
	for _, a := range All() {
		for _, layout := range []names.Layout{names.GGUF, names.HF} {
			var have []names.Source
			var want []string
			add := func(list []Tensor, layer string) {
				for i := range list {
					x := &list[i]
					name := a.InHF(x.HF, layer, 0)
					if layout == names.GGUF {
						name = a.InGGUF(x, layer)
					}
					if x.When != nil && strings.HasPrefix(x.When.String(), "!") && x.Module == "attention_norm" {
						continue // an alternative of another module
					}
					if layout == names.HF && (x.HF == "" || x.Moved("latent_v") || x.Moved("latent_k") || x.Moved("mixed_qkv") || x.Moved("mixed_z") || x.Moved("turned") || x.Moved("turned_half") || x.Moved("part") || x.Moved("answers")) {
						continue // not one for one
					}
					if layout == names.GGUF && x.Moved("in_key") {
						continue // no tensor
					}
					if x.Module == "classifier" && (name == "classifier" || name == "cls.output") {
						continue // BERT's is one matrix, and the second of two in others
					}
					for _, param := range []string{".weight", ".bias"} {
						if x.Needs(param, ToGGUF) == Never && x.Needs(param, FromGGUF) == Never {
							continue
						}
						module := x.Module
						if strings.Contains(name, "{e}") && layout == names.HF {
							if at := strings.LastIndexByte(module, '.'); strings.HasSuffix(name, "{e}") {
								module += ".0"
							} else {
								module = module[:at] + ".0" + module[at:]
							}
						}
						if layer != "" {
							module = Canonical(module, layer)
						}
						s := strings.ReplaceAll(name, "{e}", "0") + param
						if x.Bare && layout == names.HF || x.BareGGUF && layout == names.GGUF {
							s = strings.TrimSuffix(s, param)
						}
						if x.Whole {
							param = ""
						}
						shape := []int64{2, 1}
						if x.Module == "ffn.gate_up" {
							shape[0] = 4
						}
						if x.Module == "ffn.down" {
							shape[1] = 2
						}
						if slices.Contains(want, module+param) {
							continue // of another way of scaling
						}
						if x.When != nil && slices.ContainsFunc(have, func(h names.Source) bool { return h.Name == s }) {
							continue // of another kind of layer
						}
						have = append(have, names.Source{Name: s, Shape: shape})
						want = append(want, module+param)
					}
				}
			}
			if layout == names.HF && !a.Makes("hf") {
				continue
			}
			add(a.First, "")
			add(a.Layer, "0.")
			add(a.Last, "")
			for i, r := range names.Map(layout, a.Name, have) {
				if r.Name != want[i] {
					t.Errorf("%s: %s is %s, want %s", a.Name, have[i].Name, r.Name, want[i])
				}
			}
		}
	}
}

// TestSizes: sizes follow from facts, from each other and from tensors, and an error names the
// source of a contradiction.
func TestSizes(t *testing.T) {
	facts := map[string]any{
		"dim": int64(64), "n_heads": int64(4), "ffn_dim": int64(0), "assumed.head_dim": int64(16), "assumed.n_kv_heads": int64(4),
	}
	s := Find("llama").Sizes(ToGGUF, func(name string) any { return facts[name] })
	if s.Len("width") != 64 || s.Len("head") != 16 || s.Len("q") != 0 || s.Len("nobody") != 0 {
		t.Error(s.Len("width"), s.Len("head"), s.Len("q"))
	}
	for _, c := range []struct {
		shape []int64
		names string
		want  string
	}{
		{[]int64{128, 64}, "q width", ""}, // heads of 32, against the default
		{[]int64{64, 64}, "k width", ""},  // two of them
		{[]int64{32}, "head", ""},
		{[]int64{16}, "head", "the tensor has 16 for head: head_dim | q/heads | head_dim, and config.json has 32"},
		{[]int64{2}, "kv_heads", ""},
		{[]int64{126, 64}, "q width", "the tensor has 126 for q"},
		{[]int64{128}, "q width", "2 dimensions"},
		{[]int64{128, 0}, "q width", "holds no numbers"},
		{[]int64{2, 64}, "1 width", "a dimension of 1 is 2"},
		{[]int64{96, 64}, "ff width", "config.json has 0 for ff: intermediate_size"},
		{[]int64{10, 64}, "vocab width", ""},
		{[]int64{11, 64}, "vocab width", "the tensor has 11 for vocab, and the tensor has 10"},
	} {
		err := s.Hold("the tensor", c.shape, strings.Fields(c.names))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v for %s: %v, want %q", c.shape, c.names, err, c.want)
		}
	}
	if err := s.Need("width", "experts"); err == nil || !strings.Contains(err.Error(), "num_local_experts") {
		t.Error(err)
	}
	three := Find("llama").Sizes(ToGGUF, func(name string) any { return map[string]any{"n_heads": int64(3)}[name] })
	if err := three.Hold("the tensor", []int64{64}, []string{"q"}); err == nil || !strings.Contains(err.Error(), "3 heads") {
		t.Error(err)
	}
	facts["head_dim"] = int64(32)
	facts["assumed.head_dim"] = int64(32)
	if err := Find("qwen2").Sizes(FromGGUF, func(name string) any { return facts[name] }).Implied(nil); err == nil || !strings.Contains(err.Error(), "cannot say so") {
		t.Error(err)
	}
}

func FuzzModules(f *testing.F) {
	f.Add(modulesText)
	f.Add("layer a b c gguf d\nsize e f | g/2\nh 1 mlx plain\n")
	f.Fuzz(func(t *testing.T, text string) {
		if all, err := readModules("text", text); err != nil && (all != nil || !strings.HasPrefix(err.Error(), "text:")) {
			t.Error(all, err)
		}
	})
}
