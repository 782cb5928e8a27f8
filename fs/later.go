package fs

import (
	"sync"

	"github.com/tensorfs/tensorfs"
)

// maxLater is how many entries there may be in a Later and the directories
// below it: as many numbers are kept for them.
const maxLater = 1 << 20

// laterNodes are the nodes of a Later, which are numbered when it is made.
type laterNodes struct {
	nodes func() *nodes
}

// numberLater numbers what is in a directory, from first on. Where the directory
// breaks a rule it is empty, because it is too late to refuse the mount.
func numberLater(l *tensorfs.Later, as dirNode, first uint64) *laterNodes {
	return &laterNodes{sync.OnceValue(func() *nodes {
		as.Dir = l.Made()
		if as.Dir.Len() <= maxLater {
			if t, err := numberTree(as, first); err == nil && t.next-first <= maxLater {
				return t
			}
		}
		as.Dir = tensorfs.Entries{}
		t, _ := numberTree(as, first)
		return t
	})}
}
