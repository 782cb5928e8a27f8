package settings

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// isOfEach reports whether a name is one of fields in each object of a list.
func isOfEach(name string) bool { return strings.Contains(name, architectures.EachElement) }

// each returns the values of a field in the objects of a list, and nil in the list where an object
// lacks the field. It is nil if the list is missing.
func (s Fields) each(name string) any {
	s.ask(name)
	list, field, _ := strings.Cut(name, architectures.EachElement)
	objects := s.objects(list)
	if objects == nil {
		return nil
	}
	values := make([]any, len(objects))
	for i, o := range objects {
		v, _ := o.Lookup(field)
		values[i] = plainValue(v)
	}
	return values
}

// objects returns the objects of a list, nil if the field is not a list of at most maxList objects.
func (s Fields) objects(name string) []jsonobj.Object {
	if all, ok := s.elements[name]; ok {
		return all
	}
	raw := s.text.Raw(name)
	if raw.Kind() == 0 {
		raw = s.top.Raw(name)
	}
	all := elementsOf(raw)
	if s.elements != nil {
		s.elements[name] = all
	}
	return all
}

func elementsOf(raw jsonobj.Raw) (all []jsonobj.Object) {
	for e := range raw.Elements() {
		if e.Kind() != '{' || len(all) == maxList {
			return nil
		}
		all = append(all, e.Object())
	}
	return slices.Clip(all)
}
