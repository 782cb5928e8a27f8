package recipe

import "strings"

// Setting is the value of a parameter, as a recipe writes it.
type Setting struct {
	value   any       // a float64, bool or string, if one value is for all
	list    []any     // values from the first layer to the last one, of any of these types
	numbers []float64 // the numbers of list
	filter  []where   // values by the tensor's name; the first that fits decides
}

// where is a filter of a setting: tensors whose names contain text get the value.
type where struct {
	text  string // "" and "*" for all
	value Setting
}

// At returns the value for a tensor of that Hugging Face name at the place t of its slice,
// 0 in the first layer and 1 in the last. It is a float64, bool or string; ok is false where
// the setting has no value for the tensor.
//
// A list of numbers is a gradient: its values are at equal distances from 0 to 1, and are
// interpolated in between. From any other list, At returns the element at or before the
// place.
func (s *Setting) At(tensor string, t float64) (value any, ok bool) {
	return s.at(tensor, t, new(int))
}

// at is At, and adds to steps what filters cost.
func (s *Setting) at(tensor string, t float64, steps *int) (value any, ok bool) {
	switch {
	case s.value != nil:
		return s.value, true
	case len(s.list) > 0:
		return s.gradient(t), true
	}
	for i := range s.filter {
		w := &s.filter[i]
		*steps += 1 + len(tensor)/32
		if w.text == "" || w.text == "*" || strings.Contains(tensor, w.text) {
			return w.value.at(tensor, t, steps)
		}
	}
	return nil, false
}

// gradient is a list's value at the place t.
func (s *Setting) gradient(t float64) any {
	last := len(s.list) - 1
	u := t * float64(last)
	i := int(u)
	if len(s.numbers) < len(s.list) {
		return s.list[i]
	}
	part := u - float64(i)
	// The products are rounded one by one, as Python does.
	low, high := float64((1-part)*s.numbers[i]), float64(part*s.numbers[min(i+1, last)])
	return low + high
}
