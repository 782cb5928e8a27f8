package library

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Forms are the ways in which one library is shown to programs that know a layout of their
// own.
//
//	gguf       NAME.gguf, or NAME/NAME.gguf and NAME/mmproj-NAME.gguf: llama-server --models-dir
//	lmstudio   PUBLISHER/NAME/NAME.gguf, and mmproj-NAME.gguf beside it
//	hf         ORG/NAME, a directory as transformers loads it
//	mlx        ORG/NAME, a directory as mlx-lm loads it
var Forms = []string{"gguf", "lmstudio", "hf", "mlx"}

// Directories are the forms that show a model as a directory of whole models, which has the form's name.
var Directories = []string{"hf", "mlx"}

// Placed is a model in such a library.
type Placed struct {
	*Model
	// At is the path of its file, or of its directory in a form of Directories; Tower the path of its
	// vision tower's file, "" without one.
	At, Tower string
	// Reason explains why the form is missing; "" if it is not. It follows from the names
	// of files and from the class that config.json names, without opening the model.
	Reason string
}

// Place lays out the models of libraries in a form. seen keeps what was read of files for the
// next time.
func Place(form string, libraries []*Library, seen *Seen) (list []Placed) {
	taken := map[string]int{} // how many have a name
	type named struct {
		Placed
		publisher, name string
	}
	var all []named
	calls := map[string]bool{} // a library may be named twice
	for _, l := range libraries {
		for _, m := range l.Now().Models {
			if calls[m.Call] {
				continue
			}
			calls[m.Call] = true
			n := named{Placed: Placed{Model: m}}
			n.publisher, n.name = publisherOf(l, m, form)
			what := seen.modelFiles(m)
			if n.Reason = what.reason(form); n.Reason == "" && what.tower && !slices.Contains(Directories, form) {
				n.Tower = "mmproj-"
			}
			taken[n.publisher+"/"+n.name]++
			all = append(all, n)
		}
	}
	for i := range all {
		n := &all[i]
		if taken[n.publisher+"/"+n.name] > 1 {
			sum := sha256.Sum256([]byte(n.Call))
			n.name += "~" + hex.EncodeToString(sum[:3])
		}
		dir := path.Join(n.publisher, n.name)
		switch {
		case slices.Contains(Directories, form):
			n.At = dir
		case form == "gguf" && n.Tower == "":
			n.At = n.name + ggufSuffix
		default:
			n.At = path.Join(dir, n.name+ggufSuffix)
		}
		if n.Tower != "" {
			n.Tower = path.Join(dir, n.Tower+n.name+ggufSuffix)
		}
		list = append(list, n.Placed)
	}
	slices.SortFunc(list, func(a, b Placed) int { return strings.Compare(a.At, b.At) })
	return list
}

// publisherOf names a model in a form: flat names have no publisher.
func publisherOf(l *Library, m *Model, form string) (publisher, name string) {
	parts := strings.Split(m.Name, "/")
	if form == "gguf" {
		return "", strings.Join(parts, "--")
	}
	switch {
	case l.kind == ollamaStore:
		publisher = "ollama"
		if n, err := ollama.ParseName(strings.TrimPrefix(m.Call, ollama.Prefix)); err == nil && n.Namespace != "library" && len(parts) > 2 {
			publisher, parts = parts[0], parts[1:]
		}
	case len(parts) > 1 && (l.kind == hubCache || l.kind == lmStudio):
		publisher, parts = parts[0], parts[1:]
	default:
		publisher = "local"
	}
	return publisher, strings.Join(parts, "--")
}

// kinds of what a model is stored as.
const (
	isGGUF = iota
	isDirectory
	isTensors // only a safetensors file
	isBlobs   // tensors in a store of Ollama
)

// seenModel is what the names of a model's files say.
type seenModel struct {
	kind      int
	class     string // of config.json
	diffusers bool   // the class is one of diffusers
	tokenizer bool
	tower     bool
}

// Seen remembers what was read of the files of models, as long as they are the same.
type Seen struct {
	mu     sync.Mutex
	models map[string]seenEntry // by their paths
}

type seenEntry struct {
	identity string
	what     seenModel
}

// modelFiles looks at a model's files.
func (s *Seen) modelFiles(m *Model) seenModel {
	id, _, err := m.Identity()
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.models[m.Path()]; ok && err == nil && e.identity == id {
		return e.what
	}
	what := look(m)
	if s.models == nil {
		s.models = map[string]seenEntry{}
	}
	s.models[m.Path()] = seenEntry{id, what}
	return what
}

func look(m *Model) (x seenModel) {
	switch {
	case m.text:
		return lookAtManifest(m.files[0])
	case len(m.files) > 0 && strings.HasSuffix(m.files[0], ggufSuffix):
		entries, _ := readDirectory(filepath.Dir(m.files[0]), entry.isFile)
		tower, err := pick.Projector(files(entries))
		return seenModel{kind: isGGUF, tower: err == nil && tower != ""} // with several towers the choice is ambiguous
	case len(m.files) > 0:
		return seenModel{kind: isTensors}
	}
	x.kind = isDirectory
	entries, _ := readDirectory(m.Path(), func(e entry) bool { return e.isFile() })
	for _, e := range entries {
		x.tokenizer = x.tokenizer || isTokenizer(e.name)
	}
	for _, file := range m.tokenizerFiles() {
		x.tokenizer = x.tokenizer || isTokenizer(filepath.Base(file))
	}
	const most = 4 << 20
	text, err := source.ReadRegular(filepath.Join(m.Path(), config), most)
	if err == nil {
		x.class, x.diffusers = classOf(text)
	}
	s := supported(x.class)
	x.tower = s != nil && (s.Columns["vision"].Made || s.Columns["audio"].Made)
	return x
}

// classOf is the first class that a config.json names. Without one it is the first class
// that is described for its model_type, or that type itself; "" if both are missing.
func classOf(text []byte) (class string, isDiffusers bool) {
	var about struct {
		Architectures []string `json:"architectures"`
		ModelType     string   `json:"model_type"`
		Diffusers     string   `json:"_class_name"`
	}
	if json.Unmarshal(text, &about) != nil {
		return "", false
	}
	if about.Diffusers != "" {
		return about.Diffusers, true
	}
	if len(about.Architectures) > 0 && about.Architectures[0] != "" {
		return about.Architectures[0], false
	}
	is := func(c architectures.Class) bool { return c.ModelType == about.ModelType && supported(c.Name) != nil }
	if about.ModelType != "" {
		for _, s := range architectures.OfClass(is) {
			return s.Classes[slices.IndexFunc(s.Classes, is)].Name, false
		}
	}
	return about.ModelType, false
}

// isTokenizer reports whether tokens can be read from a file of that name.
func isTokenizer(name string) bool {
	return slices.Contains([]string{"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tekken.json", "spiece.model", "sentencepiece.bpe.model"}, name)
}

// lookAtManifest looks at the layers of a manifest.
func lookAtManifest(file string) seenModel {
	const most = 16 << 20
	text, err := source.ReadRegular(file, most)
	var about struct {
		Layers []struct {
			Type string `json:"mediaType"`
		} `json:"layers"`
	}
	x := seenModel{kind: isBlobs, tokenizer: true}
	if err != nil || json.Unmarshal(text, &about) != nil {
		return seenModel{kind: isGGUF} // opening it reports what is wrong
	}
	for _, l := range about.Layers {
		switch l.Type {
		case "application/vnd.ollama.image.model":
			x.kind = isGGUF
		case "application/vnd.ollama.image.projector":
			x.tower = true
		}
	}
	return x
}

// supported finds a class in the table of conversions, nil if it is not there.
func supported(class string) *architectures.Supported {
	all := architectures.Support()
	i, ok := slices.BinarySearchFunc(all, class, func(s architectures.Supported, class string) int { return strings.Compare(s.Class, class) })
	if !ok {
		return nil
	}
	return &all[i]
}

// reason explains why a model is not in a form, "" if it may be.
func (x seenModel) reason(form string) string {
	switch {
	case x.kind == isTensors:
		return "a single safetensors file has no config.json, which describes the model"
	case x.kind != isDirectory || slices.Contains(Directories, form):
		return ""
	case x.diffusers && images.HasFile(x.class):
		return ""
	case x.diffusers:
		return "no rules for a GGUF file of diffusers' " + x.class + " are known"
	case x.class == "":
		return "its config.json names no class and no model_type"
	case !x.tokenizer:
		return "it has no tokenizer"
	}
	switch s := supported(x.class); {
	case s == nil:
		return "no description is written of " + x.class
	case !s.Columns["gguf"].Made:
		return x.class + ": " + s.Columns["gguf"].Reason
	}
	return ""
}
