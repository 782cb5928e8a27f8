package fs

import "sync"

// Later is a directory that is made when somebody first looks into it, because
// making it takes time. Mounting the tree and listing the directory above do not
// make it.
type Later struct{ dir func() Dir }

// NewLater returns a directory that build makes, once.
func NewLater(build func() Dir) *Later { return &Later{sync.OnceValue(build)} }

// Len returns the number of entries.
func (l *Later) Len() int { return l.dir().Len() }

// Entry returns entry i.
func (l *Later) Entry(i int) Entry { return l.dir().Entry(i) }

// maxLater is how many entries there may be in a Later and the directories
// below it: as many numbers are kept for them.
const maxLater = 1 << 20

// laterNodes are the nodes of a Later, which are numbered when it is made.
type laterNodes struct {
	nodes func() *nodes
}

// number numbers what is in a directory, from first on. Where the directory
// breaks a rule it is empty, because it is too late to refuse the mount.
func (l *Later) number(as dirNode, first uint64) *laterNodes {
	return &laterNodes{sync.OnceValue(func() *nodes {
		as.Dir = l.dir()
		if as.Dir.Len() <= maxLater {
			if t, err := numberTree(as, first); err == nil && t.next-first <= maxLater {
				return t
			}
		}
		as.Dir = Entries{}
		t, _ := numberTree(as, first)
		return t
	})}
}
