package views

// JoinedParts returns the names of the parts that a canonical name, such as
// layers.0.attention.qkv.weight, joins, and the dimension along which it does; nil if it is
// not a joined tensor's.
func JoinedParts(name string) (parts []string, dim int) {
	tower, at, stem, ok := locate(name)
	for _, g := range groups {
		if ok && g.tower == tower && g.out == stem {
			for _, p := range g.parts {
				parts = append(parts, at.name(p))
			}
			if g.experts {
				dim = 1
			}
			return parts, dim
		}
	}
	return nil, 0
}
