package settings

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// checkUnknown refuses a config.json with a field that the description of the architecture
// does not know, and that may change what the model computes.
func (s *Model) checkUnknown() {
	for _, o := range []jsonobj.Object{s.cfg.text, s.cfg.top} {
		for name := range o.All() {
			if s.cfg.asked[name] || s.arch.Knows(name) || saysNothing(name, o.Value(name)) {
				continue
			}
			s.refuse("%s is %s, and what it means for a model of %s is not known", tensorfs.Quote(name), Shown(o.Value(name)), s.arch.GGUF)
			return
		}
	}
}

// checkUnknownRope does the same for what it says about rotary embeddings, of which kinds
// of layers may have objects of their own.
func (s *Model) checkUnknownRope() {
	for _, o := range []jsonobj.Object{s.cfg.text, s.cfg.top} {
		for _, name := range ropeObjects {
			rope := o.Object(name)
			s.checkRopeMembers(name, rope)
			for kind := range rope.All() {
				s.checkRopeMembers(name+"."+kind, rope.Object(kind))
			}
		}
	}
}

func (s *Model) checkRopeMembers(object string, o jsonobj.Object) {
	for name, raw := range o.All() {
		v := o.Value(name)
		if raw.Kind() == '{' || s.cfg.askedRope[name] || s.arch.Knows("rope."+name) || saysNothing(name, v) {
			continue
		}
		s.refuse("%s is %s, and what it means for a model of %s is not known", tensorfs.Quote(object+"."+name), Shown(v), s.arch.GGUF)
		return
	}
}

// meaningful are parts of names whose texts are not the names of something.
var meaningful = []string{"act", "alibi", "attention", "attn", "func", "kind", "method", "mode", "norm", "position", "rope", "rotary", "type"}

// saysNothing reports whether a field has a value that changes nothing: null, false, 0,
// an empty one, layers that all see everything, or a text that only names something.
func saysNothing(name string, v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == "" || !slices.ContainsFunc(meaningful, func(part string) bool { return strings.Contains(name, part) })
	case tensorfs.JSON:
		return v == "{}"
	case tensorfs.Array:
		for e := range v.Values() {
			if e != fullLayer {
				return false
			}
		}
		return true
	}
	x, ok := finite(v)
	return ok && x == 0
}
