package whole

import (
	"math"
	"path"
	"strings"
	"unicode"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
)

// Sampling are rows: how the author of a model wants tokens to be chosen, in
// generation_config.json and in GGUF, after general.sampling.: i32, or f32 of the range
// that generation_config.json takes.
var Sampling = []struct {
	Field, Key  string
	Whole       bool
	Least, Most float64
}{
	{"temperature", "temp", false, 0, math.MaxFloat32},
	{"top_k", "top_k", true, 0, math.MaxInt32},
	{"top_p", "top_p", false, math.SmallestNonzeroFloat32, 1},
	{"min_p", "min_p", false, 0, 1},
	{"repetition_penalty", "penalty_repeat", false, math.SmallestNonzeroFloat32, math.MaxFloat32},
}

// general returns the keys that every architecture has.
func general(m *tensorfs.Model, cfg settings, arch string, f facts) []tensorfs.Meta {
	meta := []tensorfs.Meta{
		{Key: "general.architecture", Value: arch},
		{Key: "general.type", Value: "model"},
	}
	if name := modelName(m, cfg, arch); name != "" {
		meta = append(meta, tensorfs.Meta{Key: "general.name", Value: name})
	}
	meta = append(meta,
		tensorfs.Meta{Key: "general.quantization_version", Value: uint32(2)},
		tensorfs.Meta{Key: "general.file_type", Value: f.fileType})
	return append(meta, samplingKeys(m)...)
}

// samplingKeys returns what the model's makers want to be drawn with. They are
// hints: one that cannot be read is left out.
func samplingKeys(m *tensorfs.Model) []tensorfs.Meta {
	generation, err := readSettings(m, "generation_config.json")
	if err != nil {
		return nil
	}
	var meta []tensorfs.Meta
	for _, s := range Sampling {
		key := "general.sampling." + s.Key
		if s.Whole {
			if n, ok := generation.integer(s.Field); ok && n == int64(int32(n)) {
				meta = append(meta, tensorfs.Meta{Key: key, Value: int32(n)})
			}
			continue
		}
		if x, ok := generation.number(s.Field); ok {
			if v, _, ok := fits(architectures.Real, x); ok {
				meta = append(meta, tensorfs.Meta{Key: key, Value: v})
			}
		}
	}
	return meta
}

// maxName bounds a model's name.
const maxName = 200

// modelName returns the model's name as the converter makes it: of the name that
// config.json has for the model, or of its directory.
func modelName(m *tensorfs.Model, cfg settings, arch string) string {
	id, _ := cfg.value("_name_or_path").(string)
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
	// llama.cpp treats special tokens of what is called like this in another way, and
	// stops where they are missing.
	for i := 0; arch != "phi3" && i+len("phi3") <= len(name); i++ {
		if strings.EqualFold(name[i:i+len("phi3")], "phi3") {
			name = name[:i+len("phi")] + " " + name[i+len("phi"):]
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
