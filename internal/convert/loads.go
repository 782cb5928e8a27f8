package convert

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
)

// header is what llama.cpp sees of a GGUF file before it reads numbers.
type header struct {
	keys    map[string]any
	tensors []gguf.Stored
	arch    string
	layers  int64

	tokens tensorfs.Array // the vocabulary, if all that is known of it without reading it is as it has to be
}

// NotLoaded begins a note why llama.cpp does not load a file.
const NotLoaded = "llama.cpp does not load it: "

// noteLlama explains why llama.cpp does not load a GGUF file with these keys and tensors,
// one note for each known reason, and lists what it ignores.
func (f *Files) noteLlama(meta []tensorfs.Meta, tensors []gguf.Stored) {
	sizes := sizesOf(meta)
	h := &header{keys: settings.ByKey(meta), tensors: tensors, arch: sizes.Architecture, layers: sizes.Layers}
	if why := h.kind(); why != "" { // what it would need is not known
		f.Notes = append(f.Notes, NotLoaded+why)
		return
	}
	older := h.older()
	for _, c := range []struct {
		check     func(*header) string
		described bool // it asks the description of the architecture
	}{
		{(*header).types, false}, {(*header).names, false}, {(*header).lacksKeys, true}, {(*header).keyTypes, false}, {(*header).lists, false}, {(*header).ropeScaling, false},
		{(*header).vocabulary, false}, {(*header).experts, false}, {(*header).rotated, false}, {(*header).strangers, true}, {(*header).lacksTensors, true}, {(*header).shapes, true},
	} {
		if older && c.described {
			continue
		}
		if why := c.check(h); why != "" {
			f.Notes = append(f.Notes, NotLoaded+why)
		}
		if h.tokens != nil && f.repeated == nil {
			f.repeated, f.repeatedAt = sync.OnceValue(func() string { return repeatedToken(h.tokens) }), len(f.Notes)
		}
	}
	f.Notes = append(f.Notes, h.unread()...)
}

// older reports whether the file has keys and tensors of a layout that llama.cpp loads and no
// description has: k and v of all heads of DeepSeek's as one tensor.
func (h *header) older() bool {
	joined := func(t gguf.Stored) bool { return t.Name == "blk.0.attn_kv_b.weight" }
	return architectures.HasTrait(h.arch, architectures.JoinedKV) && h.keys[h.arch+".attention.value_length_mla"] == nil && slices.ContainsFunc(h.tensors, joined)
}

// unread lists what llama.cpp ignores and other programs read, and what it reads but cannot
// compute.
func (h *header) unread() (notes []string) {
	var keys []string
	for _, f := range architectures.AllFacts() {
		for _, name := range f.Unread {
			if key := h.arch + "." + name; h.keys[key] != nil && h.key(&f) == nil {
				keys = append(keys, key)
			}
		}
	}
	if key := "tokenizer.ggml.eos_token_ids"; lengthOf(h.keys[key]) > 1 {
		keys = append(keys, key)
	}
	if len(keys) > 0 {
		notes = append(notes, "llama.cpp does not read "+strings.Join(keys, ", "))
	}
	if h.tokenless() {
		notes = append(notes, NoTokenizer+": llama.cpp loads the file, and its programs abort when they are given a text or print one")
	}
	if pre, _ := h.keys["tokenizer.ggml.pre"].(string); pre == "" && h.keys["tokenizer.ggml.model"] == tokenizer.BytesModel {
		notes = append(notes, "the file does not say how a text is cut before its pairs are merged (tokenizer.ggml.pre), so llama.cpp takes its default")
	}
	if pre, named := h.keys["tokenizer.ggml.pre"].(string); (pre == "" || pre == "default") && h.keys["tokenizer.ggml.model"] == tokenizer.BytesModel && h.token(128009) == "<|eot_id|>" {
		to := "llama-bpe"
		if !named {
			to = "str:" + to // a new key
		}
		notes = append(notes, "the vocabulary is Llama 3's, which splits texts differently: use --set tokenizer.ggml.pre="+to)
	}
	if i := slices.IndexFunc(h.tensors, func(t gguf.Stored) bool { return len(t.Shape) == 1 && t.DType != tensorfs.F32 }); i >= 0 {
		notes = append(notes, fmt.Sprintf("llama.cpp stops on a CPU, where it computes with vectors of F32 only: %s is %s", tensorfs.Quote(h.tensors[i].Name), h.tensors[i].DType))
	}
	return notes
}

// token returns a token of the vocabulary, "" if it has no such token.
func (h *header) token(at int) string {
	tokens, _ := h.keys["tokenizer.ggml.tokens"].(tensorfs.Array)
	if tokens == nil || tokens.Len() <= at {
		return ""
	}
	for v := range tokens.Values() {
		if at == 0 {
			s, _ := v.(string)
			return s
		}
		at--
	}
	return ""
}

// kind names the kind of a file that is not a model of one of llama.cpp's architectures.
func (h *header) kind() string {
	kind, _ := h.keys["general.type"].(string)
	switch {
	case kind == "imatrix":
		return "it is an importance matrix (--imatrix takes it)"
	case kind == "adapter":
		return "it is an adapter, to be loaded beside its base (--lora)"
	case h.arch == "clip" || kind == "mmproj":
		return "it is a tower, to be loaded beside its language model (--mmproj)"
	case h.arch == "":
		return "it has no general.architecture"
	case !architectures.Loads(h.arch):
		return fmt.Sprintf("it has no architecture %s", tensorfs.Quote(h.arch))
	}
	return ""
}

// types names the first tensor of a type that ggml does not have.
func (h *header) types() string {
	for _, t := range h.tensors {
		switch {
		case t.DType == tensorfs.Unknown:
			return fmt.Sprintf("the type of the tensor %s is not one of ggml's", tensorfs.Quote(t.Name))
		case !gguf.LlamaHas(t.DType):
			return fmt.Sprintf("ggml has no type %s, which the tensor %s has", t.DType, tensorfs.Quote(t.Name))
		}
	}
	return ""
}

// names finds what ggml's own tensors have no room for.
func (h *header) names() string {
	for _, t := range h.tensors {
		switch {
		case len(t.Name) > gguf.MaxName:
			return fmt.Sprintf("the name %s has %d bytes, and ggml takes at most %d", tensorfs.Quote(t.Name), len(t.Name), gguf.MaxName)
		case len(t.Shape) > gguf.MaxDimensions:
			return fmt.Sprintf("the tensor %s has %d dimensions, and ggml takes at most %d", tensorfs.Quote(t.Name), len(t.Shape), gguf.MaxDimensions)
		}
	}
	return ""
}

// key returns the value of a fact's key that llama.cpp reads.
func (h *header) key(f *architectures.Fact) any {
	_, v := h.keyOf(f)
	return v
}

// keyOf returns the first key of a fact that llama.cpp reads and the file has, and its value;
// the value is nil without one.
func (h *header) keyOf(f *architectures.Fact) (key string, value any) {
	for _, name := range f.Keys {
		if slices.Contains(f.Unread, name) {
			continue
		}
		key := settings.FullKey(h.arch, name)
		if v, ok := h.keys[key]; ok {
			return key, v
		}
	}
	return "", nil
}

// blocks are the descriptions of the architecture that may fit the file.
func (h *header) blocks() []*architectures.Settings { return architectures.OfGGUF(h.arch) }

// lacksKeys names a key that llama.cpp requires of every model of the architecture.
func (h *header) lacksKeys() string {
	var lacks []string
	blocks := h.blocks()
	for _, b := range blocks {
		for _, need := range b.Words("needs") {
			f := architectures.FactOf(need)
			all := !slices.ContainsFunc(blocks, func(b *architectures.Settings) bool { return !b.Has("needs", need) })
			if name := h.arch + "." + f.Keys[0]; all && h.key(f) == nil && !slices.Contains(lacks, name) {
				lacks = append(lacks, name)
			}
		}
	}
	if len(lacks) == 0 {
		return ""
	}
	return "it lacks the key " + strings.Join(lacks, ", ")
}

// typeNames are llama.cpp's names of GGUF's types of values, by Go type.
var typeNames = map[reflect.Kind]string{
	reflect.Uint8: "u8", reflect.Int8: "i8", reflect.Uint16: "u16", reflect.Int16: "i16", reflect.Uint32: "u32", reflect.Int32: "i32",
	reflect.Uint64: "u64", reflect.Int64: "i64", reflect.Float32: "f32", reflect.Float64: "f64", reflect.Bool: "bool", reflect.String: "str",
}

// factTypes are the types that llama.cpp takes for the value of a fact, and for a value of a list.
var factTypes = map[architectures.Kind][2]string{
	architectures.Index: {"", "i32"}, architectures.Size: {"u32", "u32 i32"}, architectures.Count: {"u32", "u32 i32"}, architectures.Option: {"u32", "u32 i32"},
	architectures.Real: {"f32", "f32"}, architectures.Bound: {"f32", "f32"}, architectures.Text: {"str", "str"}, architectures.Flag: {"bool", "bool u32 i32"},
}

// otherTypes are the types that llama.cpp takes for keys without a fact; "[]" before one: of a list.
var otherTypes = map[string]string{
	"general.name": "str", "general.file_type": "u32", "split.count": "u16",
	"tokenizer.ggml.pre": "str", "tokenizer.ggml.tokens": "[]str", "tokenizer.ggml.scores": "[]f32", "tokenizer.ggml.token_type": "[]i32", "tokenizer.ggml.merges": "[]str",
	"tokenizer.ggml.add_bos_token": "bool", "tokenizer.ggml.add_eos_token": "bool", "tokenizer.ggml.add_sep_token": "bool",
	"tokenizer.ggml.add_space_prefix": "bool", "tokenizer.ggml.remove_extra_whitespaces": "bool",
}

func isFlag(f *architectures.Fact) bool { return f.Kind == architectures.Flag }

// keyTypes names a key whose value is of another type than llama.cpp takes: it converts none.
func (h *header) keyTypes() string {
	for _, key := range slices.Sorted(maps.Keys(otherTypes)) {
		want, isList := strings.CutPrefix(otherTypes[key], "[]")
		if v := h.keys[key]; v != nil && (lengthOf(v) >= 0) != isList {
			return fmt.Sprintf("%s is %s, and it takes %s", key, typeOf(v), strings.Replace(otherTypes[key], "[]", "a list of ", 1))
		}
		if why := wrongType(key, h.keys[key], want, want); why != "" {
			return why
		}
	}
	for _, b := range h.blocks() {
		for _, s := range b.Keys {
			if s.Fact == nil {
				continue
			}
			key, v := h.keyOf(s.Fact)
			var types [2]string
			for _, f := range architectures.FactsOfKey(strings.TrimPrefix(key, h.arch+".")) {
				for i, more := range factTypes[f.Kind] {
					types[i] += more + " "
				}
			}
			if why := wrongType(key, v, types[0], types[1]); why != "" {
				return why
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(h.keys)) {
		v := h.keys[key]
		if strings.HasPrefix(key, "tokenizer.ggml.") && strings.HasSuffix(key, "_token_id") {
			if why := wrongType(key, v, "u32", ""); why != "" {
				return why
			}
		}
		if typeOf(v) == listOfLists {
			return fmt.Sprintf("%s is %s", key, listOfLists)
		}
	}
	return ""
}

// wrongType describes a value, or the first one of a list, that has none of the types.
func wrongType(key string, v any, types, listed string) string {
	is, allowed := typeOf(v), types
	if of, isList := strings.CutPrefix(is, "a list of "); isList {
		is, allowed = of, listed
	}
	if is == "" || slices.Contains(strings.Fields(allowed), is) {
		return ""
	}
	return fmt.Sprintf("%s is %s, and it takes %s", key, typeOf(v), strings.Fields(types)[0])
}

const listOfLists = "a list of lists"

// typeOf names the type of a value, "" for no value and for a list without one.
func typeOf(v any) string {
	switch a, isArray := v.(tensorfs.Array); {
	case isArray:
		for first := range a.Values() {
			if lengthOf(first) >= 0 {
				return listOfLists
			}
			return "a list of " + typeOf(first)
		}
		return ""
	case v == nil:
		return ""
	}
	r := reflect.TypeOf(v)
	if r.Kind() == reflect.Slice {
		return "a list of " + typeNames[r.Elem().Kind()]
	}
	return typeNames[r.Kind()]
}

// ropeWays are the ways to scale rotary embeddings that llama.cpp has.
var ropeWays = []string{"none", "linear", "yarn", "longrope"}

// ropeScaling finds a way to scale rotary embeddings that llama.cpp does not have.
func (h *header) ropeScaling() string {
	key, v := h.keyOf(architectures.FactOf("rope_scaling_type"))
	if way, ok := v.(string); ok && !slices.Contains(ropeWays, way) {
		return fmt.Sprintf("%s is %s, and it has %s", key, tensorfs.Quote(way), strings.Join(ropeWays, ", "))
	}
	return ""
}

// next is how many of the layers only predict further tokens; some lists leave them out.
func (h *header) next() int64 {
	n, _ := h.key(architectures.FactOf("n_nextn_layers")).(uint32)
	return int64(n)
}

// lists finds a list that has not as many values as llama.cpp reads.
func (h *header) lists() string {
	layers := h.layers
	for _, f := range architectures.AllFacts() {
		for _, name := range f.Keys {
			n := lengthOf(h.keys[h.arch+"."+name])
			switch {
			case n < 0 || slices.Contains(f.Unread, name):
			case name == "rope.dimension_sections" && n != 4:
				return fmt.Sprintf("%s.%s has %d values, and it reads 4", h.arch, name, n)
			case !f.List && f.Kind != architectures.Text && n != layers && (n != layers-h.next() || !slices.ContainsFunc(architectures.FactsOfKey(name), isFlag)):
				return fmt.Sprintf("%s.%s has %d values, and there are %d layers", h.arch, name, n, layers)
			}
		}
	}
	return ""
}

// tokenless reports whether the file declares that it has no tokenizer.
func (h *header) tokenless() bool {
	model := h.keys["tokenizer.ggml.model"]
	return model == "none" || model == "no_vocab"
}

// vocabulary finds what a vocabulary lacks.
func (h *header) vocabulary() string {
	model, _ := h.keys["tokenizer.ggml.model"].(string)
	tokens := lengthOf(h.keys["tokenizer.ggml.tokens"])
	switch {
	case model == "":
		return noTokens + "izer (tokenizer.ggml.model)"
	case !slices.Contains(tokenizer.LlamaModels, model):
		return fmt.Sprintf("it has no tokenizer of the kind %s (tokenizer.ggml.model)", tensorfs.Quote(model))
	case h.tokenless():
		return ""
	case tokens < 0:
		return noTokens + "s (tokenizer.ggml.tokens)"
	}
	for _, name := range []string{"scores", "token_type"} {
		if n := lengthOf(h.keys["tokenizer.ggml."+name]); n >= 0 && n < tokens {
			return fmt.Sprintf("tokenizer.ggml.%s has %d values, and there are %d tokens", name, n, tokens)
		}
	}
	if pre, ok := h.keys["tokenizer.ggml.pre"].(string); ok && model == tokenizer.BytesModel && !tokenizer.LlamaCuts(pre) {
		return fmt.Sprintf("tokenizer.ggml.pre is %s, a way to cut texts that it does not have", tensorfs.Quote(pre))
	}
	if model == tokenizer.BytesModel && lengthOf(h.keys["tokenizer.ggml.merges"]) < 0 {
		return "it has no merges (tokenizer.ggml.merges)"
	}
	for _, t := range h.tensors {
		if (t.Name == "token_embd.weight" || t.Name == "output.weight") && len(t.Shape) == 2 && t.Shape[0] != tokens {
			return fmt.Sprintf("there are %d tokens, and %s has %d rows", tokens, t.Name, t.Shape[0])
		}
	}
	h.tokens, _ = h.keys["tokenizer.ggml.tokens"].(tensorfs.Array)
	return ""
}

// lengthOf returns how many values a list of metadata has, -1 for anything else.
func lengthOf(v any) int64 {
	if a, ok := v.(tensorfs.Array); ok {
		return int64(a.Len())
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Slice { // of a header that is written here
		return int64(r.Len())
	}
	return -1
}

// sides are the suffixes, after the module's name, of tensors with factors of a tensor's
// numbers, and of biases.
var sides = []string{".weight", ".bias", ".scale", ".input_scale"}

// strangers names a tensor that the architecture does not have.
func (h *header) strangers() string {
	a := architectures.Find(h.arch)
	if a == nil {
		return ""
	}
	has := map[string]bool{}
	for _, t := range slices.Concat(a.First, a.Last) {
		has[a.InGGUF(&t, "")] = true
	}
	for _, t := range slices.Concat(a.Layer, a.Next) {
		has[a.InGGUF(&t, "0.")] = true
	}
	after, _ := architectures.Trait(h.arch, architectures.After)
	for name := range strings.SplitSeq(after, ",") {
		has[name] = true
	}
	for _, t := range h.tensors {
		name := layerZero(t.Name)
		for _, side := range sides {
			name = strings.TrimSuffix(name, side)
		}
		if !has[name] && !has[layerZero(t.Name)] && !oneExpert().MatchString(name) {
			return fmt.Sprintf("the tensor %s has no place in a model of the architecture %s", tensorfs.Quote(t.Name), h.arch)
		}
	}
	return ""
}

// oneExpert is what older files call one expert of a layer.
var oneExpert = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^blk\.0\.ffn_(gate|up|down)\.\d+$`) })

// layerZero replaces the number of a layer in a tensor's name by 0.
func layerZero(name string) string {
	for _, blocks := range []string{"blk.", "enc.blk.", "dec.blk."} {
		if rest, ok := strings.CutPrefix(name, blocks); ok {
			number := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
			return blocks + "0" + rest[number:]
		}
	}
	return name
}

// lacksTensors names a tensor that every model of the architecture has.
func (h *header) lacksTensors() string {
	a := architectures.Find(h.arch)
	if a == nil {
		return ""
	}
	has := map[string]bool{}
	for _, t := range h.tensors {
		has[t.Name] = true
	}
	lacks := func(list []architectures.Tensor, layer string) string {
		for i := range list {
			t := &list[i]
			for _, param := range t.Params()[:2] {
				name := t.GGUFPart(a.InGGUF(t, layer), param)
				if t.GGUF != "" && !t.Whole && t.When == nil && t.Needs(param, architectures.FromGGUF) == architectures.Always && !has[name] {
					return name
				}
			}
		}
		return ""
	}
	missing := lacks(a.First, "")
	if missing == "" {
		missing = lacks(a.Last, "")
	}
	if missing == "" {
		missing = lacks(a.Layer, "0.")
	}
	if missing != "" {
		return "it lacks the tensor " + missing
	}
	return h.layersLack()
}

// layersLack finds a layer that has no tensors, or tensors of a layer beyond the last one.
func (h *header) layersLack() string {
	found := map[int64]bool{}
	for _, t := range h.tensors {
		rest, ok := strings.CutPrefix(t.Name, "blk.")
		if number, _, cut := strings.Cut(rest, "."); ok && cut {
			n, err := strconv.ParseInt(number, 10, 32)
			if err == nil && n >= h.layers {
				return fmt.Sprintf("the tensor %s is of a layer beyond the %d that there are", tensorfs.Quote(t.Name), h.layers)
			}
			found[n] = err == nil
		}
	}
	layers := h.layers - h.next()
	if stack, ok := h.key(architectures.FactOf("stack_layers")).(uint32); ok { // two stacks, whose layers are used again
		layers = min(layers, 2*int64(stack))
	}
	for n := range layers {
		if len(found) > 0 && !found[n] {
			return fmt.Sprintf("there are %d layers, and no tensor of layer %d", h.layers, n)
		}
	}
	return ""
}
