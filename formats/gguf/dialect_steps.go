package gguf

import (
	"encoding/base64"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// made is an array that is made here: of numbers or of truth values.
type made[T any] []T

// Len returns how many values there are.
func (a made[T]) Len() int { return len(a) }

// Values returns the values.
func (a made[T]) Values() iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, v := range a {
			if !yield(v) {
				return
			}
		}
	}
}

// steps are the words of blocks.
var steps = map[string]func(t *translation, args []string){
	"key": func(t *translation, args []string) {
		if i := t.at(args[0]); i >= 0 && t.at(args[1]) < 0 {
			t.meta[i].Key = t.full(args[1])
		} else {
			t.remove(args[0])
		}
	},
	"default": func(t *translation, args []string) { t.setMissing(args[0], constant(args[1])) },
	"set":     func(t *translation, args []string) { t.set(args[0], constant(args[1])) },
	"long": func(t *translation, args []string) {
		if n, _ := strconv.ParseInt(args[2], 10, 64); t.integerKey("context_length") >= n {
			t.setMissing(args[0], constant(args[1]))
		}
	},
	"named": func(t *translation, args []string) {
		if v := t.before(t.full(args[0])); v == nil || v == "" || v == "default" {
			t.set(args[0], constant(args[1]))
		}
	},
	"drop": func(t *translation, args []string) {
		for _, pattern := range args {
			t.remove(pattern)
		}
	},
	"tensor": func(t *translation, args []string) {
		for i, x := range t.tensors {
			if layer, name := inLayer(x.Source); name == args[0] && t.own(&x) {
				t.tensors[i].Source = layer + args[1]
			}
		}
	},
	"leave": func(t *translation, args []string) { t.leave(args...) },
	"largest": func(t *translation, args []string) {
		if list := t.list(args[0]); len(list) > 0 {
			n := slices.Max(list)
			if n == 0 {
				n = 2
			}
			t.set(args[0], uint32(min(n, 1<<31)))
		}
	},
	"four": func(t *translation, args []string) {
		i := t.at(args[0])
		if i < 0 {
			return
		}
		a, ok := t.meta[i].Value.(tensorfs.Array)
		if !ok || a.Len() != 3 {
			return
		}
		var four made[int32]
		for v := range a.Values() {
			n, _ := integer(v)
			four = append(four, int32(n))
		}
		t.meta[i].Value = append(four, 0)
	},
	"sections": func(t *translation, args []string) {
		var parts []int64
		all := int64(0)
		for _, n := range strings.Split(args[2], ",") {
			x, _ := strconv.ParseInt(n, 10, 32)
			parts, all = append(parts, x), all+x
		}
		pairs := t.integerKey(args[1]) / 2
		if pairs <= 0 || pairs > 1<<20 {
			return
		}
		list, rest := made[int32]{0}, pairs
		for _, n := range parts[1:] {
			list, rest = append(list, int32(n*pairs/all)), rest-n*pairs/all
		}
		list[0] = int32(rest)
		t.setMissing(args[0], append(list, 0))
	},
	"length": func(t *translation, args []string) {
		if n := t.length(args[1], args[2]); n > 0 {
			t.set(args[0], uint32(n))
		}
	},
	"ratio": func(t *translation, args []string) {
		if a, b := t.length(args[1], args[2]), t.length(args[3], args[4]); a > 0 && b > 0 && a%b == 0 {
			t.setMissing(args[0], uint32(a/b))
		}
	},
	"count": func(t *translation, args []string) {
		if a, ok := t.before(t.full(args[1])).(tensorfs.Array); ok {
			t.setMissing(args[0], uint32(a.Len()))
		}
	},
	"sum": func(t *translation, args []string) {
		if a, b := t.integerKey(args[1]), t.integerKey(args[2]); a > 0 && b > 0 && a+b < 1<<31 {
			t.set(args[0], uint32(a+b))
		}
	},
	"part": func(t *translation, args []string) {
		part, isPart := t.before(t.full(args[2])).(float32)
		if n := t.integerKey(args[1]); n > 0 && n < 1<<24 && (!isPart || part > 0 && part <= 1) {
			if isPart {
				n = int64(float32(n) * part)
			}
			t.setMissing(args[0], uint32(n))
		}
	},
	"replace": func(t *translation, args []string) {
		if i := t.at(args[0]); i >= 0 && fmt.Sprint(t.meta[i].Value) == args[1] {
			t.meta[i].Value = constant(args[2])
		}
	},
	"usual": func(t *translation, args []string) {
		if i := t.at(args[0]); i >= 0 && fmt.Sprint(t.meta[i].Value) == args[1] {
			t.remove(args[0])
		}
	},
	"empty": func(t *translation, args []string) {
		if t.before(t.full(args[0])) == "" {
			t.remove(args[1])
		}
	},
	"ends": func(t *translation, args []string) {
		for i, n := range t.list("tokenizer.ggml.eos_token_ids") {
			if i > 0 && i <= len(args) && n >= 0 && n < 1<<32 {
				t.setMissing(args[i-1], uint32(n))
			}
		}
	},
	"end": func(t *translation, args []string) {
		at := t.idOf(args[0])
		ids := t.list("tokenizer.ggml.eos_token_ids")
		if ids == nil && t.before("tokenizer.ggml.eos_token_id") != nil {
			ids = []int64{t.integerKey("tokenizer.ggml.eos_token_id")}
		}
		if at < 0 || slices.Contains(ids, at) {
			return
		}
		var list made[int32]
		for _, n := range append(ids, at) {
			list = append(list, int32(n))
		}
		t.set("tokenizer.ggml.eos_token_ids", list)
	},
	"copy": func(t *translation, args []string) {
		if v := t.before(t.full(args[1])); v != nil {
			t.set(args[0], v)
		}
	},
	"cut": func(t *translation, _ []string) {
		if x := t.firstTensor("token_embd.weight"); x != nil && len(x.Shape) == 2 {
			t.cutVocabulary(x.Shape[0])
		}
	},
	"rows": func(t *translation, args []string) {
		a, b := t.firstTensor(args[0]), t.firstTensor(args[1])
		if a == nil || b == nil || len(a.Shape) != 2 || len(b.Shape) != 2 {
			return
		}
		n := min(a.Shape[0], b.Shape[0])
		for _, x := range []*tensorfs.Tensor{a, b} {
			if x.Shape[0] == n {
				continue
			}
			if x.Change != nil || !x.WholeRowGroups() || n%x.DType.RowGroup() != 0 {
				t.Absent = "" + tensorfs.Quote(x.Source) + " has more rows than the vocabulary, and they cannot be cut off"
				return
			}
			x.Data = tensorfs.Section(x.Data, 0, x.Data.Size()/x.Shape[0]*n)
			x.Shape = []int64{n, x.Shape[1]}
		}
		t.cutVocabulary(n)
	},
	"types": func(t *translation, args []string) {
		to, _ := strconv.ParseInt(args[1], 10, 32)
		t.beside("token_type", "tokens", func(v, token any) any {
			if s, _ := token.(string); matches(args[0], s) {
				return int32(to)
			}
			return v
		})
	},
	"charsmap": func(t *translation, args []string) {
		a, ok := t.before(t.full(args[0])).(*array)
		if !ok || a.elem != typeString || a.n > maxCharsmap {
			return
		}
		var letters strings.Builder
		for v := range a.Values() {
			s, _ := v.(string)
			letters.WriteString(s)
		}
		data, err := base64.StdEncoding.DecodeString(letters.String())
		if err != nil || int64(letters.Len()) != a.n {
			t.Absent = "the list of letters in " + t.full(args[0]) + " is not base64"
			return
		}
		t.set(args[0], made[uint8](data))
	},
	"unwindowed": func(t *translation, args []string) {
		a, ok := t.before(t.full(args[0])).(tensorfs.Array)
		if !ok || a.Len() == 0 {
			return
		}
		for v := range a.Values() {
			if v != false {
				return
			}
		}
		t.remove(args[0])
		t.remove(args[1])
	},
	"doubt": func(t *translation, args []string) {
		if v := t.before(t.full(args[0])); v == nil || fmt.Sprint(v) != args[1] {
			t.Notes = append(t.Notes, strings.Join(args[2:], " "))
		}
	},
	"note":     func(t *translation, args []string) { t.Notes = append(t.Notes, strings.Join(args, " ")) },
	"template": func(t *translation, args []string) { t.template(strings.Join(args, " ")) },
	"join":     func(t *translation, args []string) { t.join(args[0], args[1], args[2]) },
	"predicts": func(t *translation, args []string) { t.predicts(args[0], args[1]) },
	"predict": func(t *translation, args []string) {
		if t.next > 0 {
			t.rename(args[0], t.layer(0)+args[1])
		}
	},
	"stack": func(t *translation, args []string) {
		for i := range t.next {
			t.stack(t.layer(i)+args[0], t.layer(i)+args[1])
		}
	},
	"recurrent": func(t *translation, args []string) {
		heads := t.list(args[1])
		if t.next == 0 || int64(len(heads)) != t.base {
			return
		}
		var list made[bool]
		for _, n := range heads {
			list = append(list, n == 0)
		}
		t.setMissing(args[0], append(list, false))
	},
	"plus-one": func(t *translation, args []string) {
		for i := range t.next {
			for _, name := range args {
				if x := t.named(t.layer(i) + name); x != nil {
					t.PlusOne = append(t.PlusOne, x.Source)
				}
			}
		}
	},
	"plus-one-or-not": func(t *translation, args []string) {
		has := map[string]bool{}
		for i := range t.tensors {
			has[t.tensors[i].Source] = t.own(&t.tensors[i])
		}
		for i := range t.next {
			for _, name := range args {
				x := t.layer(i) + name
				for layer := t.base - 1; layer >= 0 && has[x]; layer-- {
					if like := fmt.Sprintf("blk.%d.%s", layer, name); has[like] {
						t.MayLackOne = append(t.MayLackOne, [2]string{x, like})
						break
					}
				}
			}
		}
		if len(t.MayLackOne) > 0 {
			t.Notes = append(t.Notes, "whether 1 was subtracted from the norms of the layers that predict further tokens is decided by their means, compared with the other layers' norms: no key of the file tells")
		}
	},
}

// maxCharsmap bounds a map of letters, in letters of base64. Published ones have 300,000.
const maxCharsmap = 1 << 24

// leave leaves out the tensors whose names match one of the patterns.
func (t *translation) leave(patterns ...string) {
	t.tensors = slices.DeleteFunc(t.tensors, func(x tensorfs.Tensor) bool {
		gone := t.own(&x) && slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, x.Source) })
		if gone {
			t.Left = append(t.Left, x.Source)
		}
		return gone
	})
}

// beside changes the values of a list of the vocabulary, each by the value of another list
// for the same token.
func (t *translation) beside(list, other string, change func(v, other any) any) {
	i, others := t.at("tokenizer.ggml."+list), t.at("tokenizer.ggml."+other)
	if i < 0 || others < 0 {
		return
	}
	a, ok := t.meta[i].Value.(*array)
	b, isArray := t.meta[others].Value.(*array)
	if !ok || !isArray || a.n > b.n {
		return
	}
	c := *a
	if before := a.change; before != nil {
		first := a.beside
		if first != b {
			return
		}
		c.change = func(v, other any) any { return change(before(v, other), other) }
	} else {
		c.change = change
	}
	c.beside = b
	t.meta[i].Value = &c
}

// cutVocabulary ends the lists of tokens after n of them.
func (t *translation) cutVocabulary(n int64) {
	for _, name := range []string{"tokens", "scores", "token_type"} {
		i := t.at("tokenizer.ggml." + name)
		if i < 0 {
			continue
		}
		if a, ok := t.meta[i].Value.(*array); ok && a.n > n {
			c := *a
			c.n = n
			t.meta[i].Value = &c
		}
	}
}

// template adds a chat template to a model that has none.
func (t *translation) template(text string) {
	const key = "tokenizer.chat_template"
	if t.at(key) < 0 {
		t.set(key, text)
		t.Notes = append(t.Notes, "the file has no chat template: the model family's template is used")
	}
}

// length returns a dimension of a tensor, 0 if it has none.
func (t *translation) length(name, dim string) int64 {
	x := t.firstTensor(name)
	if at, _ := strconv.Atoi(dim); x != nil && at < len(x.Shape) && x.Shape[at] < 1<<32 {
		return x.Shape[at]
	}
	return 0
}

// idOf returns the number of a token of the vocabulary, -1 if it has no such token.
func (t *translation) idOf(token string) int64 {
	a, ok := t.before("tokenizer.ggml.tokens").(*array)
	if !ok || a.elem != typeString {
		return -1
	}
	at := int64(0)
	for v := range a.Values() {
		if v == token {
			return at
		}
		at++
	}
	return -1
}
