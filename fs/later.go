package fs

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tensorfs/tensorfs"
)

// maxLater is how many entries there may be in a Later and the directories
// below it: as many numbers are kept for them.
const maxLater = 1 << 20

var errTooMany = errors.New("it has too many files")

// laterNodes are the nodes of a Later. They are numbered from as.base on at the first
// access.
type laterNodes struct {
	later *tensorfs.Later
	as    dirNode
	note  func(*nodes) // may be nil; receives the new nodes first
	mu    sync.Mutex
	made  atomic.Pointer[nodes]
}

// nodes numbers what is in the directory, once. Where the directory breaks a rule it is
// empty, because it is too late to refuse the mount.
func (l *laterNodes) nodes() *nodes {
	if t := l.made.Load(); t != nil {
		return t
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.made.Load(); t != nil {
		return t
	}
	as := l.as
	as.Dir = l.later.Made()
	var t *nodes
	err := errTooMany
	if as.Dir.Len() <= maxLater {
		t, err = numberTree(as, as.base)
	}
	if err != nil || t.next-as.base > maxLater {
		as.Dir = tensorfs.Entries{}
		t, _ = numberTree(as, as.base)
	}
	if l.note != nil {
		l.note(t)
	}
	l.made.Store(t)
	return t
}
