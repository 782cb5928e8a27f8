package architectures

import (
	"iter"
	"slices"
	"strings"
)

// config.json has two spellings of some things, and files that people edit have both. What
// counts is what transformers 5 reads. These are the tables of it, the first that counts first.

// FloatTypes are the names of the type of numbers.
var FloatTypes = []string{"dtype", "torch_dtype"}

// RopeObjects are the objects about rotary embeddings. The first that is not empty counts,
// and no member of another one.
var RopeObjects = []string{"rope_scaling", "rope_parameters"}

// EachElement is what names of fields have instead of the objects of a list: a.each.b is b of each
// object of the list a.
const EachElement = ".each."

// RopeMembers are the fields that may also be outside of such an object. Inside counts.
var RopeMembers = []string{"rope_theta", "partial_rotary_factor"}

// RopePaths returns the paths of the objects whose members count, the first before the
// second. There are two if one object is for all layers and the other contains an object
// for the layers with full attention: classes that know such objects put the first into it.
// A scope is a prefix of paths, and the first that is about rotary embeddings counts. The
// function isSet reports whether a path has a value, other than null and an empty object.
func RopePaths(isSet func(path string) bool, scopes ...string) (paths []string) {
	for _, scope := range scopes {
		for _, name := range RopeObjects {
			path, full := scope+name, scope+name+".full_attention"
			switch {
			case isSet(full):
				return append(paths, full)
			case isSet(path) && paths == nil:
				paths = append(paths, path)
			}
		}
		for _, name := range RopeMembers {
			if paths != nil || isSet(scope+name) {
				return paths
			}
		}
	}
	return nil
}

// RopeMember returns the name that a field about rotary embeddings has in the objects about
// them. Fields that may only be there are named "rope.NAME" here.
func RopeMember(field string) (name string, ok bool) {
	name, ok = strings.CutPrefix(field, "rope.")
	return name, ok || slices.Contains(RopeMembers, field)
}

// FieldPaths yields the paths at which a config.json may have one of some fields, the first that
// counts first, with the index of the field. A scope counts before the next with all spellings,
// and in a scope the objects about rotary embeddings, at the paths rope, before what is outside.
func FieldPaths(fields, rope []string, scopes ...string) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for _, scope := range scopes {
			for i, field := range fields {
				name, isMember := RopeMember(field)
				for _, object := range rope {
					if isMember && !yield(object+"."+name, i) {
						return
					}
				}
				if name == field && !yield(scope+field, i) {
					return
				}
			}
		}
	}
}
