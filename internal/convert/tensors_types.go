package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/views"
)

// alwaysF32 are the ends of names of weights that llama.cpp computes only with F32. The
// same holds for all tensors of one dimension and for all names without .weight: another
// type is loaded, and aborts at the first token.
var alwaysF32 = []string{
	"_norm.weight",
	"ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight", "position_embd.weight", "token_types.weight",
	"ssm_conv1d.weight", "ssm_conv1d_q.weight", "ssm_conv1d_k.weight", "ssm_conv1d_v.weight", "shortconv.conv.weight", "indexer.proj.weight",
	"indexer.q_proj.weight", "indexer.k_proj.weight", "indexer_compressor_ape.weight", "indexer_compressor_gate.weight",
	"time_mix_first.weight", "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight",
	"hc_attn_fn.weight", "hc_ffn_fn.weight", "output_hc_fn.weight",
	"altup_correct_coef.weight", "altup_predict_coef.weight",
}

// isF32 reports whether a tensor is F32 whatever the model has.
func isF32(name string, rank int) bool {
	return rank < 2 || !strings.HasSuffix(name, ".weight") ||
		slices.ContainsFunc(alwaysF32, func(end string) bool { return strings.HasSuffix(name, end) })
}

// isF32 is the function of that name for the architecture of the file.
func (x *fileTensors) isF32(name string, rank int) bool {
	return name == x.wide || isF32(name, rank) && (x.typeOf == nil || x.typeOf(name) != asWeight)
}

// asWeight is the type in descriptions of a tensor that is stored as any weight, though the rule is F32.
const asWeight = "weight"

// ownType is the type that a tensor has by its description, "" if it has none.
func (x *fileTensors) ownType(name string) string {
	if x.typeOf == nil || x.typeOf(name) == asWeight {
		return ""
	}
	return x.typeOf(name)
}

// ofFloats8 is the type of a weight that is stored as 8-bit floats, Unknown if it is the type that holds
// its numbers. Rows that are not whole blocks become F16.
func (x *fileTensors) ofFloats8(t *tensorfs.Tensor) tensorfs.DType {
	if t.Quant == nil || t.Quant.Mode != "fp8" || x.typeOf == nil || x.typeOf("fp8") != "q8_0" {
		return tensorfs.Unknown
	}
	if _, ok := tensorfs.Q8_0.Size(t.Numbers()); !ok {
		return tensorfs.F16
	}
	return tensorfs.Q8_0
}

// storedAs returns the type that a tensor has in the file if none is asked for, and
// whether it holds the tensor's numbers exactly.
func (x *fileTensors) storedAs(name string, t *tensorfs.Tensor) (to tensorfs.DType, isExact bool, err error) {
	asked := x.opts.Quantise
	switch isF16 := asked != nil && asked.Type == tensorfs.F16 || asked == nil && t.DType == tensorfs.F16; {
	case x.ownType(name) == "f16", x.ownType(name) == "conv" && isF16:
		return tensorfs.F16, t.Quant == nil && t.DType == tensorfs.F16, nil
	case x.ownType(name) != "", x.isF32(name, len(t.Numbers())), t.Quant == nil && t.DType == tensorfs.F64: // which the converter rounds to F32 first
		return tensorfs.F32, t.Quant != nil || t.DType != tensorfs.F64, nil
	case x.ofFloats8(t) != tensorfs.Unknown:
		return x.ofFloats8(t), false, nil
	case isRequantised(t):
		to, isExact = adaptedAs(t)
		return to, isExact, nil
	case t.Float != tensorfs.Unknown:
		return t.Float, false, nil
	case t.Quant == nil && slices.Contains([]tensorfs.DType{tensorfs.F32, tensorfs.F16, tensorfs.BF16}, t.DType):
		return t.DType, true, nil
	}
	to, isExact, err = views.Exact(t)
	if _, ok := fileTypes[to]; err == nil && !ok {
		err = fmt.Errorf("%s is not a type of weights in llama.cpp", to)
	}
	return to, isExact, err
}

// fileTensor is a tensor of the file that is made.
type fileTensor struct {
	name   string
	tensor *tensorfs.Tensor
	to     tensorfs.DType
	exact  bool // to holds its numbers
	own    bool // its description has its type
	fixed  bool // it is not quantised, whatever is asked for
}

// Put takes a tensor into the file.
func (x *fileTensors) Put(name string, t *tensorfs.Tensor, _ layout.Origin, _ bool) error {
	to, isExact, err := x.storedAs(name, t)
	if err != nil {
		return fmt.Errorf("%s cannot be %s: %w", tensorfs.Quote(t.Source), name, err)
	}
	own := x.ownType(name) != ""
	x.taken = append(x.taken, fileTensor{name, t, to, isExact, own, own || x.isF32(name, len(t.Numbers()))})
	return nil
}

// Table takes a tensor of integers into the file.
func (x *fileTensors) Table(name string, t *tensorfs.Tensor, _ layout.Origin) error {
	x.taken = append(x.taken, fileTensor{name, t, t.DType, true, true, true})
	return nil
}

// typesOf returns the types that tensors get. Some may be asked for.
func (o Options) typesOf(m preset.Model, tensors []preset.Tensor) []tensorfs.DType {
	by := *o.Quantise
	by.Importance = o.Importance != nil
	if by.From != nil {
		nameCanonically(m.Architecture, tensors)
	}
	return by.Types(m, tensors)
}

// nameCanonically sets the canonical names of a GGUF file's tensors.
func nameCanonically(architecture string, tensors []preset.Tensor) {
	list := make([]names.Source, len(tensors))
	for i, t := range tensors {
		list[i] = names.Source{Name: t.Name, Shape: t.Shape}
	}
	for i, r := range names.Map(names.GGUF, architecture, list) {
		tensors[i].Canonical = r.Name
	}
}

// Mix returns the types of the weights of a GGUF file, opened as a model.
func Mix(m *tensorfs.Model, file string) (*preset.Mix, error) {
	if m.Layout != "gguf" {
		return nil, errors.New("it is not a GGUF file; name one with the types that are wanted")
	}
	list := make([]preset.Tensor, len(m.Tensors))
	for i, t := range m.Tensors {
		list[i] = preset.Tensor{Name: t.Source, Shape: t.Shape, Type: t.DType}
	}
	nameCanonically(m.Architecture, list)
	n, _ := m.Meta(keyType).(uint32)
	return preset.MixOf(file, n, list)
}

// forTower returns the options for a vision tower: rules about single tensors are for language models.
func (o Options) forTower() Options {
	switch q := o.Quantise; {
	case q == nil:
	case q.Implied, q.NeedsImportance("", q.Type): // matrices are of language models
		o.Quantise = nil
	default:
		o.Quantise = &preset.Options{Preset: q.Preset, Pure: true}
	}
	return o
}

// quantise gives the tensors the types that are asked for, and the order in which
// llama-quantize writes them.
func (x *fileTensors) quantise(m preset.Model) {
	if x.opts.sizing != nil && x.opts.sizing.taken == nil { // the language model comes first
		*x.opts.sizing = sizing{taken: slices.Clone(x.taken), of: m}
	}
	list := presetTensors(x.taken)
	types := x.opts.typesOf(m, list)
	if q := x.opts.Quantise; q.From != nil {
		others := "--gguf-type " + strings.ToLower(q.Name)
		x.notes.Mix = q.From.Differences(list, types, q.Rules, others)
		x.notes.Notes = append(x.notes.Notes, x.notes.Mix...)
	}
	for i, to := range types {
		t := &x.taken[i]
		switch {
		case t.fixed:
		case to != t.to:
			t.to, t.exact = to, to == tensorfs.F32 && t.tensor.DType != tensorfs.F64 || t.tensor.Quant == nil && t.tensor.DType == to
		case to.Kind() == tensorfs.KindBlock && to != x.opts.Quantise.Wanted(list[i]) && preset.Quantisable(t.name, list[i].Shape):
			x.kept = append(x.kept, t.name)
		}
	}
	slices.SortStableFunc(x.taken, func(a, b fileTensor) int { return preset.Compare(a.name, b.name) })
}

// encode makes the tensors of the file.
func (x *fileTensors) encode() (list []gguf.Stored, err error) {
	for _, t := range x.taken {
		stored := gguf.Stored{Name: t.name, DType: t.to, Shape: t.tensor.Numbers(), Data: t.tensor.Data}
		if t.tensor.Quant != nil || t.tensor.DType != t.to || t.tensor.BigEndian {
			by, err := x.importanceOf(&t)
			if err != nil {
				return nil, err
			}
			if by == nil && x.needsImportance(&t) {
				return nil, x.missingImportance(&t)
			}
			if stored, err = encoded(t.tensor, t.name, t.to, by); err != nil {
				return nil, err
			}
		}
		list = append(list, stored)
		again := isRequantised(t.tensor) && t.to.Kind() == tensorfs.KindBlock
		if again {
			x.requantise(t.tensor, t.to)
		}
		x.note(&t, stored.Shape, t.exact || again)
	}
	return list, nil
}

// encoded makes a tensor of a file, in a type that its own numbers are converted to.
func encoded(t *tensorfs.Tensor, name string, to tensorfs.DType, by views.Importance) (gguf.Stored, error) {
	data, err := views.Weighted(t, to, by)
	if err != nil {
		return gguf.Stored{}, fmt.Errorf("%s cannot be %s as %s: %w", tensorfs.Quote(t.Source), tensorfs.Printable(name), to, err)
	}
	return gguf.Stored{Name: name, DType: to, Shape: t.Numbers(), Data: data}, nil
}

// importanceError explains why an importance matrix does not belong to the model, or why one is needed.
type importanceError struct{ problem string }

func (e *importanceError) Error() string { return e.problem }

// needsImportance reports whether a tensor cannot be quantised without an importance.
func (x *fileTensors) needsImportance(t *fileTensor) bool {
	return x.opts.Quantise != nil && !t.fixed && x.opts.Quantise.NeedsImportance(t.name, t.to)
}

// missingImportance is the error about a tensor that needs one.
func (x *fileTensors) missingImportance(t *fileTensor) error {
	what := "there is no importance matrix; name one with --imatrix FILE"
	if x.opts.Importance != nil {
		what = "the importance matrix has no values of it; name one that llama-imatrix made from this model"
	}
	return &importanceError{fmt.Sprintf("%s would be %s, which llama-quantize makes only by an importance matrix, and %s, or another type with --tensor-type", tensorfs.Printable(t.name), t.to, what)}
}

// WrongImportance explains why the importance matrix cannot be used for a model, or why the types
// that are asked for need one. It is "" if there is no such problem.
func WrongImportance(m *tensorfs.Model, opts Options) string {
	if opts.Quantise == nil || opts.Importance == nil && !opts.Quantise.MayNeedImportance() {
		return ""
	}
	of := composed
	if m.Layout == "gguf" {
		of = stored
	}
	var wrong *importanceError
	if _, err := of(m, opts); errors.As(err, &wrong) {
		return wrong.problem
	}
	return "" // gguf/ gives the reason for any other error
}

// importanceOf returns the importance of the columns of a tensor, nil if unknown.
func (x *fileTensors) importanceOf(t *fileTensor) (views.Importance, error) {
	m, shape := x.opts.Importance, t.tensor.Numbers()
	if m == nil || t.fixed || m.Values(t.name) == 0 {
		return nil, nil
	}
	want := shape[len(shape)-1]
	if len(shape) > 2 {
		want *= shape[len(shape)-3]
	}
	switch n := m.Values(t.name); {
	case n != want && t.name == "token_embd.weight":
		return nil, nil
	case n != want:
		return nil, &importanceError{fmt.Sprintf("the importance matrix has %d values of %s, which needs %d: it is of another model; name one that llama-imatrix made from this model", n, tensorfs.Quote(t.name), want)}
	}
	return func(first, n int64) ([]float32, error) { return m.Read(t.name, first, n) }, nil
}

// note counts a tensor of the file.
func (x *fileTensors) note(t *fileTensor, shape []int64, isExact bool) {
	name, to := t.name, t.to
	x.notes.Types[to.String()]++
	if n, _ := tensorfs.Elements(shape); !t.own && !isF32(name, len(shape)) {
		if x.numbers == nil {
			x.numbers = map[tensorfs.DType]int64{}
		}
		x.numbers[to] += n
	}
	if !isExact {
		if x.rounded == nil {
			x.rounded = map[string][]string{}
		}
		x.notes.Exact = false
		x.rounded[to.String()] = append(x.rounded[to.String()], name)
	}
}

// fileTypes are the values of general.file_type.
var fileTypes = map[tensorfs.DType]uint32{
	tensorfs.F32: 0, tensorfs.F16: 1, tensorfs.Q4_0: 2, tensorfs.Q4_1: 3, tensorfs.Q8_0: 7, tensorfs.Q5_0: 8, tensorfs.Q5_1: 9,
	tensorfs.BF16: 32, tensorfs.MXFP4: 38, tensorfs.NVFP4: 39,
}

// most returns the type that most numbers of matrices have.
func (x *fileTensors) most() (most tensorfs.DType) {
	for _, t := range slices.Sorted(maps.Keys(x.numbers)) {
		if x.numbers[t] > x.numbers[most] {
			most = t
		}
	}
	return most
}

// RoundedNotes say which tensors are rounded, by what becomes of them.
func RoundedNotes(rounded map[string][]string) (notes []string) {
	for _, t := range slices.Sorted(maps.Keys(rounded)) {
		notes = append(notes, fmt.Sprintf("%d tensors are rounded to %s, the first is %s", len(rounded[t]), t, tensorfs.Printable(rounded[t][0])))
	}
	return notes
}

// finish returns the tensors of the file, and what is said about all of them.
func (x *fileTensors) finish(of preset.Model) ([]gguf.Stored, tensorNotes, error) {
	if x.opts.Quantise != nil {
		x.quantise(of)
	}
	list, err := x.encode()
	if err != nil {
		return nil, tensorNotes{}, err
	}
	x.notes.FileType = fileTypes[x.most()]
	if x.typeOf != nil && x.typeOf("file") == "mxfp4" && x.numbers[tensorfs.MXFP4] > 0 {
		x.notes.FileType = fileTypes[tensorfs.MXFP4]
	}
	if x.opts.Quantise != nil {
		x.notes.FileType = x.opts.Quantise.FileType
	}
	for _, of := range slices.Sorted(maps.Keys(x.requantised)) {
		x.notes.Notes = append(x.notes.Notes, fmt.Sprintf("%d tensors were requantised: %s", x.requantised[of], of))
	}
	x.notes.Notes = append(x.notes.Notes, RoundedNotes(x.rounded)...)
	if n := len(x.kept); n > 0 {
		x.notes.Notes = append(x.notes.Notes, fmt.Sprintf("%d tensors are quantised already and stay as they are, the first is %s", n, x.kept[0]))
	}
	return list, x.notes, nil
}
