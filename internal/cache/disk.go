package cache

import (
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

// disk is an entry's open files. A process that has an entry open holds a shared lock on
// state; one that changes the entry, or makes it whole, has data locked as well: see exclusively.
type disk struct {
	s      *Store
	entry  *Entry
	id     *ID
	size   int64
	meta   *meta
	state  *os.File
	data   *os.File
	proven []atomic.Uint64 // a bit for each cell

	whole     atomic.Bool
	looked    atomic.Int64 // when whole was last looked for
	dead      atomic.Bool  // nothing is read or stored here any more
	unwritten atomic.Bool  // nothing is stored here any more
	loses     atomic.Bool
	lost      sync.Map // numbers of cells that are absent only in this process

	writing sync.Mutex
	verify  *verifier

	// What runs in the background until close.
	ctx    context.Context
	cancel context.CancelFunc
	bg     sync.Mutex
	closed bool
	timer  *time.Timer // of the next look whether all is there
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

// openDisk opens the files of an entry, and makes them if they are missing or unusable.
func (s *Store) openDisk(e *Entry) (*disk, error) {
	id := &e.id
	own, shared := s.dirs(id)
	broken, trusted := 0, true
	for deadline := time.Now().Add(lockPatience); ; {
		dir := own
		if trusted && markOf(shared) == id.Digest {
			dir = shared
		}
		d, err := s.openFiles(dir, e)
		switch {
		case err == nil && dir != own && !d.whole.Load(): // it may be of any server
			trusted = false
			if err := d.closeFiles(); err != nil {
				return nil, err
			}
			_, _ = s.removeUnused(shared) // else it is in the way, and this one stays its server's
		case err == nil:
			d.ctx, d.cancel = context.WithCancel(context.Background())
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
			s.log.Warn("an entry of the cache cannot be used and is started again", "source", id.Source, "error", err.Error())
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
// written or locked: any server can state a digest and send other bytes.
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

// markOf returns the digest with which an entry is marked as whole, "" if it is not.
func markOf(dir string) string {
	text, _ := readRegular(filepath.Join(dir, wholeName), maxMeta) // an unreadable mark counts as missing
	return strings.TrimSuffix(string(text), "\n")
}

// place returns where the files are: another process may have shared them.
func (d *disk) place() string {
	own, shared := d.s.dirs(d.id)
	if own != shared && d.isAt(shared) {
		return shared
	}
	return own
}

func (d *disk) isAt(dir string) bool {
	there, _ := sameFile(d.state, filepath.Join(dir, stateName))
	return there
}

// share renames a whole entry after only its digest. If that fails, or another process was
// faster, the entry stays its server's, and is swept when it has not been used for long.
func (d *disk) share() {
	own, shared := d.s.dirs(d.id)
	if own != shared && d.isAt(own) && markOf(shared) != d.id.Digest {
		// What is there and not whole is of a program that did not tell servers apart.
		_ = d.s.move(own, shared) // else the next process that opens it shares it
	}
}

// move gives an entry another name, unless a process has the entry of that name open.
func (s *Store) move(from, to string) error {
	if gone, err := s.removeUnused(to); !gone {
		return errors.Join(err, unix.EWOULDBLOCK)
	}
	if err := makeAbove(to); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(syncPath(filepath.Dir(to)), syncPath(s.path(filesDir)))
}

func makeAbove(dir string) error {
	if err := os.Mkdir(filepath.Dir(dir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// makeFiles makes an entry without any cell. It is made under another name, so
// that it has its own only when it is complete; where another was faster, its
// entry stays.
func (s *Store) makeFiles(dir string, id *ID) (err error) {
	if !s.keeper.room(itemCost) {
		return fmt.Errorf("the cache has no room for another file: %w", unix.ENOSPC)
	}
	made := s.path(tmpDir, "new-"+randomName())
	if err := os.Mkdir(made, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(made) // where it was not renamed
	text, err := json.Marshal(meta{metaVersion, id.Key, id.Server, id.Size, id.Source, id.Digest, id.ModTime, time.Now(), id.Private})
	if err != nil {
		return err
	}
	if len(text) > maxMeta {
		return fmt.Errorf("the name of the entry is too long for the cache: %w", errBroken)
	}
	for _, f := range []struct {
		name string
		text []byte
		size int64
	}{{metaName, text, int64(len(text))}, {dataName, nil, id.Size}, {stateName, stateHeader(id.Size), stateSize(id.Size)}} {
		path := filepath.Join(made, f.name)
		if err := os.WriteFile(path, f.text, 0o600); err != nil {
			return err
		}
		if err := os.Truncate(path, f.size); err != nil {
			return err
		}
	}
	if err := makeAbove(dir); err != nil {
		return err
	}
	err = os.Rename(made, dir)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, fs.ErrNotExist) { // or the directory above was removed
		return nil
	}
	return err
}

// openFiles opens an entry that exists. The error is fs.ErrNotExist if it does not,
// errBroken if it cannot be used, EWOULDBLOCK while another process removes it.
func (s *Store) openFiles(dir string, e *Entry) (_ *disk, err error) {
	if _, err := os.Lstat(dir); err != nil {
		return nil, err
	}
	id := &e.id
	d := &disk{s: s, entry: e, id: id, size: id.Size, verify: newVerifier(id.Digest, id.Size)}
	defer func() {
		if err != nil {
			d.closeFiles()
		}
	}()
	if err := d.openParts(dir); err != nil {
		return nil, err
	}
	ok, err := flock(d.state, unix.LOCK_SH)
	if err == nil && !ok {
		err = unix.EWOULDBLOCK
	}
	if err != nil {
		return nil, err
	}
	if d.meta, err = readMeta(dir); err != nil {
		return nil, err
	}
	_, shared := s.dirs(id)
	if !d.meta.is(id, dir == shared) {
		return nil, fmt.Errorf("%w: meta.json: it is of another file", errBroken)
	}
	linked, err := sameFile(d.state, filepath.Join(dir, stateName))
	if err == nil && !linked {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	d.proven = make([]atomic.Uint64, (cellsOf(d.size)+63)/64)
	d.touch()
	d.lookWhole()
	return d, nil
}

// openParts opens state and data, and holds that they fit the size.
func (d *disk) openParts(dir string) (err error) {
	if d.state, err = openPart(dir, stateName); err != nil {
		return err
	}
	if d.data, err = openPart(dir, dataName); err != nil {
		return err
	}
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
	header := make([]byte, headerSize)
	if err := readFull(d.state, header, 0); err != nil {
		return err
	}
	if err := checkHeader(header, d.size); err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return nil
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

// exclusively runs fn while no other process, and no other goroutine, changes the entry. The
// error is EWOULDBLOCK if another process does for too long.
func (d *disk) exclusively(fn func() error) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	wait := time.Millisecond
	for deadline := time.Now().Add(lockPatience); ; wait = min(2*wait, lockPoll) {
		ok, err := flock(d.data, unix.LOCK_EX)
		switch {
		case ok:
			defer unlock(d.data)
			return fn()
		case err != nil:
			return err
		case time.Now().After(deadline):
			return unix.EWOULDBLOCK
		}
		time.Sleep(wait)
	}
}

// reopen opens the data for reading, if they still have their name.
func (d *disk) reopen() (*os.File, error) {
	path := filepath.Join(d.place(), dataName)
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if same, _ := sameFile(d.data, path); !same {
		f.Close()
		return nil, fmt.Errorf("%s: it was replaced", path)
	}
	return f, nil
}

// remove empties all cells, for other processes that have the entry open, and removes its
// files if they still have its name.
func (d *disk) remove() error {
	err := d.exclusively(func() error {
		return errors.Join(d.setDropped(), d.state.Truncate(headerSize), d.state.Truncate(stateSize(d.size)))
	})
	if dir := d.place(); d.isAt(dir) {
		err = errors.Join(err, removeDir(d.s.path(tmpDir), dir))
	}
	return err
}

// cannotStore takes note of a disk that takes nothing. One that is full may have
// room later. The keeper, which is told of that, may find the same: it is logged once.
func (d *disk) cannotStore(err error) {
	d.s.logOnce("memory", "the cache cannot store; it goes on in memory", err)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		d.s.keeper.wake()
	} else if !errors.Is(err, unix.EWOULDBLOCK) {
		d.unwritten.Store(true)
	}
}

// touch records the last use of the entry: the least recently used entries are swept first.
// Failing is harmless.
func (d *disk) touch() {
	now := time.Now()
	_ = os.Chtimes(filepath.Join(d.place(), stateName), now, now)
}

// closeFiles closes what is open.
func (d *disk) closeFiles() error {
	var errs []error
	for _, f := range []*os.File{d.data, d.state} { // the lock last
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// stop ends what runs in the background.
func (d *disk) stop() {
	d.bg.Lock()
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
	}
	d.bg.Unlock()
	d.cancel()
	d.jobs.Wait()
}

// close ends what runs and closes the files.
func (d *disk) close() error {
	d.stop()
	var err error
	switch {
	case d.meta.Private:
		err = removeDir(d.s.path(tmpDir), d.place())
	case !d.dead.Load():
		if d.entry.first && !d.whole.Load() { // it takes no time, and it is whole from now on
			_ = d.hash(context.Background()) // else the next process that opens it does
		}
		d.finishIfComplete(false)
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
