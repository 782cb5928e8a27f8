package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is the file that a sweep locks, so that there is one at a time.
const lockName = "lock"

// errSweeping is the error that another process is sweeping.
var errSweeping = errors.New("another process is sweeping the cache")

// item is what a sweep removes as a whole: the directory of an entry or of a converted
// model, or the file of a name.
type item struct {
	dir     string
	private bool  // it ends with its process
	bytes   int64 // that it takes on the disk
	lastUse time.Time
}

// diskBytes returns how many bytes items take on the disk together.
func diskBytes(list []item) (bytes int64) {
	for _, it := range list {
		bytes += it.bytes
	}
	return bytes
}

// itemCost is what an entry takes on the disk besides its data and state: its
// directory, meta.json and whole.
const itemCost = 12 << 10

// items returns all entries. What cannot be read is not there.
func (s *Store) items() []item {
	var list []item
	groups, _ := os.ReadDir(s.path(filesDir))
	for _, group := range groups {
		names, _ := os.ReadDir(s.path(filesDir, group.Name()))
		for _, name := range names {
			dir := s.path(filesDir, group.Name(), name.Name())
			it := item{dir: dir, private: group.Name() == privateDir, bytes: itemCost}
			for _, part := range []string{dataName, stateName} {
				var st unix.Stat_t
				if unix.Lstat(filepath.Join(dir, part), &st) == nil {
					it.bytes += st.Blocks * 512
					it.lastUse = time.Unix(st.Mtim.Unix()) // of the state, the last
				}
			}
			list = append(list, it)
		}
	}
	return list
}

// used returns what the entries, the names and what is left half made take on the disk.
func (s *Store) used(list []item) int64 {
	n := int64(0)
	walkFiles(s.path(tmpDir), func(_ string, st *unix.Stat_t) { n += st.Blocks * 512 })
	return n + diskBytes(s.pinFiles()) + diskBytes(list)
}

// Swept counts what a sweep removed.
type Swept struct {
	Entries int
	Bytes   int64
	InUse   int // entries that would have been removed
}

// sweep removes entries that no process uses, the least recently used ones first, until the
// store has no more than o.Size bytes, and the names beyond their share.
func (s *Store) sweep(o PruneOptions) (Swept, error) {
	lock, ok, err := lockFile(s.path(lockName), unix.LOCK_EX)
	if err != nil {
		return Swept{}, err
	}
	if !ok {
		return Swept{}, errSweeping
	}
	defer lock.Close()
	s.removeLeftovers()
	list := s.items()
	total := s.used(list)
	if o.Names {
		total -= s.removePins(0)
	} else {
		total -= s.removePins(o.Size / 16)
	}
	sourceOf := func(dir string) (string, error) {
		m, err := readMeta(dir)
		if err != nil {
			return "", err
		}
		return m.Source, nil
	}
	return sweepItems(list, total, o, sourceOf, s.removeUnused)
}

// sweepItems removes items, the least recently used ones first, until total is no more
// than o.Size, and all that o matches by what sourceOf returns. remove removes one unless
// a process has it open.
func sweepItems(list []item, total int64, o PruneOptions, sourceOf func(dir string) (string, error), remove func(dir string) (gone bool, err error)) (swept Swept, err error) {
	slices.SortFunc(list, func(a, b item) int { return a.lastUse.Compare(b.lastUse) })
	for _, it := range list {
		wanted := total > o.Size
		if o.Match != nil && !wanted {
			source, err := sourceOf(it.dir)
			wanted = err == nil && o.Match(source)
		}
		if !wanted && !it.private {
			continue
		}
		gone, err := remove(it.dir)
		switch {
		case err != nil:
			return swept, err
		case gone:
			total -= it.bytes
			swept.Entries++
			swept.Bytes += it.bytes
		case wanted:
			swept.InUse++
		}
	}
	return swept, nil
}

// making is longer than it takes to make anything: what is older was left by a process
// that was killed. A process that is slower starts again.
const making = 10 * time.Minute

// removeLeftovers removes what killed processes left half made or half removed.
func (s *Store) removeLeftovers() {
	names, _ := os.ReadDir(s.path(tmpDir))
	for _, n := range names {
		st, err := n.Info()
		if err == nil && (strings.HasPrefix(n.Name(), "gone-") || time.Since(st.ModTime()) > making) {
			_ = os.RemoveAll(s.path(tmpDir, n.Name())) // the next sweep tries again
		}
	}
}

// removeUnused removes an entry unless a process has it open. Mappings of it stay
// what they are.
func (s *Store) removeUnused(dir string) (gone bool, err error) {
	state, err := openPart(dir, stateName)
	switch {
	case errors.Is(err, errBroken): // no process can have it open
		return true, removeDir(s.path(tmpDir), dir)
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	}
	defer state.Close()
	if alone, err := flock(state, unix.LOCK_EX); !alone {
		return false, err
	}
	return true, removeDir(s.path(tmpDir), dir)
}
