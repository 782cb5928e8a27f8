package cache

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Converted is the part of a cache that keeps converted tensors of models: for
// each model a directory, whose files others write. It is separate from the bytes
// of remote files, and has a limit of its own.
//
//	v1/models/<64 hex>/model.json   what it is made of
//	                   use          locked shared by every process that uses the directory; its mtime is the last use
//	                   write        locked by the process that writes to tree
//	                   tree/        the files
type Converted struct {
	root string // v1; may be ""
}

const (
	modelsDir  = "models"
	treeDir    = "tree"
	recordName = "model.json"
	useName    = "use"
	writeName  = "write"
)

// OpenConverted opens that part of the cache in a directory, "" for DefaultDir. It
// makes what is missing only if told to; without that, a cache that is not there
// is empty.
func OpenConverted(dir string, make bool) (*Converted, error) {
	if dir == "" {
		var err error
		if dir, err = DefaultDir(); err != nil {
			return nil, err
		}
	}
	if make {
		root, err := prepare(dir)
		if err == nil {
			err = makeOwn(filepath.Join(root, modelsDir))
		}
		if err != nil {
			return nil, err
		}
		return &Converted{root}, nil
	}
	return convertedIn(filepath.Join(dir, version))
}

// convertedIn opens what there is below the directory of this version.
func convertedIn(root string) (*Converted, error) {
	for _, d := range []string{filepath.Dir(root), root, filepath.Join(root, modelsDir)} {
		err := checkOwn(d)
		if errors.Is(err, fs.ErrNotExist) {
			return &Converted{}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return &Converted{root}, nil
}

// Converted returns the converted models of the same directory.
func (s *Store) Converted() (*Converted, error) {
	if s.root == "" {
		return &Converted{}, nil
	}
	return convertedIn(s.root)
}

// ConvertedModel is the directory of one model. It is not removed while it is open.
type ConvertedModel struct {
	dir string
	use *os.File
}

// record is model.json.
type record struct {
	Version  int    `json:"version"`
	Source   string `json:"source"`   // for people
	Identity string `json:"identity"` // of all that the bytes of the files depend on
}

const (
	recordVersion = 1
	maxRecord     = 1 << 24
)

// errRemoving is the error that other processes kept removing a directory that was being
// opened.
var errRemoving = errors.New("the directory of a converted model is being removed again and again")

// Model opens the directory of the model of that identity, a text of any length.
// It is nil if the cache has none, unless it is to be made.
func (c *Converted) Model(source, identity string, make bool) (*ConvertedModel, error) {
	if c.root == "" {
		return nil, nil
	}
	dir := filepath.Join(c.root, modelsDir, nameOf(identity))
	for range 100 {
		check := checkOwn
		if make {
			check = makeOwn
		}
		if err := check(dir); errors.Is(err, fs.ErrNotExist) && !make {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		m, err := c.lock(dir, unix.LOCK_SH)
		if err != nil {
			return nil, notUsable(dir, err)
		}
		if m == nil { // another process removes it
			time.Sleep(lockPoll)
			continue
		}
		have, err := readRecord(dir)
		switch {
		case err == nil && have.Identity == identity:
			_ = unix.Futimes(int(m.use.Fd()), nil) // when it was used last is only advice
			return m, nil
		case !make:
			return nil, m.Close()
		case errors.Is(err, fs.ErrNotExist):
			text, err := json.Marshal(record{recordVersion, source, identity})
			if err == nil {
				err = writeFile(filepath.Join(c.root, tmpDir), filepath.Join(dir, recordName), text)
			}
			if err != nil {
				m.Close()
				return nil, notUsable(dir, err)
			}
		default: // damaged: nothing in it can be trusted
			m.Close()
			if _, err := c.remove(dir); err != nil {
				return nil, err
			}
			continue
		}
		return m, nil
	}
	return nil, errRemoving
}

// lock locks a directory; it returns nil if another process holds the lock, or has removed
// the directory.
func (c *Converted) lock(dir string, how int) (*ConvertedModel, error) {
	path := filepath.Join(dir, useName)
	f, ok, err := lockFile(path, how)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !ok {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if there, err := sameFile(f, path); !there {
		f.Close()
		return nil, err
	}
	return &ConvertedModel{dir, f}, nil
}

// remove removes a directory unless a process has it open.
func (c *Converted) remove(dir string) (gone bool, err error) {
	m, err := c.lock(dir, unix.LOCK_EX)
	if err == nil && m != nil {
		defer m.Close()
		err = removeDir(filepath.Join(c.root, tmpDir), dir)
	}
	if err != nil {
		return false, notUsable(dir, err)
	}
	return m != nil, nil
}

func readRecord(dir string) (record, error) {
	var r record
	text, err := readRegular(filepath.Join(dir, recordName), maxRecord)
	if err == nil && (json.Unmarshal(text, &r) != nil || r.Version != recordVersion) {
		err = errBroken
	}
	return r, err
}

// Dir returns the directory of the files.
func (m *ConvertedModel) Dir() string { return filepath.Join(m.dir, treeDir) }

// Close ends the use of the directory. Mappings of its files stay what they are.
func (m *ConvertedModel) Close() error { return m.use.Close() }

// Lock waits until no other process writes to the directory, at most until ctx
// ends. unlock lets others write.
func (m *ConvertedModel) Lock(ctx context.Context) (unlock func(), err error) {
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for {
		f, ok, err := lockFile(filepath.Join(m.dir, writeName), unix.LOCK_EX)
		if err != nil {
			return nil, notUsable(m.dir, err)
		}
		if ok {
			return func() { f.Close() }, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-poll.C:
		}
	}
}

// items returns all directories.
func (c *Converted) items() (list []item) {
	if c.root == "" {
		return nil
	}
	names, _ := os.ReadDir(filepath.Join(c.root, modelsDir))
	for _, n := range names {
		it := item{dir: filepath.Join(c.root, modelsDir, n.Name())}
		walkFiles(it.dir, func(_ string, st *unix.Stat_t) { it.bytes += st.Blocks * 512 })
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(it.dir, useName), &st) == nil {
			it.lastUse = time.Unix(st.Mtim.Unix())
		}
		list = append(list, it)
	}
	return list
}

// walkFiles calls fn for the regular files below a directory, as far as they can be
// seen.
func walkFiles(dir string, fn func(path string, st *unix.Stat_t)) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			fn(path, &st)
		}
		return nil
	})
}

// keepShare is the part of what is free, and of what the converted models take,
// that they may take: a quarter.
const keepShare = 4

// limit is how much the converted models may take on the disk.
func (c *Converted) limit(have int64) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(c.root, &st); err != nil {
		return 0, err
	}
	return (int64(st.Bavail)*int64(st.Bsize) + have) / keepShare, nil
}

// Room makes room for n bytes of a model that is open, by removing other models that
// no process has open, the least recently used ones first. It returns how many of the
// n bytes there is room for. limit is how many bytes all models may take, 0 for the
// usual: a quarter of what is free and what they take.
func (c *Converted) Room(n, limit int64) (int64, error) {
	list := c.items()
	have := diskBytes(list)
	if limit == 0 {
		var err error
		if limit, err = c.limit(have); err != nil {
			return 0, err
		}
	}
	swept, err := c.sweep(list, PruneOptions{Size: limit - n})
	return max(0, min(n, limit-have+swept.Bytes)), err
}

// sweep is sweepItems for the directories of a list.
func (c *Converted) sweep(list []item, o PruneOptions) (Swept, error) {
	sourceOf := func(dir string) (string, error) {
		r, err := readRecord(dir)
		return r.Source, err
	}
	return sweepItems(list, diskBytes(list), o, sourceOf, c.remove)
}

// Prune removes converted models that no process has open.
func (c *Converted) Prune(o PruneOptions) (Swept, error) {
	if c.root == "" {
		return Swept{}, nil
	}
	list := c.items()
	if o.Size < 0 {
		limit, err := c.limit(diskBytes(list))
		if err != nil {
			return Swept{}, err
		}
		o.Size = limit
	}
	return c.sweep(list, o)
}

// List returns the usable converted models, sorted by source.
func (c *Converted) List() []Info {
	list := []Info{}
	for _, it := range c.items() {
		r, err := readRecord(it.dir)
		if err != nil {
			continue
		}
		info := Info{Source: r.Source, Converted: true, Disk: it.bytes, LastUse: it.lastUse}
		tree := filepath.Join(it.dir, treeDir)
		views, _ := os.ReadDir(tree)
		for _, v := range views {
			if v.Name()[0] != '.' { // what is being written
				walkFiles(filepath.Join(tree, v.Name()), func(_ string, st *unix.Stat_t) { info.Bytes += st.Size })
			}
		}
		info.Cached = info.Bytes
		_, err = os.Lstat(filepath.Join(tree, "index.json")) // it is written last
		info.Whole = err == nil
		m, err := c.lock(it.dir, unix.LOCK_EX)
		if info.InUse = m == nil && err == nil; m != nil {
			m.Close()
		}
		list = append(list, info)
	}
	slices.SortStableFunc(list, func(a, b Info) int { return cmp.Compare(a.Source, b.Source) })
	return list
}
