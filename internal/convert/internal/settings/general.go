package settings

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

func nothing(call) any { return nil }

// generalMeanings are about the model as a whole.
var generalMeanings = map[string]meaning{
	// false for a model whose tokens see those after them.
	"noncausal": {toGGUF: func(c call) any {
		if causal, ok := c.cfg.Flag("is_causal"); ok && !causal {
			if window := c.count("sliding_window"); window > 0 {
				c.notes = append(c.notes, fmt.Sprintf("is_causal is false: transformers' windows of %d tokens then reach to both sides, and llama.cpp sees all that follows", window))
			}
			return false
		}
		return nil
	}},
	// Tokens see only those before them, or config.json tells transformers' class otherwise. Its windows then reach to both sides,
	// and llama.cpp's do not. With an argument the class cannot be told.
	"causal": {fromGGUF: check(func(c call) {
		if c.raw("causal") != false {
			return
		}
		if len(c.args) > 0 || !architectures.ReadsOf([]string{c.modelType()}, "").HasType(c.modelType()) {
			c.refuse("%s is false, which config.json of %s cannot say", c.full("causal"), c.modelType())
		}
		if c.count("sliding_window") > 0 {
			c.refuse("%s is false, and %s is %d: a window of %s then reaches to both sides", c.full("causal"), c.full("sliding_window"), c.count("sliding_window"), c.modelType())
		}
		c.bidirectional = true
	})},
	"sees_all": {fromGGUF: check(func(c call) {
		class := c.arch.Written.Name
		if c.raw("causal") != false {
			c.refuse("%s is not false, as it is for %s", c.full("causal"), class)
		}
		if c.arch.Word("rope") == "" && c.tensor("position_embedding.weight") == nil {
			c.refuse("the file has no embedding of positions, as %s has", class)
		}
	})},
	// Positions weigh as in the class, whose bias is 8; with an argument the file has to say so.
	"alibi": {fromGGUF: check(func(c call) {
		v, key := c.keyOf("alibi_bias")
		if v := c.real(key, v, math.Inf(-1)); v != nil && double(v) != 8 {
			c.refuse("%s is %s, and %s has 8", key, Shown(v), c.modelType())
		}
		if v == nil && len(c.args) > 0 {
			c.refuse("the file has no %s, and %s has 8", c.full("alibi_bias"), c.modelType())
		}
	})},
	// Whether the directory is for mlx-lm.
	"mlx": {fromGGUF: func(c call) any { return c.given.MLX }},
	// The bias by a tensor of slopes, without it the second argument.
	"slopes_bias": {toGGUF: func(c call) any {
		name, _ := c.arg(0).(string)
		if c.given.Tensor == nil || c.given.Tensor(name) == nil {
			return c.arg(1)
		}
		bias, err := layout.SlopesBias(c.given.Tensor(name), c.count("n_heads"))
		if err != nil {
			c.fail(err)
		}
		return bias
	}},
	// Whether the embedding is the last matrix too.
	"tied": {fromGGUF: func(c call) any { return c.tied() }},
	// The same, where a copy of the embedding counts too: T5 scales what comes before it.
	"tied_or_same": {fromGGUF: func(c call) any {
		same, err := layout.Same(c.tensor("output.weight"), c.tensor(layout.Embedding+".weight"))
		if err != nil {
			c.fail(err)
		}
		return c.tied() || same
	}},
	"untied": {fromGGUF: check(func(c call) {
		if c.tied() {
			c.refuse("mlx-lm's %s has a matrix for the output, and the file has none", c.modelType())
		}
	})},
	"headless": {fromGGUF: check(func(c call) {
		if !c.tied() {
			c.refuse("mlx-lm's %s takes the embedding for the last matrix, and the file has another", c.modelType())
		}
	})},
	"nothing": {nothing, nothing},
	// A condition, and why nothing is made unless it holds.
	"must": {check(must), check(must)},
	// A condition in which a GGUF file computes something else, and what a user should know of it.
	"note": {toGGUF: check(func(c call) {
		if c.args[0].HoldsIn(&c.env) {
			c.notes = append(c.notes, fmt.Sprintf("config.json: %s", c.arg(1)))
		}
	})},
	// What a user should know of the file in any case.
	"tell": {toGGUF: check(func(c call) {
		text, _ := c.arg(0).(string)
		c.notes = append(c.notes, text)
	})},
	// The answer is one of two words, although the class's models answer with text.
	"is_reranker": {toGGUF: func(c call) any { return c.isReranker() }},
	"reranker": {toGGUF: check(func(c call) {
		if c.isReranker() {
			c.refuse("the model is a reranker, which cannot be converted to GGUF")
		}
	})},
}

// isReranker reports whether its README.md or its name has one of the names in the arguments, as the converter
// tells.
func (c call) isReranker() bool {
	s := c.Model
	text, err := ReadText(s.m, "README.md", MaxText)
	if err != nil {
		s.fail(err)
	}
	readme := strings.ToLower(string(text))
	name := strings.ToLower(directoryName(s.m.Path) + "\n" + s.cfg.Word("_name_or_path") + "\n" + s.cfg.Word("model_type"))
	return slices.ContainsFunc(c.args, func(e *architectures.Expr) bool {
		kind := fmt.Sprint(c.value(e))
		return strings.Contains(readme, "# "+kind) || strings.Contains(name, kind)
	})
}

func (s *Model) tied() bool { return s.tensor("output.weight") == nil }

// general returns the keys that every architecture has.
func (s *Model) general() []tensorfs.Meta {
	meta := []tensorfs.Meta{
		{Key: "general.architecture", Value: s.arch.GGUF},
		{Key: "general.type", Value: "model"},
	}
	if name := modelName(s.m, s.cfg, s.arch.GGUF); name != "" {
		meta = append(meta, tensorfs.Meta{Key: "general.name", Value: name})
	}
	meta = append(meta,
		tensorfs.Meta{Key: "general.quantization_version", Value: uint32(2)},
		tensorfs.Meta{Key: "general.file_type", Value: s.given.FileType})
	return append(meta, s.samplingKeys()...)
}

// maxName bounds a model's name.
const maxName = 200

// modelName returns the model's name as the converter makes it: of the name that
// config.json has for the model, or of its directory.
func modelName(m *tensorfs.Model, cfg Fields, arch string) string {
	id, _ := cfg.Value("_name_or_path").(string)
	if strings.Count(id, "/") > 1 || strings.HasPrefix(id, ".") || strings.HasPrefix(id, "/") {
		id = "" // of some machine's directory
	}
	name := title(path.Base("/" + id))
	if name == "" || len(name) > maxName || tensorfs.Printable(name) != name {
		name = title(directoryName(m.Path))
	}
	if len(name) > maxName || tensorfs.Printable(name) != name {
		return ""
	}
	// llama.cpp treats special tokens of models with such names differently, and aborts if
	// they are missing.
	const known = tokenizer.NameOfSpaces
	if architectures.HasTrait(arch, architectures.SpacesAfter) {
		return name
	}
	for i := 0; i+len(known) <= len(name); i++ {
		if digit := i + len(known) - 1; strings.EqualFold(name[i:digit+1], known) {
			name = name[:digit] + " " + name[digit:]
		}
	}
	return name
}

// directoryName returns the last part of the name of a model's directory.
func directoryName(p string) string {
	if scheme, rest, ok := strings.Cut(p, ":"); ok && !strings.Contains(scheme, "/") { // elsewhere
		ends := "@:" // of hf:ORG/NAME
		if strings.HasPrefix(rest, "//") {
			ends = "?"
		}
		if i := strings.IndexAny(rest, ends); i >= 0 {
			rest = rest[:i]
		}
		p = rest
	}
	if path.Ext(p) == ".safetensors" {
		p = path.Dir(p)
	}
	parts := strings.Split(path.Clean("/"+p), "/")
	for _, part := range parts {
		// A folder of the Hugging Face cache: models--ORG--NAME/snapshots/REVISION.
		if rest, ok := strings.CutPrefix(part, "models--"); ok {
			if _, name, ok := strings.Cut(rest, "--"); ok {
				return name
			}
		}
	}
	return parts[len(parts)-1]
}

// title returns a name with blanks for hyphens and with capitals, except in words
// that begin with a digit or that have capitals already.
func title(name string) string {
	words := strings.Fields(strings.ReplaceAll(name, "-", " "))
	for i, w := range words {
		if w == strings.ToLower(w) && w != strings.ToUpper(w) && !isVersion(w) {
			words[i] = capitals(w)
		}
	}
	return strings.Trim(strings.Join(words, " "), "/")
}

// isVersion reports whether a word is a number or a version: 7b, v2, v0.3.
func isVersion(w string) bool {
	if w[0] >= '0' && w[0] <= '9' {
		return true
	}
	rest, ok := strings.CutPrefix(w, "v")
	for part := range strings.SplitSeq(rest, ".") {
		ok = ok && part != "" && strings.Trim(part, "0123456789") == ""
	}
	return ok
}

// capitals makes each letter a capital that does not follow another one.
func capitals(w string) string {
	letter := false
	return strings.Map(func(r rune) rune {
		first := !letter
		if letter = unicode.IsLetter(r); letter && first {
			return unicode.ToTitle(r)
		}
		return r
	}, w)
}

// must refuses a model unless a condition holds.
func must(c call) {
	if !c.args[0].HoldsIn(&c.env) {
		c.refuse("%s", c.arg(1))
	}
}
