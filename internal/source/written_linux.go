package source

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// writes knows which files were written to since they were watched. Times cannot
// tell that alone: a program may set mtime back, and ctime moves for a chmod, a
// rename, a link or a label as for a write. The kernel queues an event before a
// write, truncation or hole returns, so a check made afterwards finds it.
//
// The system lets a user have few queues, so all files of the process share one.
// It is never closed: the kernel takes some 15 ms for that, a watch only some us.
var writes = writeQueue{fd: -1}

// writeQueue is an inotify queue. Nobody waits for it; it is read when the ctime
// of a file has moved.
type writeQueue struct {
	mu    sync.Mutex
	fd    int // -1 before the first watch
	files map[int32]*watch
	buf   [4096]byte
}

// watch is a file whose writes are queued. Two mapped files of one inode share it.
type watch struct {
	id     int32
	users  int
	writes uint64 // so far, at least one for each that was queued
}

// add begins to watch the open file fd, and returns how many writes to it are
// known already. The watch is nil where the system does not allow one: then times
// alone say whether the file changed.
func (q *writeQueue) add(fd int) (w *watch, writes uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fd < 0 {
		queue, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
		if err != nil {
			return nil, 0
		}
		q.fd, q.files = queue, make(map[int32]*watch)
	}
	// The link in /proc leads to the open file, whatever its path leads to.
	id, err := unix.InotifyAddWatch(q.fd, fmt.Sprintf("/proc/self/fd/%d", fd), unix.IN_MODIFY)
	if err != nil {
		return nil, 0
	}
	w = q.files[int32(id)]
	if w == nil {
		w = &watch{id: int32(id)}
		q.files[w.id] = w
	}
	w.users++
	q.read()
	return w, w.writes
}

// remove ends a watch, which may be nil.
func (q *writeQueue) remove(w *watch) {
	if w == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.users--; w.users > 0 {
		return
	}
	delete(q.files, w.id)
	_, _ = unix.InotifyRmWatch(q.fd, uint32(w.id)) // it fails where the inode is gone, and the watch with it
	q.read()
}

// written reports whether more than those writes to a file are known by now.
func (q *writeQueue) written(w *watch, writes uint64) bool {
	if w == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.read()
	return w.writes > writes
}

// read takes all events from the queue.
func (q *writeQueue) read() {
	for {
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
			}
			if mask&unix.IN_Q_OVERFLOW != 0 { // events are lost, of any file
				for _, w := range q.files {
					w.writes++
				}
			}
		}
	}
}
