package convert

import (
	"cmp"
	"errors"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
)

// Sized is how large a GGUF file is with a preset.
type Sized struct {
	Name          string  `json:"name"` // of the preset
	Bytes         int64   `json:"bytes"`
	BitsPerWeight float64 `json:"bits_per_weight"`

	Types map[string]tensorfs.DType `json:"-"` // of its tensors, by their names in the file
}

// sizing is what sizes follow from.
type sizing struct {
	taken []fileTensor
	list  []preset.Tensor // the same
	of    preset.Model
}

// Sizes returns the size of a model's GGUF file with each preset, otherwise as configured;
// opts.Quantise is any of them. It leaves out presets that change nothing, and presets that need
// an importance matrix if none is given, or one that lacks a tensor. Everything
// follows from the header of the model: types and shapes determine the sizes of tensors,
// and the data before them is equally long for all presets. made is the file with one of
// them, nil if none was composed: the order of tensors is the same in all of them.
func Sizes(m *tensorfs.Model, opts Options, presets []preset.Preset) (list []Sized, made tensorfs.Data, err error) {
	asked := *opts.Quantise
	var s sizing
	head := int64(-1)
	var needing []*preset.Options // presets that may need an importance matrix come last: the first one is composed
	all := make([]*preset.Options, 0, len(presets))
	for _, p := range presets {
		of := asked
		of.Preset = p
		if of.MayNeedImportance() {
			needing = append(needing, &of)
		} else {
			all = append(all, &of)
		}
	}
	for _, of := range append(all, needing...) {
		p := of.Preset
		opts.Quantise = of
		if head < 0 && Kept(m, opts) != "" {
			continue
		}
		if head < 0 {
			opts.sizing = &s
			f := GGUF(m, opts)
			if opts.sizing = nil; f.Reason != "" {
				return nil, nil, errors.New(f.Reason)
			}
			made = f.List[0].Data
			// In the order in which presets go through them, which is then not to be found again.
			slices.SortStableFunc(s.taken, func(a, b fileTensor) int { return preset.Compare(a.name, b.name) })
			s.list = presetTensors(s.taken)
		}
		types := make(map[string]tensorfs.DType, len(s.taken))
		total, weights, changed, err := opts.sizeOf(m, &s, types)
		if err != nil {
			return nil, nil, err
		}
		if opts.lacksImportance(&s, types) {
			continue
		}
		if head < 0 {
			head = made.Size() - total
		}
		if changed || m.Layout != "gguf" {
			list = append(list, Sized{p.Name, head + total, BitsPerWeight(head+total, weights), types})
		}
	}
	place := func(s Sized) int {
		return slices.IndexFunc(presets, func(p preset.Preset) bool { return p.Name == s.Name })
	}
	slices.SortFunc(list, func(a, b Sized) int { return cmp.Compare(place(a), place(b)) })
	return list, made, nil
}

// lacksImportance reports whether a tensor cannot have its type, because it has no importance.
func (o Options) lacksImportance(s *sizing, types map[string]tensorfs.DType) bool {
	return slices.ContainsFunc(s.taken, func(t fileTensor) bool {
		to := types[t.name]
		return to != t.to && o.Quantise.NeedsImportance(t.name, to) && (o.Importance == nil || o.Importance.Values(t.name) == 0)
	})
}

// sizeOf is how many bytes tensors take in a file, each up to the next one, how many numbers they have, and whether any
// weight gets another type. It notes the types.
func (o Options) sizeOf(m *tensorfs.Model, s *sizing, types map[string]tensorfs.DType) (total, weights int64, changed bool, err error) {
	alignment := int64(32)
	if n, ok := m.Meta("general.alignment").(uint32); ok && m.Layout == "gguf" && n > 0 {
		alignment = int64(n)
	}
	list := s.list
	for i, to := range o.typesOf(s.of, list) {
		if t := s.taken[i]; t.fixed {
			to = t.to
		}
		types[list[i].Name] = to
		size, ok := to.Size(list[i].Shape)
		if !ok {
			return 0, 0, false, errors.New("a tensor is too large")
		}
		n, _ := tensorfs.Elements(list[i].Shape)
		total += (size + alignment - 1) / alignment * alignment
		weights += n
		changed = changed || to != s.taken[i].to
	}
	return total, weights, changed, nil
}

// presetTensors are tensors as presets know them.
func presetTensors(taken []fileTensor) []preset.Tensor {
	list := make([]preset.Tensor, len(taken))
	for i, t := range taken {
		list[i] = preset.Tensor{Name: t.name, Shape: t.tensor.Numbers(), Type: t.to}
		if isRequantised(t.tensor) { // it has no codes that could be kept
			list[i].Type = cmp.Or(t.tensor.Float, t.tensor.DType)
		}
	}
	return list
}
