package source

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// writes knows which files were written to since they were watched. Times are not enough: a
// program may set mtime back, and ctime moves for a chmod, a rename, a link or a label as
// for a write. The kernel queues an event before a write, truncation or hole returns, so a
// check made afterwards finds it.
//
// The system lets a user have few queues, so all files of the process share one.
// It is never closed: the kernel takes some 15 ms for that, a watch only some us.
var writes = writeQueue{fd: -1}

// writeQueue is an inotify queue. It is polled when the ctime of a file has moved.
type writeQueue struct {
	mu      sync.Mutex
	fd      int // -1 before the first watch
	files   map[int32]*watch
	without int    // open files that have no watch
	why     string // of the last of them
	buf     [4096]byte
}

// watch is a file whose writes are queued. Two mapped files of one inode share it.
type watch struct {
	id         int32 // noWatch where the system allowed none
	users      int
	writes     uint64 // so far, at least one for each that was queued
	lost       bool   // no events come any more
	overflowed bool   // events were lost
}

const noWatch = -1

// add begins to watch the open file fd, and returns how many writes to it are
// known already.
func (q *writeQueue) add(fd int) (w *watch, writes uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w, err := q.watch(fd)
	if err != nil {
		q.without++
		q.why = whyUnwatched(err)
		return &watch{id: noWatch, lost: true}, 0
	}
	w.users++
	q.read()
	return w, w.writes
}

// watch returns the watch of an open file.
func (q *writeQueue) watch(fd int) (*watch, error) {
	if q.fd < 0 {
		queue, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
		if err != nil {
			return nil, err
		}
		queue = closedEarly(queue)
		q.fd, q.files = queue, make(map[int32]*watch)
	}
	// The link in /proc leads to the open file, whatever its path leads to.
	id, err := unix.InotifyAddWatch(q.fd, fmt.Sprintf("/proc/self/fd/%d", fd), unix.IN_MODIFY)
	if err != nil {
		return nil, err
	}
	w := q.files[int32(id)]
	if w == nil {
		w = &watch{id: int32(id)}
		q.files[w.id] = w
	}
	return w, nil
}

// closedEarly moves a descriptor behind most others. When a process is killed, the kernel closes the last descriptors first, and waits
// some time for the end of watches. If the device of a mount were closed before, readers would learn that
// their server is gone while it is still there.
func closedEarly(fd int) int {
	const behind = 256
	late, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, behind)
	if err != nil { // the process may not have that many
		return fd
	}
	unix.Close(fd)
	return late
}

// limits are what a user may have of queues and watches, by the error beyond them.
var limits = map[error]string{
	unix.EMFILE: "fs.inotify.max_user_instances", // or the process has no descriptor left
	unix.ENOSPC: "fs.inotify.max_user_watches",
}

// whyUnwatched explains why a file cannot be watched, and what to do.
func whyUnwatched(err error) string {
	limit, ok := limits[err]
	if !ok {
		return fmt.Sprintf("the kernel does not watch files for writes (inotify: %v)", err)
	}
	now := ""
	if b, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(limit, ".", "/")); err == nil {
		now = " (now " + strings.TrimSpace(string(b)) + ")"
	}
	return "nothing watches files for writes, because this user has no inotify watch left; raise " + limit + now + " with sysctl and open the model again"
}

// remove ends a watch; nil is the watch of a file that was never to be watched.
func (q *writeQueue) remove(w *watch) {
	if w == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.id == noWatch {
		q.without--
		return
	}
	if w.users--; w.users > 0 {
		return
	}
	delete(q.files, w.id)
	_, _ = unix.InotifyRmWatch(q.fd, uint32(w.id)) // it fails where the inode is gone, and the watch with it
	q.read()
}

// written returns why a file whose ctime has moved counts as changed: more writes to it are
// known than the given number, or writes can no longer be detected. "" means that it was
// not written to.
func (q *writeQueue) written(w *watch, writes uint64) string {
	if w == nil {
		return ""
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.read()
	switch {
	case w.lost:
		return "its times moved, and no inotify watch tells why"
	case w.writes > writes && w.overflowed:
		return "its times moved, and the kernel's queue of writes overflowed"
	case w.writes > writes:
		return "it was written to"
	}
	return ""
}

// unwatched is Unwatched.
func (q *writeQueue) unwatched() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.without > 0 {
		return q.why
	}
	q.read()
	for _, w := range q.files {
		switch {
		case w.lost:
			return "the kernel has ended its watch for writes; open the model again"
		case w.overflowed:
			return "the kernel's queue of writes overflowed; open the model again"
		}
	}
	return ""
}

// read takes all events from the queue.
func (q *writeQueue) read() {
	for q.fd >= 0 {
		n, err := unix.Read(q.fd, q.buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		for b := q.buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			id, mask, name := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[12:])
			b = b[min(len(b), unix.SizeofInotifyEvent+int(name)):]
			if w := q.files[id]; w != nil && mask&unix.IN_MODIFY != 0 {
				w.writes++
			} else if w != nil && mask&unix.IN_IGNORED != 0 { // the kernel ended it: watches that this process ended are no longer in files
				w.lost = true
			}
			if mask&unix.IN_Q_OVERFLOW != 0 { // events are lost, of any file
				for _, w := range q.files {
					w.writes++
					w.overflowed = true
				}
			}
		}
	}
}
