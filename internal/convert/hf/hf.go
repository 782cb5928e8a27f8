package hf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/formats/tokenizer"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

const (
	configName  = "config.json"
	weightsName = "model.safetensors"
)

// HF returns the directory that programs of Hugging Face's kind load.
func HF(m *tensorfs.Model, opts convert.Options) *convert.Files { return files(m, hf, opts) }

// MLX returns the directory that mlx-lm loads.
func MLX(m *tensorfs.Model, opts convert.Options) *convert.Files { return files(m, mlx, opts) }

// kind is one of the two directories.
type kind struct {
	name     string
	format   string // of model.safetensors
	isStored func(m *tensorfs.Model) bool
}

var (
	hf  = &kind{"hf", "pt", func(m *tensorfs.Model) bool { return m.Format == "huggingface" }}
	mlx = &kind{"mlx", "mlx", func(m *tensorfs.Model) bool { return m.Format == "mlx" || m.Format == "huggingface" }}
)

func files(m *tensorfs.Model, k *kind, opts convert.Options) *convert.Files {
	theirs := m
	m, spelling, err := convert.InLlama(m)
	if err != nil {
		return convert.Absent(err)
	}
	if spelling != nil {
		opts = withOllamaTower(opts, theirs, m)
	}
	f, err := k.files(m, opts)
	if err == nil && spelling != nil {
		f.NoteSpelling(spelling)
		towers := convert.CountTowers(spelling.Left)
		if k == hf { // the vision tower is there, or noted
			towers = convert.Towers{convert.Audio: towers[convert.Audio]}
		}
		f.LeaveOut(towers, k.name+"/ does not include it")
	}
	if err == nil {
		err = setTemplate(f, opts.Changes)
	}
	if err != nil {
		return convert.Absent(err)
	}
	if why := KeptPacked(m, opts); why != "" {
		f.Notes = append(f.Notes, "nothing was to be dequantised: "+why)
	}
	if m.Layout != "gguf" && m.Tensor("token_embedding.weight") != nil && !slices.ContainsFunc(f.List, func(x convert.File) bool { return tokenizer.IsFile(x.Path) }) {
		f.Notes = append(f.Notes, convert.NoTokenizer+": the model has no tokenizer.json and no vocabulary of another form")
	}
	f.NoteMerge(m)
	return f
}

// files returns the files of a directory, or why it is empty.
func (k *kind) files(m *tensorfs.Model, opts convert.Options) (*convert.Files, error) {
	if a := images.Find(m.Architecture); a != nil && (k == mlx || m.Format != "huggingface") {
		return k.image(m, a)
	}
	if m.Format == "safetensors" {
		return nil, errors.New("a single safetensors file has no config.json, which describes the model; name the model's directory")
	}
	quantise := k == mlx && opts.MLX != nil
	if quantise {
		if why := KeptMLX(m, opts); why != "" {
			opts.MLX = nil
			f, err := k.files(m, opts)
			if err == nil {
				f.Notes = append(f.Notes, "not quantised: "+why)
			}
			return f, err
		}
	}
	if isPacked(m) && (opts.Dequantise || quantise && opts.MLX.Requantise) {
		return k.unpackedFiles(m, opts, "the weights, which another program packed, are plain numbers")
	}
	if k.isStored(m) && isAdapted(m) {
		return k.adaptedFiles(m, opts)
	}
	if k.isStored(m) && quantise {
		return quantisedStored(m, opts.MLX)
	}
	if k == mlx && isPacked(m) {
		why, err := notLoaded(m)
		if err != nil {
			return nil, err
		}
		if why != "" {
			return mlxOfPacked(m, opts, why)
		}
	}
	if k.isStored(m) {
		clean, f, err := k.withoutLeftovers(m)
		if clean == nil && err == nil {
			clean = m
			if f, err = asStored(m); err == nil {
				k.noteAdapter(m, f)
			}
		}
		if err == nil && k == mlx {
			err = mendStored(clean, f)
		}
		return f, err
	}
	x, err := newTensors(m, purpose{mlx: k == mlx, again: quantise && opts.MLX.Requantise})
	if err != nil {
		return nil, err
	}
	r := x.finish()
	if quantise {
		if r, err = x.quantisedForMLX(k, r, opts.MLX); err != nil {
			return nil, err
		}
	}
	t, whyNot := k.tower(m, opts)
	if t != nil {
		if err := t.join(&r); err != nil {
			return nil, err
		}
	}
	weights, err := safetensors.Compose([][2]string{{"format", k.format}}, r.List)
	if err != nil {
		return nil, err
	}
	f := &convert.Files{Tensors: len(r.List), Types: r.Types, Exact: r.Exact, Notes: r.Notes}
	if r.Parameters > 0 {
		f.BitsPerWeight = convert.BitsPerWeight(weights.Size(), r.Parameters)
	}
	const noWay = "it cannot be converted from a projector's GGUF file"
	f.LeaveOut(r.Left, cmp.Or(whyNot[convert.Vision], whyNot[convert.Audio], noWay))
	for _, part := range slices.Sorted(maps.Keys(whyNot)) {
		if f.Left[part] == "" {
			f.Leave(part, fmt.Sprintf("the %s tower beside the model is left out: %s", part, whyNot[part]))
			f.Notes = append(f.Notes, f.Left[part])
		}
	}
	if m.Layout == "gguf" {
		err = k.generate(m, r, f, t)
	} else {
		err = k.adapt(m, r, f)
	}
	if err != nil {
		return nil, err
	}
	f.List = append(f.List, convert.File{Path: weightsName, Data: weights})
	if k == hf {
		f.List = append(f.List, convert.File{Path: weightsName + ".index.json", Data: weightsIndex(r.List)})
	}
	slices.SortFunc(f.List, func(a, b convert.File) int { return strings.Compare(a.Path, b.Path) })
	return f, nil
}

// weightsIndex returns the file that maps tensors to files. If one file has all tensors,
// loaders do without it, except some of candle's examples.
func weightsIndex(list []safetensors.Stored) *tensorfs.Text {
	return indexText(list, "{\n  \"metadata\": {\"total_size\": %d},\n  \"weight_map\": {", "\n    ", "\n  }\n}\n")
}

// indexText is such a file with the spacing of a program. head takes the size of all tensors.
func indexText(list []safetensors.Stored, head, before, tail string) *tensorfs.Text {
	total := int64(0)
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
		total += list[i].Data.Size()
	}
	slices.Sort(names)
	return tensorfs.NewText(len(names)+1, func(dst []byte, i int) []byte {
		if i == 0 {
			dst = fmt.Appendf(dst, head, total)
		} else {
			if i > 1 {
				dst = append(dst, ',')
			}
			dst = append(tensorfs.AppendJSONString(append(dst, before...), names[i-1]), `: "`+weightsName+`"`...)
		}
		if i == len(names) {
			dst = append(dst, tail...)
		}
		return dst
	})
}

// generate makes the files beside the weights from GGUF's metadata.
func (k *kind) generate(m *tensorfs.Model, r result, f *convert.Files, t *tower) error {
	given := tensorFacts(m, r)
	given.MLX = k == mlx
	about, err := settings.FromGGUF(m, given)
	if err != nil {
		return err
	}
	text, err := about.Config()
	if err == nil && t != nil {
		text, err = t.config(m, text, f)
	}
	if err != nil {
		return err
	}
	if err := k.addConfig(m, f, text, r); err != nil {
		return err
	}
	if k == hf {
		files, notes := about.Embedding()
		for path, text := range files {
			f.List, f.Exact = append(f.List, convert.File{Path: path, Data: tensorfs.Bytes(text)}), false
		}
		f.Notes = append(f.Notes, notes...)
	}
	var texts map[string][]byte
	vocabulary, err := tokenizer.ReadKeys(about.Key, m.Architecture)
	if err == nil {
		texts, err = vocabulary.Files()
	}
	if err != nil { // weights and config load without these
		f.Notes = append(f.Notes, fmt.Sprintf("%s: %v", convert.NoTokenizer, err))
		for _, name := range []string{"tokenizer.json", tokenizerConfigName, "special_tokens_map.json", settings.GenerationName} {
			f.Leave(name, err.Error())
		}
		return unread(about, f)
	}
	f.Notes = append(f.Notes, vocabulary.Notes...)
	if text, notes := about.Generation(); text != nil {
		texts[settings.GenerationName], f.Notes = text, append(f.Notes, notes...)
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		f.List = append(f.List, convert.File{Path: name, Data: tensorfs.Bytes(texts[name])})
	}
	return unread(about, f)
}

// unread notes the keys of a file that nothing reads, or returns why there is no directory.
func unread(about *settings.Model, f *convert.Files) error {
	notes, err := about.Unread()
	f.Notes = append(f.Notes, notes...)
	return err
}

// adapt takes the files beside the weights unchanged, except config.json's keys about how
// the weights are stored.
func (k *kind) adapt(m *tensorfs.Model, r result, f *convert.Files) error {
	stored, err := storedConfig(m)
	if err != nil {
		return err
	}
	text, err := adapted(stored, tensorFacts(m, r), k == mlx)
	if err != nil {
		return err
	}
	if f.List, err = filesWithoutTensors(m); err != nil {
		return err
	}
	if k == hf {
		if text, err = olderConfig(text); err != nil {
			return err
		}
		if err := olderTokenizer(m, f.List); err != nil {
			return err
		}
	}
	return k.addConfig(m, f, text, r)
}

// addConfig adds config.json; in mlx/ in the form that mlx-lm reads.
func (k *kind) addConfig(m *tensorfs.Model, f *convert.Files, text []byte, r result) error {
	if k == mlx {
		names := make([]string, len(r.List))
		for i := range names {
			names[i] = r.List[i].Name
		}
		config, err := forMLX(text, false, names)
		if err != nil {
			return err
		}
		if why := cmp.Or(unloaded(m, config), config.lacks); why != "" {
			return errors.New(why)
		}
		text, f.Notes = config.text, append(f.Notes, config.notes...)
	}
	f.List = append(f.List, convert.File{Path: configName, Data: tensorfs.Bytes(text)})
	return nil
}

// tensorFacts are the facts of a model's tensors.
func tensorFacts(m *tensorfs.Model, r result) settings.Given {
	f := settings.Given{Torch: r.Torch, Experts: r.Experts, Tensor: layout.TensorsOf(m).Find}
	if q := r.Quantization; q != nil {
		f.Quantization = slices.Concat([]byte(`{"quantization":`), q, []byte(`,"quantization_config":`), q, []byte(`}`))
	}
	if t := f.Tensor("token_embedding.weight"); t != nil && len(t.Numbers()) > 0 {
		f.Rows = t.Numbers()[0]
	}
	return f
}
