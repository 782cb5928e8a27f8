package convert

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/formats/imatrix"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/source"
)

// LanguageFile is the file below gguf/ that has the language model.
const LanguageFile = "model.gguf"

// GGUF returns the model as the file that llama.cpp loads. It reads configs, the
// tokenizer, and the scales of quantised tensors, so it takes time; the result is
// meant to be kept.
func GGUF(m *tensorfs.Model, opts Options) *Files {
	of, note := composed, ""
	theirs := m
	m, spelling, err := InLlama(m)
	if err != nil {
		return Absent(err)
	}
	if a := images.Find(m.Architecture); a != nil {
		of = func(m *tensorfs.Model, opts Options) (*Files, error) { return imageFile(m, a, opts) }
	} else if m.Layout == "gguf" {
		of = stored
		if spelling != nil {
			of = func(m *tensorfs.Model, opts Options) (*Files, error) { return translated(m, theirs, spelling, opts) }
		}
		if why := Kept(m, opts); why != "" {
			note = fmt.Sprintf("not converted to %s: %s", opts.Quantise, why)
			opts.Quantise = nil
		}
	}
	f, err := of(m, opts)
	if err != nil {
		if f = towersAlone(m, opts); f == nil {
			return Absent(err)
		}
		return f
	}
	f.noteChanges(opts.Changes)
	f.NoteMerge(m)
	if note != "" {
		f.Notes = append(f.Notes, note)
	}
	if opts.Quantise != nil {
		f.BitsPerWeight = BitsPerWeight(f.List[0].Data.Size(), f.weights)
	}
	return f
}

// BitsPerWeight is how many bits of a file there are for each number of its tensors, to two digits.
func BitsPerWeight(bytes, weights int64) float64 {
	return math.Round(800*float64(bytes)/float64(max(weights, 1))) / 100
}

// weightsOf counts the numbers of tensors.
func weightsOf(list []gguf.Stored) (n int64) {
	for i := range list {
		each, _ := tensorfs.Elements(list[i].Shape)
		n += each
	}
	return n
}

// leaveBeside notes the towers of an Ollama model, which are files of their own. One that
// llama.cpp does not load as it is stored gets another header.
func (f *Files) leaveBeside(m *tensorfs.Model, file string) {
	if layer, s := ProjectorLayer(m); s != nil {
		made, err := rewritten(layer.Metadata, layer.Tensors, Options{})
		if err == nil {
			f.addMmproj(made.List[0].Data, made.Types, made.Exact)
			f.Notes = append(f.Notes, slices.Concat(s.Notes, made.Notes)...)
			return
		}
	}
	t, files := beside(m, file)
	for i, name := range files {
		files[i] = "source/" + tensorfs.Printable(name)
	}
	f.LeaveOut(t, "llama.cpp takes it from a file of its own, "+strings.Join(files, " and ")+" (--mmproj)")
}

// far returns the content of a source in a form for any reader. A local file is returned
// unchanged, so that the kernel may read it past the server.
func far(m *tensorfs.Model, name string, d tensorfs.Data) tensorfs.Data {
	for i := range m.Sources {
		if m.Sources[i].Name == name && !m.Sources[i].Local() {
			return tensorfs.Whole(d)
		}
	}
	return d
}

// stored returns the file of a model that is one already, or was one before it
// was split.
func stored(m *tensorfs.Model, opts Options) (*Files, error) {
	var files []string
	for _, s := range m.Sources {
		if s.Adapter {
			continue
		}
		if m.Format == "gguf" || s.Name == gguf.OllamaModel {
			files = append(files, s.Name)
		}
	}
	adapted := adaptedBySource(m)
	if len(files) != 1 {
		return rewritten(named(m.Metadata, m), m.Tensors, opts)
	}
	d, err := m.File(files[0])
	if err != nil {
		return nil, err
	}
	if err := llamaReads(d); !opts.Rewrites() && len(adapted) == 0 && !keepsSplit(m) && (err == nil || errors.Is(err, tensorfs.ErrChanged)) {
		f := newFiles()
		f.List = []File{{LanguageFile, far(m, files[0], d)}}
		f.leaveBeside(m, files[0])
		var list []gguf.Stored
		for i := range m.Tensors {
			// The layers of an Ollama model beside this one, such as a projector, are files of
			// their own.
			t := &m.Tensors[i]
			if x := tensorfs.Extents(t.Data); len(x) == 0 || x[0].File == files[0] {
				f.count(t.DType)
				list = append(list, gguf.Stored{Name: t.Source, DType: t.DType, Shape: t.Shape})
			}
		}
		f.noteLlama(m.Metadata, list)
		if first := firstNumber(m, files[0]); first%mappedAlignment != 0 {
			f.Notes = append(f.Notes, fmt.Sprintf("llama.cpp stops when it maps the file, whose numbers begin at byte %d and not at a multiple of %d (--no-mmap reads it)", first, mappedAlignment))
		}
		return f, nil
	}
	file, ok := d.(source.File)
	if !ok {
		return nil, fmt.Errorf("%s cannot be parsed again", tensorfs.Printable(files[0]))
	}
	p, err := gguf.Parse(file)
	if err != nil {
		return nil, err
	}
	for i := range p.Tensors {
		if t := adapted[p.Tensors[i].Source]; t != nil {
			p.Tensors[i] = *t
		}
	}
	f, err := rewritten(named(p.Metadata, m), p.Tensors, opts)
	if err == nil {
		f.leaveBeside(m, files[0])
	}
	return f, err
}

// keepsSplit reports whether the file of a model declares itself one of several, so that
// llama.cpp does not load it.
func keepsSplit(m *tensorfs.Model) bool {
	n := settings.ByKey(m.Metadata)[splitKeys+"count"]
	return n != nil && fmt.Sprint(n) != "0" && fmt.Sprint(n) != "1"
}

// mappedAlignment is what the place of the first numbers in a mapped file has to be a multiple of for ggml.
const mappedAlignment = 32

// firstNumber returns where the numbers of a file begin, 0 without any.
func firstNumber(m *tensorfs.Model, file string) int64 {
	first := int64(math.MaxInt64)
	for i := range m.Tensors {
		if x := tensorfs.Extents(m.Tensors[i].Data); len(x) > 0 && x[0].File == file {
			first = min(first, x[0].Offset)
		}
	}
	if first == math.MaxInt64 {
		return 0
	}
	return first
}

// llamaReads returns an error unless llama.cpp reads the version of a GGUF file.
func llamaReads(d tensorfs.Data) error {
	head := make([]byte, 8)
	if err := tensorfs.ReadFull(d, head, 0); err != nil {
		return err
	}
	if !gguf.LlamaReads(head) {
		return errors.New("a header that llama.cpp does not read")
	}
	return nil
}

func newFiles() *Files { return &Files{Types: map[string]int{}, Exact: true} }

// count notes a tensor of the file.
func (f *Files) count(t tensorfs.DType) {
	f.Tensors++
	f.Types[t.String()]++
}

const (
	// splitKeys begin keys that say that a file is one of several.
	splitKeys  = "split."
	keyType    = "general.file_type"
	keyVersion = "general.quantization_version"
)

// rewritten writes a new header before tensors of GGUF files, in the order in which
// they are stored.
func rewritten(meta []tensorfs.Meta, tensors []tensorfs.Tensor, opts Options) (*Files, error) {
	f := newFiles()
	list := make([]*tensorfs.Tensor, len(tensors))
	for i := range tensors {
		list[i] = &tensors[i]
	}
	slices.SortStableFunc(list, inFileOrder)
	x := &fileTensors{opts: opts, notes: tensorNotes{Types: f.Types, Exact: true}}
	for _, t := range list {
		if t.BigEndian {
			return nil, errors.New("the model is big-endian, which llama.cpp reads only on such machines; convert it with gguf_convert_endian.py")
		}
		to, exact := t.DType, true
		if t.Change != nil {
			to, exact = adaptedAs(t)
		}
		x.taken = append(x.taken, fileTensor{name: t.Source, tensor: t, to: to, exact: exact, fixed: isF32(t.Source, len(t.Shape))})
	}
	composed, notes, err := x.finish(sizesOf(meta))
	if err != nil {
		return nil, err
	}
	f.Tensors, f.Exact, f.Notes, f.Mix, f.weights = len(composed), notes.Exact, notes.Notes, notes.Mix, weightsOf(composed)
	kept := slices.DeleteFunc(slices.Clone(meta), func(e tensorfs.Meta) bool { return strings.HasPrefix(e.Key, splitKeys) })
	if opts.Quantise != nil {
		kept = quantisedKeys(kept, notes.FileType, opts.Importance)
	}
	if kept, err = apply(opts.Changes, kept); err != nil {
		return nil, err
	}
	d, err := gguf.Compose(kept, composed)
	if err != nil {
		return nil, err
	}
	f.noteLlama(kept, composed)
	f.List = []File{{LanguageFile, d}}
	return f, nil
}

// sizesOf returns the facts that the types of a file depend on, by its keys. If a key has a
// value for each layer, the first counts.
func sizesOf(meta []tensorfs.Meta) (m preset.Model) {
	value := func(key string) any {
		for _, e := range meta {
			if e.Key == key {
				return e.Value
			}
		}
		return nil
	}
	m.Architecture, _ = value("general.architecture").(string)
	number := func(fact string) (n int64, ok bool) {
		v := value(settings.FullKey(m.Architecture, architectures.FactOf(fact).Keys[0]))
		if a, isList := v.(tensorfs.Array); isList {
			v = nil
			for v = range a.Values() {
				break
			}
		}
		switch n := v.(type) {
		case uint32:
			return int64(n), true
		case int32:
			return int64(n), true
		}
		return 0, false
	}
	m.Layers, _ = number("n_layers")
	m.Experts, _ = number("n_experts")
	m.Heads, _ = number("n_heads")
	var ok bool
	if m.Pairs, ok = number("n_kv_heads"); !ok {
		m.Pairs = m.Heads
	}
	return m
}

// quantisedKeys returns the keys of a file with chosen types: with another
// general.file_type, and with llama-quantize's keys about an importance matrix.
func quantisedKeys(meta []tensorfs.Meta, n uint32, by *imatrix.Matrix) []tensorfs.Meta {
	set := func(key string, value any) {
		i := slices.IndexFunc(meta, func(e tensorfs.Meta) bool { return e.Key == key })
		if i < 0 {
			meta = append(meta, tensorfs.Meta{Key: key, Value: value})
		} else {
			meta[i].Value = value
		}
	}
	set(keyVersion, uint32(2))
	set(keyType, n)
	if by != nil {
		set("quantize.imatrix.file", by.File)
		set("quantize.imatrix.entries_count", uint32(by.Len()))
		if by.Dataset != "" {
			set("quantize.imatrix.dataset", by.Dataset)
		}
		if by.Chunks > 0 {
			set("quantize.imatrix.chunks_count", by.Chunks)
		}
	}
	return meta
}

// Kept explains why the file of a model that is stored as GGUF keeps the types of all
// weights, although types were asked for. It is "" if weights are converted, if no types
// were asked for, and for models of other formats, whose files are always composed.
func Kept(m *tensorfs.Model, opts Options) string {
	if m.Layout != "gguf" || opts.Quantise == nil {
		return ""
	}
	list := make([]preset.Tensor, len(m.Tensors))
	for i, t := range m.Tensors {
		list[i] = preset.Tensor{Name: t.Source, Shape: t.Shape, Type: t.DType}
	}
	quantised := map[string]bool{}
	weights, others := 0, 0
	for i, to := range opts.typesOf(sizesOf(m.Metadata), list) {
		t := list[i]
		switch {
		case !preset.Quantisable(t.Name, t.Shape) || isF32(t.Name, len(t.Shape)) || t.Type.Kind() == tensorfs.KindInteger:
			continue
		case to != t.Type:
			return ""
		case t.Type.Kind() != tensorfs.KindFloat:
			quantised[t.Type.String()] = true
		}
		if t.Type != opts.Quantise.Wanted(t) {
			others++
		}
		weights++
	}
	switch {
	case weights == 0:
		return "the model has no weights"
	case opts.Quantise.From != nil && others == 0:
		return fmt.Sprintf("its weights have the types of %s already", tensorfs.Printable(opts.Quantise.From.File))
	case len(quantised) == 0, len(quantised) == 1 && quantised[opts.Quantise.Type.String()]:
		return fmt.Sprintf("its weights are %s already", opts.Quantise.Name)
	}
	return fmt.Sprintf("its weights are quantised already (%s), and are not quantised again", strings.Join(slices.Sorted(maps.Keys(quantised)), ", "))
}

// inFileOrder compares tensors by their place in the model's files.
func inFileOrder(a, b *tensorfs.Tensor) int {
	x, y := a.Origin(), b.Origin()
	if len(x) == 0 || len(y) == 0 { // no bytes: first
		return len(x) - len(y)
	}
	if c := strings.Compare(x[0].File, y[0].File); c != 0 {
		return c
	}
	return int(min(max(x[0].Offset-y[0].Offset, -1), 1))
}
