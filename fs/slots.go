package fs

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// A node id of a library is a slot's number and an id in the numbering of the
// slot's tree. Slot 0 has the directories above the trees. Every tree that was
// looked at has a slot of its own, and another slot after it changed, so that the
// kernel never takes a node of the new tree for a node of the old tree.
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
//	known --a look inside--> open --not in use, and idle or in the way--> known
//	  |                        |
//	  |                        +-- it cannot be opened: EIO, tried again later
//	  +-- its identity is another one: stale, its name gets a new slot
//
// A tree is closed only while no request uses it. A request uses it until its
// reply has been sent, because the kernel copies mapped replies from its memory.
type library struct {
	Library
	fs     *rawFS
	levels levels
	room   chan struct{} // has an element for each tree that is open, opened or closed now
	ended  chan struct{} // closed when the mount is gone

	mu      sync.Mutex
	slots   map[uint64]*slot
	current map[string]*slot // the slot that a path leads to
	open    map[*slot]bool   // the slots whose tree is open
	waiting int              // requests that wait for room
}

// slot is a generation of a tree.
type slot struct {
	number uint64
	path   string // below the mount point
	ino    uint64 // the high bits of its inode numbers

	opening sync.Mutex // held by the request that opens the tree, and taken before library.mu

	// The rest is guarded by library.mu.
	identity string
	modTime  time.Time
	used     bool    // it was open once, so the kernel may know nodes in it
	next     uint64  // of the tree's numbering, then: a tree with another one is another tree
	stale    bool    // its path leads to another slot, or will
	users    int     // requests that use the tree or wait for it
	tree     *served // nil while it is closed
	last     time.Time
	idle     *time.Timer // closes the tree
	failed   time.Time   // when opening it failed last
	problem  string      // that was logged
	file     bool        // it is a file, the one in the tree
	size     int64       // of the file; -1 until known
}

// fileNode is the node of the one file of a tree that is shown as a file.
const fileNode = firstNode

// retryAfter is how long a tree that cannot be opened is not tried again: a listing asks
// for it several times.
const retryAfter = time.Second

func newLibrary(l Library, f *rawFS) *library {
	l.setDefaults()
	out := &library{
		Library: l, fs: f, room: make(chan struct{}, l.MaxOpen), ended: make(chan struct{}),
		slots: map[uint64]*slot{}, current: map[string]*slot{}, open: map[*slot]bool{},
	}
	out.levels.init()
	return out
}

// generation returns the slot that a tree's path leads to now.
func (l *library) generation(at string, t *tensorfs.Lazy) (*slot, error) {
	id, modified, err := t.Identity()
	if err != nil {
		return nil, err
	}
	ino := l.levels.id(at) << inoBits
	l.mu.Lock()
	defer l.mu.Unlock()
	number := uint64(len(l.slots) + 1)
	switch s := l.current[at]; {
	case s != nil && (s.identity == id && !s.stale || !s.used):
		if s.identity != id {
			s.size = -1
		}
		s.identity, s.modTime, s.stale = id, modified, false
		return s, nil
	case number == 1<<(64-slotBits):
		return nil, syscall.ENFILE
	case s != nil:
		s.stale = true
	}
	s := &slot{number: number, path: at, ino: ino, identity: id, modTime: modified, file: t.File, size: -1}
	l.slots[number], l.current[at] = s, s
	return s, nil
}

// slotOf returns the slot of a node, or nil.
func (l *library) slotOf(node uint64) *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slots[node>>slotBits]
}

// root returns the node id of a slot's own directory.
func (s *slot) root() uint64 { return s.number<<slotBits | fuse.FUSE_ROOT_ID }

// node is the node id that a slot's name leads to.
func (s *slot) node() uint64 {
	if s.file {
		return s.number<<slotBits | fileNode
	}
	return s.root()
}

// sizeOf determines the size of a file: it opens the tree if the size is not known
// otherwise.
func (l *library) sizeOf(s *slot, t *tensorfs.Lazy) fuse.Status {
	l.mu.Lock()
	known := s.size >= 0
	l.mu.Unlock()
	if known {
		return fuse.OK
	}
	if t.Bytes != nil {
		if n, ok := t.Bytes(); ok {
			l.mu.Lock()
			s.size = n
			l.mu.Unlock()
			return fuse.OK
		}
	}
	_, st := l.enter(s.node()) // which notes the size
	if st.Ok() {
		l.leave(s)
	}
	return st
}

// sized reports whether a node is a file whose size is known, so that no tree is opened for
// its attributes.
func (l *library) sized(node uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slots[node>>slotBits]
	return s != nil && s.file && s.size >= 0 && local(node) == fileNode
}

// enter opens the tree of a node, if it is not open, and keeps it open until leave.
func (l *library) enter(node uint64) (*served, fuse.Status) {
	l.mu.Lock()
	s := l.slots[node>>slotBits]
	if s == nil {
		l.mu.Unlock()
		return nil, fuse.Status(syscall.ESTALE)
	}
	s.users++
	s.last = time.Now()
	tree, st := s.tree, fuse.OK
	l.mu.Unlock()
	if tree == nil {
		if tree, st = l.openSlot(s); !st.Ok() {
			l.leave(s)
		}
	}
	return tree, st
}

// leave ends a use.
func (l *library) leave(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.users--; l.waiting > 0 {
		l.close(s)
	}
}

// pin keeps the tree of a node open until leave, if it is open.
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

// openSlot opens the tree of a slot, unless another request has. As the slot has a user,
// the tree stays open.
func (l *library) openSlot(s *slot) (*served, fuse.Status) {
	s.opening.Lock()
	defer s.opening.Unlock()
	l.mu.Lock()
	tree, gone, failed := s.tree, s.stale && s.used, s.failed
	l.mu.Unlock()
	switch {
	case tree != nil:
		return tree, fuse.OK
	case gone:
		return nil, fuse.Status(syscall.ESTALE)
	case time.Since(failed) < min(retryAfter, l.Fresh) || !l.makeRoom():
		return nil, fuse.EIO
	}
	tree, err := l.load(s)
	for errors.Is(err, syscall.EMFILE) && l.closeOne() {
		tree, err = l.load(s)
	}
	if err == nil && !l.same(s, tree) {
		err = errors.Join(errReplaced, tree.closer.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		s.identity, s.modTime, s.next, s.used = tree.identity, tree.modTime, tree.next, true
		s.tree, s.last, s.problem = tree, time.Now(), ""
		if e, ok := tree.entry(fileNode); s.file && ok {
			s.size = e.Data.Size()
		}
		s.idle = time.AfterFunc(l.Idle, func() { l.closeIdle(s) })
		l.open[s] = true
		return tree, fuse.OK
	}
	<-l.room
	if errors.Is(err, errReplaced) {
		s.stale = true
		return nil, fuse.Status(syscall.ESTALE)
	}
	s.failed = time.Now()
	if text := err.Error(); text != s.problem { // one line for each cause
		s.problem = text
		l.fs.opts.Logger.Error("a model cannot be opened", "model", s.path, "error", err)
	}
	return nil, fuse.EIO
}

// same reports whether the kernel may treat a tree as the one that a slot had before. The
// kernel may know the size of its file.
func (l *library) same(s *slot, t *served) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := t.entry(fileNode); s.file && ok && s.size >= 0 && s.size != e.Data.Size() {
		s.size = -1
		return false
	}
	return !s.used || t.identity == s.identity && t.next == s.next
}

// errReplaced is the error that a tree is gone, or was replaced.
var errReplaced = errors.New("it was replaced or removed")

// errNoFile is the error that a tree that is to be shown as a file is not a single file.
var errNoFile = errors.New("internal error: it is not one file")

// load opens what a slot's path leads to and numbers it.
func (l *library) load(s *slot) (tree *served, err error) {
	defer func() {
		if v := recover(); v != nil {
			l.fs.panicked(v)
			err = fmt.Errorf("internal error: %v", v)
		}
	}()
	e, err := tensorfs.Find(l.Root(), s.path)
	if err != nil || e.Lazy == nil {
		return nil, errReplaced
	}
	id, modified, err := e.Lazy.Identity()
	if err != nil {
		return nil, errReplaced
	}
	dir, closer, err := e.Lazy.Open()
	if err != nil {
		return nil, err
	}
	n, err := newNodes(dir)
	again, _, gone := e.Lazy.Identity()
	if err == nil && e.Lazy.File {
		if file, ok := n.entry(fileNode); !ok || file.Data == nil || n.next != fileNode+1 {
			err = errNoFile
		}
	}
	switch {
	case gone != nil || again != id:
		err = errReplaced
	case err == nil && n.next >= 1<<inoBits:
		err = errTooMany
	}
	if err != nil {
		return nil, errors.Join(err, closer.Close())
	}
	return &served{nodes: n, slot: s, node: s.number << slotBits, ino: s.ino, modTime: modified, identity: id, closer: closer}, nil
}

// makeRoom reserves room for a tree. If all room is taken, it closes the least recently
// used trees; if all are in use, it waits for one. It reports whether the mount still
// exists.
func (l *library) makeRoom() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for unused := true; unused; unused = l.closeUnused() {
		select {
		case l.room <- struct{}{}:
			return true
		default:
		}
	}
	l.waiting++
	defer func() { l.waiting-- }()
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case l.room <- struct{}{}:
		return true
	case <-l.ended:
		return false
	}
}

// closeOne closes the longest unused tree, if there is one that is not in use.
func (l *library) closeOne() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closeUnused()
}

// closeUnused is closeOne while mu is held.
func (l *library) closeUnused() bool {
	for _, s := range l.byUse() {
		if l.close(s) {
			return true
		}
	}
	return false
}

// byUse returns the slots whose tree is open, the longest unused first. mu is held.
func (l *library) byUse() []*slot {
	return slices.SortedFunc(maps.Keys(l.open), func(a, b *slot) int { return a.last.Compare(b.last) })
}

// close closes the tree of a slot if it is open and not in use. mu is held, but not all
// the time.
func (l *library) close(s *slot) bool {
	tree := s.tree
	if tree == nil || s.users > 0 {
		return false
	}
	s.idle.Stop()
	s.tree = nil
	delete(l.open, s)
	l.mu.Unlock()
	l.fs.sent.forget(s.number)
	if err := tree.closer.Close(); err != nil {
		l.fs.opts.Logger.Warn("a model could not be closed", "model", s.path, "error", err)
	}
	<-l.room
	l.mu.Lock()
	return true
}

// closeIdle closes the tree of a slot if it was not used for a while, and looks again
// later if it was.
func (l *library) closeIdle(s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := l.Idle - time.Since(s.last)
	switch {
	case s.tree == nil:
	case rest > 0 || s.users > 0:
		s.idle.Reset(max(rest, l.Idle/4, time.Millisecond))
	case l.close(s) && len(l.open) == 0:
		go debug.FreeOSMemory()
	}
}

// end closes all trees. The mount is gone, and so are its requests.
func (l *library) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.ended:
	default:
		close(l.ended)
	}
	for l.closeUnused() {
	}
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

// status lists the slots and the open trees.
func (l *library) status() *LibraryStatus {
	s := &LibraryStatus{Open: []string{}}
	_ = tensorfs.Walk(l.Root(), func(_ string, e tensorfs.Entry) error { // no call returns an error
		if e.Lazy != nil {
			s.Models++
		}
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, open := range l.byUse() {
		s.Open = append(s.Open, open.path)
	}
	return s
}

// served is a numbered tree that requests are answered from: a mount's tree, or one of a
// library.
type served struct {
	*nodes
	slot    *slot  // nil if the mount is not a library
	node    uint64 // the high bits of its node ids
	ino     uint64 // and of its inode numbers
	modTime time.Time
	layouts sync.Map // of images, by the id of the directory: *erofs.Layout

	// Of a library's tree:
	identity string
	closer   io.Closer
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
