package cache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	metaName  = "meta.json"
	dataName  = "data"
	stateName = "state"
	wholeName = "whole"
)

// disk is an entry's files, open.
type disk struct {
	s      *Store
	entry  *Entry
	dir    string // where they were opened; see place
	shared string // where they are once they are whole
	size   int64
	meta   *meta
	state  *os.File // locked, shared
	data   *os.File
	cells  *cells

	whole     atomic.Bool
	looked    atomic.Int64 // when whole was last looked for
	dead      atomic.Bool  // nothing is read or stored here any more
	unwritten atomic.Bool  // nothing is stored here any more

	writers writers
	verify  *verifier // nil: no digest is known

	syncing  sync.Mutex
	anchored bool // the directory is durable

	// What runs in the background until close.
	ctx    context.Context
	cancel context.CancelFunc
	bg     sync.Mutex
	closed bool
	timer  *time.Timer // of the next sync, nil: nothing is to be synced
	dirty  int64
	jobs   sync.WaitGroup
}

const (
	// lockPoll is how often a lock is asked for that another has.
	lockPoll = 20 * time.Millisecond
	// lockPatience is how long one is waited for that is held only for moments.
	lockPatience = 5 * time.Second
)

// errBroken marks files of an entry that do not fit each other.
var errBroken = errors.New("not a usable entry")

// openDisk opens the files of an entry, and makes them where there are none, or
// none that can be used.
func (s *Store) openDisk(e *Entry) (*disk, error) {
	id := &e.id
	own, shared := s.dirs(id)
	broken, trusted := 0, true
	for deadline := time.Now().Add(lockPatience); ; {
		dir := own
		if trusted && markOf(shared) == id.Digest {
			dir = shared
		}
		d, err := s.openFiles(dir, shared, id)
		switch {
		case err == nil && dir != own && !d.whole.Load(): // it may be of any server
			trusted = false
			d.cancel()
			if err := d.closeFiles(); err != nil {
				return nil, err
			}
		case err == nil:
			d.entry = e
			if d.whole.Load() {
				d.share() // it was not, where that was cut off
			}
			return d, nil
		case errors.Is(err, fs.ErrNotExist) && dir != own: // it was swept just now
		case errors.Is(err, fs.ErrNotExist):
			if err := s.makeFiles(own, id); err != nil {
				return nil, err
			}
		case errors.Is(err, errBroken):
			if broken++; broken > 2 {
				return nil, err
			}
			s.log.Warn("an entry of the cache cannot be used and is begun anew", "source", id.Source, "error", err.Error())
			if err := removeDir(s.path(tmpDir), dir); err != nil {
				return nil, err
			}
		case errors.Is(err, unix.EWOULDBLOCK):
			time.Sleep(lockPoll)
		default:
			return nil, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s: another process keeps it locked: %w", dir, unix.EWOULDBLOCK)
		}
	}
}

// dirs returns the directories of an entry: its server's own, and the one that it
// shares with others once it is whole. Before that no other server's entry is read,
// written or locked: anybody can state a digest and send other bytes.
//
//	files/<own>/      made, filled, verified        of one server
//	      |  whole is written, then it is renamed
//	files/<shared>/   used if it is whole           by all that state the digest
func (s *Store) dirs(id *ID) (own, shared string) {
	at := func(name string) string { return s.path(filesDir, name[:2], name) }
	own, shared = id.names()
	if id.Private {
		own = s.path(filesDir, privateDir, own)
		return own, own
	}
	return at(own), at(shared)
}

// markOf returns the digest for which an entry says that it is whole, "" for none.
func markOf(dir string) string {
	text, _ := readRegular(filepath.Join(dir, wholeName), maxMeta) // what cannot be read says nothing
	return strings.TrimSuffix(string(text), "\n")
}

// place returns where the files are: another process may have shared them.
func (d *disk) place() string {
	if d.dir != d.shared {
		if there, _ := sameFile(d.state, filepath.Join(d.shared, stateName)); there {
			return d.shared
		}
	}
	return d.dir
}

// share gives a whole entry the name that is of its digest alone. Where that fails,
// or another was faster, it stays its server's, and is swept when it was not used
// for long.
func (d *disk) share() {
	ours, _ := sameFile(d.state, filepath.Join(d.dir, stateName))
	if d.dir == d.shared || !ours || markOf(d.shared) == d.verify.digest {
		return
	}
	// What is there and not whole is of a program that did not tell servers apart.
	if _, err := d.s.removeUnused(d.shared); err != nil {
		return
	}
	if err := os.Mkdir(filepath.Dir(d.shared), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return
	}
	if os.Rename(d.dir, d.shared) == nil {
		_ = errors.Join(syncPath(filepath.Dir(d.shared)), syncPath(d.s.path(filesDir))) // else the next who opens it shares it
	}
}

// makeFiles makes an entry without any cell. It is made under another name, so
// that it has its own only when it is complete; where another was faster, its
// entry stays. It is made durable by the first sync.
func (s *Store) makeFiles(dir string, id *ID) (err error) {
	if !s.keeper.room(stateSize(id.Size)) || stateSize(id.Size) > s.keeper.limit.Load()/16 {
		return fmt.Errorf("the cache has no room for a file of %d bytes: %w", id.Size, unix.ENOSPC)
	}
	made := s.path(tmpDir, "new-"+randomName())
	if err := os.Mkdir(made, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(made)
		}
	}()
	text, err := json.Marshal(meta{metaVersion, id.Key, id.Server, id.Size, id.Source, id.Digest, id.ModTime, time.Now(), id.Private})
	if err != nil {
		return err
	}
	if len(text) > maxMeta {
		return fmt.Errorf("the name of the entry is too long for the cache: %w", errBroken)
	}
	if err := os.WriteFile(filepath.Join(made, metaName), text, 0o600); err != nil {
		return err
	}
	for name, fill := range map[string]func(f *os.File) error{
		dataName: func(f *os.File) error { return f.Truncate(id.Size) },
		stateName: func(f *os.File) error {
			if err := preallocate(f, stateSize(id.Size)); err != nil {
				return err
			}
			_, err := f.WriteAt(stateHeader(id.Size, s.boot), 0)
			return err
		},
	} {
		f, err := os.OpenFile(filepath.Join(made, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		if err := errors.Join(fill(f), f.Close()); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Dir(dir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	switch err := os.Rename(made, dir); {
	case errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY):
		return os.RemoveAll(made)
	case errors.Is(err, fs.ErrNotExist): // the directory above was removed meanwhile
		return os.RemoveAll(made)
	default:
		return err
	}
}

// openFiles opens an entry that exists. The error is fs.ErrNotExist where it does
// not, errBroken where it cannot be used, EWOULDBLOCK while another has it alone.
func (s *Store) openFiles(dir, shared string, id *ID) (_ *disk, err error) {
	if _, err := os.Lstat(dir); err != nil {
		return nil, err
	}
	d := &disk{s: s, dir: dir, shared: shared, size: id.Size}
	defer func() {
		if err != nil {
			d.closeFiles()
		}
	}()
	if d.state, err = openPart(dir, stateName); err != nil {
		return nil, err
	}
	alone, err := flock(d.state, unix.LOCK_EX)
	if err == nil && !alone {
		var ok bool
		if ok, err = flock(d.state, unix.LOCK_SH); err == nil && !ok {
			err = unix.EWOULDBLOCK
		}
	}
	if err != nil {
		return nil, err
	}
	if d.data, err = openPart(dir, dataName); err != nil {
		return nil, err
	}
	if d.meta, err = readMeta(dir); err != nil {
		return nil, err
	}
	if !d.meta.is(id, dir == shared) {
		return nil, fmt.Errorf("%w: meta.json: it is of another file", errBroken)
	}
	if err := d.checkSizes(); err != nil {
		return nil, err
	}
	if d.cells, err = mapCells(int(d.state.Fd()), d.size); err != nil {
		return nil, err
	}
	err = d.cells.guard(func() error { return d.recover(alone) })
	if err != nil {
		return nil, err
	}
	if alone { // another may take it alone in between, so the name is looked at afterwards
		ok, err := flock(d.state, unix.LOCK_SH)
		if err == nil && !ok {
			err = unix.EWOULDBLOCK
		}
		if err != nil {
			return nil, err
		}
	}
	linked, err := sameFile(d.state, filepath.Join(dir, stateName))
	if err == nil && !linked {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	d.touch()
	d.ctx, d.cancel = context.WithCancel(context.Background())
	if id.Digest != "" {
		d.verify = newVerifier(id.Digest, d.size)
	}
	if err := d.cells.guard(func() error { d.lookWhole(); return nil }); err != nil {
		return nil, err
	}
	return d, nil
}

// openPart opens a file of an entry. A directory that lacks one is broken: entries
// come and go as a whole.
func openPart(dir, name string) (*os.File, error) {
	f, err := openRegular(filepath.Join(dir, name), os.O_RDWR)
	if err == nil {
		return f, nil
	}
	if _, derr := os.Lstat(dir); derr != nil {
		return nil, derr
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) {
		return nil, fmt.Errorf("%w: %s: %v", errBroken, name, err)
	}
	return nil, err
}

func readMeta(dir string) (*meta, error) {
	f, err := openPart(dir, metaName)
	if err != nil {
		return nil, err
	}
	text, err := readAll(f, maxMeta)
	if err != nil {
		return nil, err
	}
	m, err := parseMeta(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	return m, nil
}

// checkSizes holds that state and data have the lengths that the size asks for.
func (d *disk) checkSizes() error {
	for _, p := range []struct {
		f    *os.File
		name string
		want int64
	}{{d.state, stateName, stateSize(d.size)}, {d.data, dataName, d.size}} {
		st, err := p.f.Stat()
		if err != nil {
			return err
		}
		if st.Size() != p.want {
			return fmt.Errorf("%w: %s: it has %d bytes instead of %d", errBroken, p.name, st.Size(), p.want)
		}
	}
	return nil
}

// recover looks at the header and, when no other process has the entry, ends what
// others left behind. Where another has it, that one did.
func (d *disk) recover(alone bool) error {
	header := bytes.Clone(d.cells.mem[:headerSize])
	if err := checkHeader(header, d.size); err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	ours := ofBoot(header, d.s.boot)
	if !alone {
		if !ours { // it is just being opened by another
			return unix.EWOULDBLOCK
		}
		return nil
	}
	d.cells.recover(!ours)
	copy(d.cells.mem[bootAt:headerSize], stateHeader(d.size, d.s.boot)[bootAt:])
	if !d.cells.allDurable() {
		if err := os.Remove(filepath.Join(d.dir, wholeName)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func sameFile(f *os.File, path string) (bool, error) {
	a, err := f.Stat()
	if err != nil {
		return false, err
	}
	b, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(a, b), err
}

// touch says when the entry was used last: those that were not for longest are
// swept first, and it does no harm if that fails.
func (d *disk) touch() {
	now := time.Now()
	_ = os.Chtimes(filepath.Join(d.place(), stateName), now, now)
}

// closeFiles closes what is open.
func (d *disk) closeFiles() error {
	var errs []error
	if d.cells != nil {
		errs = append(errs, d.cells.unmap())
	}
	for _, f := range []*os.File{d.data, d.state} { // the lock last
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// close ends what runs, makes what was written durable, and closes the files.
func (d *disk) close() error {
	d.bg.Lock()
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
	}
	d.bg.Unlock()
	d.cancel()
	d.jobs.Wait()
	var err error
	switch {
	case d.meta.Private:
		err = removeDir(d.s.path(tmpDir), d.dir)
	case !d.dead.Load():
		if d.entry.first && !d.whole.Load() { // it takes no time, and it is whole from now on
			_ = d.hashUntil(context.Background(), d.size) // else the next who opens it does
		}
		d.settle(false)
		d.touch()
	}
	return errors.Join(err, d.closeFiles())
}

// run runs fn in the background, unless the entry is being closed.
func (d *disk) run(fn func()) {
	d.bg.Lock()
	defer d.bg.Unlock()
	if !d.closed {
		d.jobs.Go(fn)
	}
}
