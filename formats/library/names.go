package library

// candidate is a model with the names that it may have, the best first.
type candidate struct {
	model *Model // nil if it can have none
	names []string
	at    int // of names
}

func (c *candidate) name() string { return c.names[c.at] }

// chooseNames chooses names so that no name equals another or the beginning of another. Two
// equal names both yield. If one name begins with the other, the longer one yields if
// deeper is set, otherwise the shorter one; if that one has no further name, the other
// yields. It returns the models that get no name.
func chooseNames(all []*candidate, deeper bool) (dropped []*Model) {
	for yield(all, deeper) {
	}
	byName := map[string]*candidate{}
	for _, c := range all {
		if byName[c.name()] == nil {
			byName[c.name()] = c
			continue
		}
		dropped = append(dropped, c.model)
		c.model = nil
	}
	for _, c := range all {
		for dir := range above(c.name()) {
			if byName[dir] != nil && c.model != nil {
				dropped = append(dropped, c.model)
				c.model = nil
			}
		}
	}
	return dropped
}

// yield moves candidates to their next names, and reports whether it moved any.
func yield(all []*candidate, deeper bool) bool {
	byName := make(map[string][]*candidate, len(all))
	for _, c := range all {
		byName[c.name()] = append(byName[c.name()], c)
	}
	move := map[*candidate]bool{}
	try := func(c *candidate) bool {
		if c.at+1 == len(c.names) {
			return false
		}
		move[c] = true
		return true
	}
	for _, c := range all {
		if len(byName[c.name()]) > 1 {
			try(c)
		}
		for dir := range above(c.name()) {
			for _, shorter := range byName[dir] {
				first, second := shorter, c
				if deeper {
					first, second = c, shorter
				}
				if !try(first) {
					try(second)
				}
			}
		}
	}
	for c := range move {
		c.at++
	}
	return len(move) > 0
}

// above yields the directories that a path is in, without the top.
func above(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range len(path) {
			if path[i] == '/' && !yield(path[:i]) {
				return
			}
		}
	}
}
