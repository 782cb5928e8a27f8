package cache

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Info describes an entry on the disk.
type Info struct {
	Source  string    `json:"source"`
	Bytes   int64     `json:"bytes"`  // of the file
	Cached  int64     `json:"cached"` // of them local
	Disk    int64     `json:"disk"`   // that the entry takes
	Whole   bool      `json:"whole"`
	LastUse time.Time `json:"last_use"`
	InUse   bool      `json:"in_use"`
	Digest  string    `json:"digest,omitempty"`
	// Converted marks converted tensors of a model, see [Converted].
	Converted bool `json:"converted,omitempty"`
}

// List returns the usable entries on the disk, sorted by source.
func (s *Store) List() ([]Info, error) {
	list := []Info{}
	if s.root == "" {
		return list, nil
	}
	for _, it := range s.items() {
		m, err := readMeta(it.dir)
		if err != nil {
			continue
		}
		cached, inUse, err := look(it.dir, m.Size)
		if err != nil {
			continue
		}
		_, err = os.Lstat(filepath.Join(it.dir, wholeName))
		list = append(list, Info{Source: m.Source, Bytes: m.Size, Cached: cached, Disk: it.bytes, Whole: err == nil, LastUse: it.lastUse, InUse: inUse, Digest: m.Digest})
	}
	slices.SortFunc(list, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), a.LastUse.Compare(b.LastUse))
	})
	return list, nil
}

// look returns how many bytes of an entry are local, and whether a process has it
// open.
func look(dir string, size int64) (cached int64, inUse bool, err error) {
	d := &disk{size: size}
	defer d.closeFiles()
	if err := d.openParts(dir); err != nil {
		return 0, false, err
	}
	err = d.eachCell(0, cellsOf(size), func(i int64, sum uint32) bool {
		if sum != 0 {
			cached += min(CellSize, size-i*CellSize)
		}
		return true
	})
	if err != nil {
		return 0, false, err
	}
	alone, err := flock(d.state, unix.LOCK_EX)
	return cached, !alone, err
}

// PruneOptions select what to remove: entries until the cache has no more than Size bytes,
// and entries that Match.
type PruneOptions struct {
	Size  int64                    // negative: the budget
	Match func(source string) bool // nil: none
	Names bool                     // what names were pinned to goes too
}

// prunePatience is how long Prune waits for the sweep of another process.
const prunePatience = 10 * time.Second

// Prune removes entries that no process has open.
func (s *Store) Prune(o PruneOptions) (Swept, error) {
	if s.root == "" {
		return Swept{}, nil
	}
	if o.Size < 0 {
		_, o.Size = s.keeper.count()
	}
	for deadline := time.Now().Add(prunePatience); ; time.Sleep(lockPoll) {
		swept, err := s.sweep(o)
		if err != errSweeping || time.Now().After(deadline) {
			return swept, err
		}
	}
}

// PruneAll prunes remote files and the converted models of the same directory.
func (s *Store) PruneAll(o PruneOptions) (files, models Swept, err error) {
	c, err := s.Converted()
	if err != nil {
		return files, models, err
	}
	ofModels := o
	if o.Size > 0 && o.Match == nil {
		if o.Size, ofModels.Size, err = s.shares(c, o.Size); err != nil {
			return files, models, err
		}
	}
	if files, err = s.Prune(o); err != nil {
		return files, models, err
	}
	models, err = c.Prune(ofModels)
	return files, models, err
}

// shares returns how much of a size remote files and converted models get when together
// they keep the most recently used.
func (s *Store) shares(c *Converted, limit int64) (ofFiles, ofModels int64, err error) {
	list, err := s.List()
	if err != nil {
		return 0, 0, err
	}
	list = append(list, c.List()...)
	slices.SortStableFunc(list, func(a, b Info) int { return b.LastUse.Compare(a.LastUse) })
	total := int64(0)
	for _, f := range list {
		if f.Converted && total+f.Disk <= limit {
			ofModels += f.Disk
		}
		total += f.Disk
	}
	return limit - ofModels, ofModels, nil
}
