package convert

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/imatrix"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
)

// Options choose between files that a model could have. The zero value is the
// default.
type Options struct {
	// Quantise selects the types of the weights in the GGUF file, as llama-quantize names
	// and chooses them. If nil, each keeps its own, or gets the smallest that holds it
	// exactly. Tensors that llama.cpp computes only with F32 are F32 in either case, and
	// quantised tensors keep their type unless Requantise is set.
	Quantise *preset.Options

	// Importance weighs the columns of weights for quantising, nil means equally.
	// Quantise.Importance follows from it.
	Importance *imatrix.Matrix

	// Dequantise gives hf/ and mlx/ of a model that another program packed plain numbers.
	Dequantise bool

	// Changes are made to the keys of the GGUF file, and to the chat template in hf/ and mlx/.
	Changes []Change

	// MLX selects how weights in mlx/ are quantised; nil leaves them unchanged.
	MLX *MLX

	sizing *sizing // receives the facts that sizes follow from; may be nil

	// Projector finds the file of the vision tower that belongs to a GGUF model, opened as
	// a model, for hf/. It returns nil without a tower; the note names the chosen file,
	// and the error explains why none was chosen, [ErrNoTower] if none is wanted. A nil
	// Projector finds none: towers of Ollama models are found without it.
	Projector func(m *tensorfs.Model) (tower *tensorfs.Model, note string, err error)
}

// Rewrites reports whether the file of a model that is stored as GGUF is written with
// another content, so that its size changes.
func (o *Options) Rewrites() bool { return o.Quantise != nil || len(o.Changes) > 0 }

// ErrNoTower is the error that a model is to have no vision tower.
var ErrNoTower = errors.New("no vision tower is wanted")

// Files are all files of one kind that a model gives, or the reason why it gives
// none.
type Files struct {
	Reason  string // why the directory is empty; "" if it is not
	Err     error  // of the Reason, if it has one
	List    []File
	Tensors int
	Types   map[string]int // how many tensors have a type
	Exact   bool           // all numbers equal the model's, and for a merge mergekit's
	Notes   []string       // what a user should know; AllNotes may have another one
	Mix     []string       // of Notes, those about the types of another file
	// BitsPerWeight is of weights that were quantised here, 0 without.
	BitsPerWeight float64
	weights       int64 // numbers of the tensors, of GGUF files that are made
	// Left explains, by name, why usual files are missing, and parts of the model, such as
	// [Vision].
	Left map[string]string

	repeated   func() string // a note about equal tokens, "" without them; nil if there is nothing to compare
	repeatedAt int           // its place in Notes
}

// AllNotes returns Notes, with one about equal tokens: for that, it reads the whole vocabulary.
func (f *Files) AllNotes() []string {
	if f.repeated == nil || f.repeated() == "" {
		return f.Notes
	}
	return slices.Insert(slices.Clone(f.Notes), f.repeatedAt, f.repeated())
}

// NoteMerge notes where a merge is not mergekit's in every bit.
func (f *Files) NoteMerge(m *tensorfs.Model) {
	if m.Merge != nil {
		f.Exact = f.Exact && len(m.Merge.Differs) == 0
		f.Notes = slices.Concat(f.Notes, m.Merge.Differs, m.Merge.Notes)
	}
}

// NoTokenizer begins a note that a model has no tokenizer.
const NoTokenizer = "there is no tokenizer"

// noTokens is why llama.cpp does not load a file without a vocabulary.
const noTokens = "it has no token"

// TokenizerNote returns the note that the files have no tokenizer, "" if they have one.
func (f *Files) TokenizerNote() string {
	for _, note := range f.Notes {
		if strings.HasPrefix(note, NoTokenizer) || strings.HasPrefix(note, NotLoaded+noTokens) {
			return note
		}
	}
	return ""
}

// Leave notes that something is not there, and why.
func (f *Files) Leave(what, why string) {
	if f.Left == nil {
		f.Left = map[string]string{}
	}
	f.Left[what] = why
}

// File is a file by its path below the directory of its kind.
type File struct {
	Path string
	Data tensorfs.Data
}

// Describe returns tensorfs.json.
func (f *Files) Describe() []byte {
	type file struct {
		Path  string `json:"path"`
		Bytes int64  `json:"bytes"`
	}
	var v any
	if f.Reason != "" {
		v = struct {
			Available bool   `json:"available"`
			Reason    string `json:"reason"`
		}{false, f.Reason}
	} else {
		files := make([]file, len(f.List))
		for i, x := range f.List {
			files[i] = file{x.Path, x.Data.Size()}
		}
		v = struct {
			Available bool           `json:"available"`
			Files     []file         `json:"files"`
			Tensors   int            `json:"tensors"`
			Types     map[string]int `json:"types"`
			Exact     bool           `json:"exact"`
			Notes     []string       `json:"notes"`
			Bits      float64        `json:"bits_per_weight,omitempty"`
			// Left is there only where something is left out.
			Left map[string]string `json:"left_out,omitempty"`
		}{true, files, f.Tensors, f.Types, f.Exact, append([]string{}, f.AllNotes()...), f.BitsPerWeight, f.Left}
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil { // numbers and strings cannot fail
		panic(err)
	}
	return append(text, '\n')
}

// Absent returns an empty Files, with an error's text as the reason.
func Absent(err error) *Files { return &Files{Reason: tensorfs.OneLine(err.Error()), Err: err} }
