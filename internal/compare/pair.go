package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
)

// Pair is the tensor of one name in two models, or in one of them. The shapes of
// the two may differ.
type Pair struct {
	Name string           // canonical
	A, B *tensorfs.Tensor // nil in a model that does not have it
}

// Models are the tensors of two models, sorted by name.
type Models struct {
	Pairs []Pair
	// Notes say what was done to compare tensors otherwise than as they are stored, or
	// why that was not possible. A and B are the models.
	Notes []string
}

// Of pairs the tensors of two models. Companions, such as scales, belong to their
// weights.
func Of(a, b *tensorfs.Model) Models {
	x := side{name: "A", m: a}
	y := side{name: "B", m: b}
	x.stored()
	y.stored()
	var notes []string
	switch {
	case a.Layout == b.Layout:
	case a.Layout == "gguf":
		notes = sameLayout(&y, &x)
	default:
		notes = sameLayout(&x, &y)
	}
	joined := append(x.join(&y), y.join(&x)...)
	slices.Sort(joined)
	p := Models{Notes: append(notes, joined...)}
	for name, t := range x.tensors {
		p.Pairs = append(p.Pairs, Pair{name, t, y.tensors[name]})
	}
	for name, t := range y.tensors {
		if x.tensors[name] == nil {
			p.Pairs = append(p.Pairs, Pair{name, nil, t})
		}
	}
	slices.SortFunc(p.Pairs, func(a, b Pair) int { return strings.Compare(a.Name, b.Name) })
	return p
}

// side is one of the models.
type side struct {
	name    string
	m       *tensorfs.Model
	tensors map[string]*tensorfs.Tensor // by the name that they pair by
}

// stored takes the tensors as they are stored.
func (s *side) stored() {
	s.tensors = map[string]*tensorfs.Tensor{}
	for i := range s.m.Tensors {
		if t := &s.m.Tensors[i]; t.Owner == "" {
			s.tensors[t.Weight()] = t
		}
	}
}

const embedding = "token_embedding.weight"

// sameLayout converts a model in Hugging Face's layout to GGUF's or, if only that is known,
// the other way round. It returns notes.
func sameLayout(hf, gguf *side) []string {
	if images.Find(hf.m.Architecture) != nil {
		return hf.denoiser()
	}
	notes, err := hf.toGGUF(gguf)
	note := fmt.Sprintf("%s is in Hugging Face's layout and %s in GGUF's; ", hf.name, gguf.name)
	switch {
	case err == nil:
		return append(notes, note+hf.name+" is compared as a GGUF file has it")
	case gguf.toHF() == nil:
		return []string{note + gguf.name + " is compared as Hugging Face has it"}
	}
	return []string{fmt.Sprintf("the layouts differ, and %s cannot be shown in the layout of %s: %s; tensors are compared as they are stored",
		hf.name, gguf.name, tensorfs.OneLine(err.Error()))}
}

// denoiser takes the tensors of an image model by the names that its GGUF file has, which are
// its own or, if diffusers wrote it, others.
func (s *side) denoiser() []string {
	list, isTranslated, err := convert.Denoiser(s.m)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%s is compared as it is stored: %s", s.name, tensorfs.OneLine(err.Error()))}
	case isTranslated:
		s.take(list)
		return []string{s.name + " has the names of diffusers, and is compared by the reference's"}
	}
	return nil
}

// toHF takes the tensors in Hugging Face's layout.
func (s *side) toHF() error {
	list, err := hf.InLayoutOfHF(s.m)
	if err != nil {
		return err
	}
	s.take(list)
	return nil
}

// take takes tensors by their names.
func (s *side) take(list []tensorfs.Tensor) {
	s.tensors = map[string]*tensorfs.Tensor{}
	for i := range list {
		s.tensors[list[i].Name] = &list[i]
	}
}

// toGGUF takes the tensors in GGUF's layout, which is the other model's, and returns
// notes.
func (s *side) toGGUF(other *side) (notes []string, err error) {
	rows := int64(0)
	if t, o := s.tensors[embedding], other.tensors[embedding]; t != nil && o != nil {
		if a, b := t.Numbers(), o.Numbers(); len(a) == 2 && len(b) == 2 && a[1] == b[1] && b[0] < a[0] {
			rows = b[0]
		}
	}
	list, left, err := convert.InLayoutOfGGUF(s.m, rows)
	if err != nil && rows > 0 {
		rows = 0
		list, left, err = convert.InLayoutOfGGUF(s.m, 0)
	}
	if err != nil {
		return nil, err
	}
	if rows > 0 {
		notes = append(notes, fmt.Sprintf("%s has %d more rows of %s than %s: GGUF files leave out rows without a token; these rows are not compared",
			s.name, s.tensors[embedding].Numbers()[0]-rows, embedding, other.name))
	}
	s.take(list)
	var without []string
	for i := range left {
		if name := left[i].Weight(); other.tensors[name] != nil && s.tensors[name] == nil {
			s.tensors[name] = &left[i]
		} else {
			without = append(without, name)
		}
	}
	if n := len(without); n > 0 {
		slices.Sort(without)
		notes = append(notes, fmt.Sprintf("not compared, because GGUF files have no such tensors: %d of %s, the first is %s", n, s.name, tensorfs.Printable(without[0])))
	}
	return notes, nil
}
