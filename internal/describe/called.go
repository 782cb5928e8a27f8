package describe

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/internal/cli"
)

// Called returns the tensors that Hugging Face's or GGUF's name, or a glob of such names,
// means in a model, whatever its files call them. It is for what neither a canonical name
// nor one of the model's own has answered.
func Called(m *tensorfs.Model, want string) (list []*tensorfs.Tensor) {
	for _, layout := range []names.Layout{names.HF, names.GGUF} {
		r := names.Map(layout, m.Architecture, []names.Source{{Name: want}})[0]
		if t := tensorCalled(m, r.Name); t != nil && r.Mapped {
			return []*tensorfs.Tensor{t}
		}
	}
	if !strings.ContainsAny(want, `*?[\`) {
		return nil
	}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if t.Owner != "" {
			continue
		}
		if slices.ContainsFunc(spelled(t.Weight()), func(name string) bool { ok, _ := cli.MatchGlob(want, name); return ok }) {
			list = append(list, t)
		}
	}
	return list
}

// tensorCalled finds a tensor by the name under which views show it.
func tensorCalled(m *tensorfs.Model, name string) *tensorfs.Tensor {
	if t := m.Tensor(name); t != nil {
		return t
	}
	if i := slices.IndexFunc(m.Tensors, func(t tensorfs.Tensor) bool { return t.Weight() == name }); i >= 0 {
		return &m.Tensors[i]
	}
	return nil
}

// spelled returns how files of Hugging Face and of GGUF may call a tensor.
func spelled(canonical string) (list []string) {
	parts := strings.Split(canonical, ".")
	var numbers []string // of a layer, and of an expert in it
	places := []string{"{n}", "{e}"}
	for i, p := range parts {
		if p != "" && strings.Trim(p, "0123456789") == "" && len(numbers) < len(places) {
			numbers, parts[i] = append(numbers, p), places[len(numbers)]
		}
	}
	pattern := strings.Join(parts, ".")
	for _, layout := range []names.Layout{names.HF, names.GGUF} {
		for _, s := range names.Spellings(layout, pattern) {
			for i, n := range numbers {
				s = strings.ReplaceAll(s, places[i], n)
			}
			list = append(list, s)
		}
	}
	return list
}

// CanonicalPath puts the canonical name into a path of a view with another name of its
// tensor. ok is whether there is one.
func CanonicalPath(m *tensorfs.Model, path string) (_ string, ok bool) {
	view, name, ok := strings.Cut(path, "/")
	suffix := ""
	if strings.HasPrefix(view, "npy") {
		if stem, cut := strings.CutSuffix(name, ".npy"); cut {
			name, suffix = stem, ".npy"
		}
	}
	if !ok {
		return "", false
	}
	if t := m.TensorBySource(name); t != nil {
		return view + "/" + t.Weight() + suffix, true
	}
	if list := Called(m, name); len(list) == 1 {
		return view + "/" + list[0].Weight() + suffix, true
	}
	return "", false
}
