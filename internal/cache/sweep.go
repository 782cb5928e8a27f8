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

// errSweeping says that another sweeps.
var errSweeping = errors.New("another process is sweeping the cache")

// item is an entry on the disk, as a sweep sees it.
type item struct {
	dir     string
	private bool
	bytes   int64 // that it takes on the disk
	lastUse time.Time
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
	for _, it := range list {
		n += it.bytes
	}
	for _, p := range s.pinFiles() {
		n += p.bytes
	}
	return n
}

type sweepOptions struct {
	target int64                          // bytes to sweep down to
	remove func(dir string, m *meta) bool // entries to remove whatever the target; nil: none
	names  bool                           // all pins go too
}

// Swept says what a sweep removed.
type Swept struct {
	Entries int
	Bytes   int64
	InUse   int // entries that would have been removed
}

// sweep removes entries that nobody has open, those that were not used for longest
// first, until the target is met. One that is in use keeps what it has.
func (s *Store) sweep(o sweepOptions) (Swept, error) {
	var result Swept
	lock, ok, err := lockFile(s.path(lockName), unix.LOCK_EX)
	if err != nil {
		return result, err
	}
	if !ok {
		return result, errSweeping
	}
	defer lock.Close()
	s.removeLeftovers()
	list := s.items()
	slices.SortFunc(list, func(a, b item) int { return a.lastUse.Compare(b.lastUse) })
	total := s.used(list)
	if o.names {
		total -= s.removePins(0)
	} else {
		total -= s.removePins(o.target / 16)
	}
	for _, it := range list {
		wanted := total > o.target
		if o.remove != nil && !wanted {
			m, err := readMeta(it.dir)
			wanted = err == nil && o.remove(it.dir, m)
		}
		if !wanted && !it.private {
			continue
		}
		switch gone, err := s.removeUnused(it.dir); {
		case err != nil:
			return result, err
		case gone:
			total -= it.bytes
			result.Entries++
			result.Bytes += it.bytes
		default:
			if wanted {
				result.InUse++
			}
		}
	}
	return result, nil
}

// making is longer than anything is being made: what is older was left by a process
// that was killed. Whoever is slower begins anew.
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

// removeUnused removes an entry unless somebody has it open. Mappings of it stay
// what they are.
func (s *Store) removeUnused(dir string) (gone bool, err error) {
	state, err := openPart(dir, stateName)
	switch {
	case errors.Is(err, errBroken): // nobody can have it open
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
