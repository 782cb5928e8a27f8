package fs

import (
	"container/list"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"path"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// A node id of a library is a slot's number and an id in the numbering of the
// slot's tree. Slot 0 has the directories above the trees. Every tree that was
// looked at has a slot of its own, and another one after it changed, so that the
// kernel never takes a new tree's nodes for those of the old one.
//
// An inode number is a number of the tree's path and the id, so it is the same in
// every mount.
const (
	slotBits = 40
	inoBits  = 32
)

// local returns the id of a node in its slot's numbering.
func local(node uint64) uint64 { return node & (1<<slotBits - 1) }

// library has the trees of a Library.
//
//	known --a look inside--> opening --> open <--requests--> idle --evicted--> known
//	  |                        |
//	  |                        +-- it cannot be opened: EIO, tried again later
//	  +-- its identity is another one: stale, its name gets a new slot
//
// A tree is closed only while no request uses it. A request uses it until its
// reply has been sent, because the kernel copies mapped replies from its memory.
type library struct {
	Library
	fs *rawFS

	mu      sync.Mutex
	freed   *sync.Cond // a tree is closed, or no longer used
	slots   map[uint64]*slot
	current map[string]*slot // by path: what a name leads to
	next    uint64
	opened  int        // trees that are open, are being opened or being closed
	lru     *list.List // of *slot, open, the longest unused first
	sweeper *time.Timer
	ended   bool // the mount is gone

	levels levels
}

// slot is a generation of a tree.
type slot struct {
	number uint64
	path   string // below the mount point
	ino    uint64 // the high bits of its inode numbers

	// The rest is guarded by library.mu.
	identity string
	modTime  time.Time
	used     bool   // it was open once, so the kernel may know nodes in it
	stale    bool   // no longer what its name leads to
	print    uint64 // of the numbering, to hold the tree to it when it is opened again
	users    int    // requests that use it or wait for it
	tree     *served
	closer   io.Closer
	opening  *opening
	place    *list.Element // in lru
	last     time.Time     // when it was used last
	failed   time.Time     // when opening it failed last
	problem  string        // that was logged
}

// opening is an attempt to open a tree, which several requests may wait for.
type opening struct {
	done   chan struct{}
	status fuse.Status
}

// retryAfter is how long a tree that cannot be opened is left alone: a listing
// asks for it several times.
const retryAfter = time.Second

func newLibrary(l Library, f *rawFS) *library {
	l.setDefaults()
	out := &library{Library: l, fs: f, slots: map[uint64]*slot{}, current: map[string]*slot{}, next: 1, lru: list.New()}
	out.freed = sync.NewCond(&out.mu)
	out.levels.init()
	return out
}

// generation returns the slot that a tree's path leads to now.
func (l *library) generation(at string, t *tensorfs.Lazy) (*slot, error) {
	id, modified, err := t.Identity()
	if err != nil {
		return nil, err
	}
	ino := l.levels.number(at) << inoBits
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.current[at]
	switch {
	case s != nil && s.identity == id && !s.stale:
		s.modTime = modified
		return s, nil
	case s != nil && !s.used:
		s.identity, s.modTime, s.stale = id, modified, false
		return s, nil
	case l.next == 1<<(64-slotBits):
		return nil, syscall.ENFILE
	case s != nil:
		s.stale = true
	}
	s = &slot{number: l.next, path: at, ino: ino, identity: id, modTime: modified}
	l.next++
	l.slots[s.number], l.current[at] = s, s
	return s, nil
}

// of returns the slot of a node, or nil.
func (l *library) of(node uint64) *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slots[node>>slotBits]
}

// root returns the node id of a slot's own directory.
func (s *slot) root() uint64 { return s.number<<slotBits | fuse.FUSE_ROOT_ID }

// enter opens the tree of a node, if it is not open, and keeps it open until leave.
func (l *library) enter(node uint64) (*served, fuse.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slots[node>>slotBits]
	if s == nil {
		return nil, fuse.Status(syscall.ESTALE)
	}
	s.users++
	if s.tree == nil {
		if st := l.openFor(s); !st.Ok() {
			s.users--
			return nil, st
		}
	}
	s.last = time.Now()
	l.lru.MoveToBack(s.place)
	return s.tree, fuse.OK
}

// openFor opens a tree, or waits until another request has. mu is held, but not all
// the time. As s has a user, an open tree stays open.
func (l *library) openFor(s *slot) fuse.Status {
	if o := s.opening; o != nil {
		l.mu.Unlock()
		<-o.done
		l.mu.Lock()
		return o.status
	}
	if s.stale && s.used {
		return fuse.Status(syscall.ESTALE)
	}
	if time.Since(s.failed) < min(retryAfter, l.Fresh) {
		return fuse.EIO
	}
	o := &opening{done: make(chan struct{})}
	s.opening = o
	o.status = l.open(s)
	s.opening = nil
	close(o.done)
	return o.status
}

// open opens the tree of a slot. mu is held, but not all the time.
func (l *library) open(s *slot) fuse.Status {
	if !l.makeRoom() {
		return fuse.EIO
	}
	l.mu.Unlock()
	tree, closer, id, modified, err := l.load(s)
	for errors.Is(err, syscall.EMFILE) && l.closeOne() {
		tree, closer, id, modified, err = l.load(s)
	}
	print := uint64(0)
	if err == nil {
		print = tree.fingerprint()
	}
	l.mu.Lock()
	switch {
	case err != nil:
	case s.used && (id != s.identity || print != s.print):
		l.mu.Unlock()
		err = errors.Join(errReplaced, closer.Close())
		l.mu.Lock()
	default:
		tree.modTime = modified
		s.identity, s.modTime, s.print, s.used = id, modified, print, true
		s.tree, s.closer, s.place = tree, closer, l.lru.PushBack(s)
		s.problem = ""
		l.sweepLater()
		return fuse.OK
	}
	l.opened--
	l.freed.Broadcast()
	if errors.Is(err, errReplaced) {
		s.stale = true
		return fuse.Status(syscall.ESTALE)
	}
	s.failed = time.Now()
	if text := err.Error(); text != s.problem { // one line for each cause
		s.problem = text
		l.fs.opts.Logger.Error("a model cannot be opened", "model", s.path, "error", err)
	}
	return fuse.EIO
}

// errReplaced says that a tree is gone, or another one.
var errReplaced = errors.New("it was replaced or removed")

// load opens what a slot's path leads to and numbers it.
func (l *library) load(s *slot) (tree *served, closer io.Closer, id string, modified time.Time, err error) {
	defer func() {
		if v := recover(); v != nil {
			l.fs.panicked(v)
			err = fmt.Errorf("internal error: %v", v)
		}
	}()
	e, err := tensorfs.Find(l.Root(), s.path)
	if err != nil || e.Lazy == nil {
		return nil, nil, "", modified, errReplaced
	}
	if id, modified, err = e.Lazy.Identity(); err != nil {
		return nil, nil, "", modified, errReplaced
	}
	dir, closer, err := e.Lazy.Open()
	if err != nil {
		return nil, nil, "", modified, err
	}
	if again, _, err := e.Lazy.Identity(); err != nil || again != id {
		return nil, nil, "", modified, errors.Join(errReplaced, closer.Close())
	}
	n, err := newNodes(dir)
	if err == nil && n.next >= 1<<inoBits {
		err = errors.New("it has too many files")
	}
	if err != nil {
		return nil, nil, "", modified, errors.Join(err, closer.Close())
	}
	return &served{nodes: n, slot: s, node: s.number << slotBits, ino: s.ino}, closer, id, modified, nil
}

// makeRoom reserves room for a tree, and closes another where there is none. It
// waits for one that is not in use. mu is held, but not all the time.
func (l *library) makeRoom() bool {
	for l.opened >= l.MaxOpen && !l.ended {
		if !l.evict(func(*slot) bool { return true }) {
			l.freed.Wait()
		}
	}
	if l.ended {
		return false
	}
	l.opened++
	return true
}

// evict closes the longest unused tree that nobody uses, if it may be closed.
// mu is held, but not all the time.
func (l *library) evict(may func(*slot) bool) bool {
	for e := l.lru.Front(); e != nil; e = e.Next() {
		s := e.Value.(*slot)
		if s.users > 0 {
			continue
		}
		if !may(s) {
			return false
		}
		closer := s.closer
		l.lru.Remove(s.place)
		s.tree, s.closer, s.place = nil, nil, nil
		l.mu.Unlock()
		l.fs.sent.forget(s.number)
		if err := closer.Close(); err != nil {
			l.fs.opts.Logger.Warn("a model could not be closed", "model", s.path, "error", err)
		}
		l.mu.Lock()
		l.opened--
		l.freed.Broadcast()
		return true
	}
	return false
}

// closeOne closes any tree that is not in use.
func (l *library) closeOne() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.evict(func(*slot) bool { return true })
}

// leave ends a use.
func (l *library) leave(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.users--; s.users == 0 {
		l.freed.Broadcast()
	}
}

// pin keeps the tree of a node open if it is.
func (l *library) pin(node uint64) (*slot, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slots[node>>slotBits]
	if s == nil || s.tree == nil {
		return nil, false
	}
	s.users++
	return s, true
}

// changed notes that the files of an open tree have changed: its name is to lead to
// another one.
func (l *library) changed(s *slot, err error) {
	l.mu.Lock()
	known := s.stale // it was replaced, or this was said
	s.stale = true
	l.mu.Unlock()
	if !known {
		l.fs.opts.Logger.Info("a model changed while it was in use: what is open of it fails, its name leads to the new one", "model", s.path, "error", err)
	}
}

// sweepLater closes idle trees when it is time to. mu is held.
func (l *library) sweepLater() {
	if l.sweeper == nil && !l.ended && l.lru.Len() > 0 {
		l.sweeper = time.AfterFunc(max(l.Idle/4, time.Millisecond), l.sweep)
	}
}

func (l *library) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweeper = nil
	closed := false
	for l.evict(func(s *slot) bool { return time.Since(s.last) >= l.Idle }) {
		closed = true
	}
	if closed && l.lru.Len() == 0 {
		go debug.FreeOSMemory()
	}
	l.sweepLater()
}

// end closes all trees. The mount is gone, and so are its requests.
func (l *library) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.sweeper != nil {
		l.sweeper.Stop()
	}
	l.freed.Broadcast()
	for l.evict(func(*slot) bool { return true }) {
	}
}

// status says what there is and what is open.
func (l *library) status() LibraryStatus {
	s := LibraryStatus{Open: []string{}}
	_ = tensorfs.Walk(l.Root(), func(_ string, e tensorfs.Entry) error { // no call returns an error
		if e.Lazy != nil {
			s.Models++
		}
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.lru.Front(); e != nil; e = e.Next() {
		s.Open = append(s.Open, e.Value.(*slot).path)
	}
	return s
}

// seed makes fingerprints comparable within this process.
var seed = maphash.MakeSeed()

// fingerprint is another number for a tree with other names.
func (n *nodes) fingerprint() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for k := range n.dirs {
		d := &n.dirs[k]
		maphash.WriteComparable(&h, [3]uint64{d.id, d.base, d.n})
		if d.later != nil {
			continue
		}
		files, flat := d.Dir.(tensorfs.Files)
		for i := range d.Len() {
			name := ""
			if flat {
				name = files.Name(i)
			} else {
				name = d.Entry(i).Name
			}
			h.WriteString(name)
			h.WriteByte('/')
		}
	}
	return h.Sum64()
}

// served is a numbered tree that requests are answered from: that of a mount, or
// one of a library.
type served struct {
	*nodes
	slot    *slot  // nil for the tree of a mount that is not a library
	node    uint64 // the high bits of its node ids
	ino     uint64 // and of its inode numbers
	modTime time.Time
}

// at returns a node's path below the mount point, for messages.
func (t *served) at(id uint64) string {
	if t.slot == nil {
		return t.path(id)
	}
	return path.Join(t.slot.path, t.path(id))
}

// enter returns the tree that a node is in, for the time of a request, and the
// node's id in it.
func (f *rawFS) enter(node uint64) (t *served, id uint64, st fuse.Status) {
	if f.library == nil {
		return f.tree, node, fuse.OK
	}
	t, st = f.library.enter(node)
	return t, local(node), st
}

// leave ends the request.
func (f *rawFS) leave(t *served) {
	if t.slot != nil {
		f.library.leave(t.slot)
	}
}

// pathOf returns a node's path as far as it is known without opening anything.
func (f *rawFS) pathOf(node uint64) string {
	if f.library == nil {
		return f.tree.path(node)
	}
	s, open := f.library.pin(node)
	if open {
		defer f.library.leave(s)
		return s.tree.at(local(node))
	}
	if s := f.library.of(node); s != nil {
		return s.path
	}
	return "/"
}
