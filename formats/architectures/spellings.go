package architectures

// config.json has two spellings of some things, and files that people edit have both. What
// counts is what transformers 5 reads. These are the tables of it, the first that counts first.

// FloatTypes are the names of the type of numbers.
var FloatTypes = []string{"dtype", "torch_dtype"}

// RopeObjects are the objects about rotary embeddings. The first that is not empty counts,
// and no member of another one.
var RopeObjects = []string{"rope_scaling", "rope_parameters"}

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
