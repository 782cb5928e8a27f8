package convert

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
)

// tensorNotes say what became of a model's tensors.
type tensorNotes struct {
	Mix      []string       // also in Notes: what the types of another file are for
	Types    map[string]int // how many tensors have a type
	Exact    bool           // all numbers equal the model's
	Notes    []string       // inexact conversions, a line for each kind
	FileType uint32         // for general.file_type: the type of most numbers
	Left     Towers         // tensors that no language model has
}

// fileTensors are the tensors of one GGUF file, and take them from a walk in the types
// that they have there (tensors_types.go).
type fileTensors struct {
	layout.List
	opts        Options
	arch        string                   // by GGUF's name, "" for a tower
	wide        string                   // the name of a tensor that is F32 because config.json asks for it
	typeOf      func(name string) string // the type of a tensor as its description has it; may be nil
	taken       []fileTensor
	notes       tensorNotes
	numbers     map[tensorfs.DType]int64 // in tensors of two and more dimensions
	kept        []string                 // tensors that were not converted to the type that was asked for
	requantised map[string]int           // how many tensors that adapters change are quantised again, by the types
	rounded     map[string][]string      // tensors whose numbers are rounded, by what becomes of them
}

// tensors returns the tensors of the GGUF file, in llama.cpp's order: token_embd, blk.0.*,
// ..., output_norm, output; or, if types are asked for, in llama-quantize's. The error
// explains why there is no such file. rows is how many rows of the embedding are kept, 0
// means all, and answers selects rows of the output, nil means all. of are the facts that
// types depend on.
func tensors(m *tensorfs.Model, cfg settings.Fields, opts Options, rows int, of preset.Model, answers ...int64) ([]gguf.Stored, tensorNotes, error) {
	x := &fileTensors{opts: opts, arch: of.Architecture, notes: tensorNotes{Types: map[string]int{}, Exact: true, Left: Towers{}}}
	if a := architectures.Find(x.arch); a != nil {
		x.typeOf = a.Type
	}
	if wide, ok := architectures.Trait(x.arch, architectures.WideIf); ok {
		name, field, _ := strings.Cut(wide, ":")
		if asked, _ := cfg.Flag(field); asked {
			x.wide = name
		}
	}
	if _, err := walk(m, cfg, of.Architecture, int64(rows), answers, x, x.notes.Left); err != nil {
		return nil, tensorNotes{}, err
	}
	return x.finish(of)
}

// Stranger returns the name of a tensor that does not belong to the architecture of a model
// of Hugging Face's layout, "" if all do or the architecture is unknown.
func Stranger(m *tensorfs.Model) string {
	cfg, about, err := configOf(m)
	if err == nil {
		_, err = about.Keys(settings.Given{Rows: int64(embeddingRows(m)), Tokenizer: true, Tensor: layout.TensorsOf(m).Find})
	}
	if err != nil {
		return ""
	}
	_, err = walk(m, cfg, about.Architecture(), 0, nil, &layout.List{}, Towers{})
	if s, ok := errors.AsType[*layout.StrangerError](err); ok {
		return s.Source
	}
	return ""
}

// maxLayers is how many llama.cpp takes.
const maxLayers = 512

// walk passes the tensors of an architecture to a sink, and counts a tower's tensors.
func walk(m *tensorfs.Model, cfg settings.Fields, arch string, rows int64, answers []int64, sink layout.Sink, towers Towers) (*layout.Walk, error) {
	a := architectures.Find(arch)
	if a == nil || !a.Makes("gguf") {
		return nil, fmt.Errorf("the tensors of the architecture %s are not known", tensorfs.Quote(arch))
	}
	w := layout.New(m, a, layout.GGUF, layoutFacts(m, cfg))
	w.Sink, w.Rows, w.Answers, w.Another = sink, rows, answers, towers.Add
	n, ok := cfg.Integer(architectures.FactOf("n_layers").Fields...)
	if !ok {
		n = int64(len(cfg.Words("layers_block_type"))) // Nemotron-H has no other field for it
	}
	w.Layers = cmp.Or(w.Sizes.Len("layers"), n)
	if w.Layers < 1 || w.Layers > maxLayers {
		return nil, fmt.Errorf("config.json has no number of layers, or it is more than %d", maxLayers)
	}
	needed := []string{"width"}
	if w.HasAttention() {
		needed = append(needed, "heads")
	}
	if err := w.Sizes.Need(needed...); err != nil {
		return nil, err
	}
	if err := w.Run(); err != nil {
		return nil, err
	}
	return w, cfg.Err()
}

// Order returns a walk that knows the order of rows and columns of a model of Hugging Face's
// layout, and makes no tensors.
func Order(m *tensorfs.Model) (*layout.Walk, error) {
	cfg, about, err := configOf(m)
	if err != nil {
		return nil, err
	}
	a := architectures.Find(about.Architecture())
	if a == nil {
		return nil, fmt.Errorf("the tensors of the architecture %s are not known", tensorfs.Quote(about.Architecture()))
	}
	w := layout.New(m, a, layout.GGUF, layoutFacts(m, cfg))
	w.Layers = maxLayers // all are of the model
	return w, nil
}

// layoutFacts are the facts of a model for a walk.
func layoutFacts(m *tensorfs.Model, cfg settings.Fields) architectures.Facts {
	known := layout.FactsOf(m)
	return func(name string) any {
		word, field, _ := strings.Cut(name, ".")
		switch {
		case name == "rope":
			return cfg.RopeType()
		case name == "model_type":
			return cfg.Word("model_type")
		case word == "config":
			if n, ok := cfg.Integer(field); ok {
				return n
			}
			return nil
		case word == "rope":
			return numberOrList(cfg.Rope(), field)
		case word == "number":
			return numberOrList(cfg, field)
		}
		return known(name)
	}
}

// numberOrList returns a field as a float64 or []float64, nil without it.
func numberOrList(cfg settings.Fields, field string) any {
	if _, isList := cfg.Value(field).(tensorfs.Array); isList {
		return cfg.Numbers(field)
	}
	if v, ok := cfg.Number(field); ok {
		return v
	}
	return nil
}

// embeddingRows returns the rows of the model's token embedding, 0 without one or if it has
// no numbers: tables are that long, and the shape of an empty tensor may claim any number
// of rows.
func embeddingRows(m *tensorfs.Model) int {
	if t := layout.TensorsOf(m).Find(layout.Embedding + ".weight"); t != nil && len(t.Numbers()) == 2 && t.Numbers()[1] > 0 {
		return int(t.Numbers()[0])
	}
	return 0
}

// InLayoutOfGGUF returns the tensors of a model in the layout of Hugging Face as a GGUF
// file of it has them: rows moved, experts stacked, under canonical names in that order.
// They keep their stored types, unlike in the file that [GGUF] makes. left are the tensors
// without a place in GGUF files, as stored.
//
// rows is how many rows of the embedding are kept, 0 means all. The error explains why the
// tensors of such a file are not known.
func InLayoutOfGGUF(m *tensorfs.Model, rows int64) (list, left []tensorfs.Tensor, err error) {
	cfg, about, err := configOf(m)
	if err != nil {
		return nil, nil, err
	}
	arch := about.Architecture()
	var made layout.List
	w, err := walk(m, cfg, arch, rows, nil, &made, Towers{})
	if err != nil {
		return nil, nil, err
	}
	return made.Canonical(names.GGUF, arch), w.Left, nil
}
