package source

import (
	"sync"
	"sync/atomic"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// changes tells whether an open file is still what it was when it was opened.
//
// It compares size, mtime and ctime of the open file, by one fstat.
//
//   - A different size or mtime is a change.
//   - Where only ctime moved (or mtime too, of a file that is touched on
//     purpose), the file was renamed, linked, unlinked, given another mode, owner
//     or label, touched, or written to by somebody who set mtime back. The kernel
//     is asked which: it keeps a queue of the files that were written to, and
//     truncated, since they were opened. Only these changed. Nothing else could
//     tell them apart without a wrong alarm: nlink, mode and owner are the same
//     after "ln" and "rm", after a "chown -R" to the same owner, a "setfattr", a
//     backup that sets atime back. Setting mtime and not atime, as "touch -m"
//     does, is a write to the kernel; Ollama's touch sets both.
//   - Where Linux allows no such queue (no /proc, or all of
//     fs.inotify.max_user_instances or max_user_watches in use), and after the queue
//     has lost events, any move of ctime is a change: a false alarm is better than
//     a wrong byte. See Unwatched.
//
// The inode is not compared. The handle is the inode: what is put in its place by
// a rename is another file, and the one that was opened goes on being read.
//
// Not noticed:
//
//   - writing through a shared mapping and setting mtime back afterwards, or, of a
//     file that is touched on purpose, writing through a mapping at all
//   - the same by a machine that shares the file system (NFS and the like), or on
//     a system that has no such queue, which is any but Linux; there any write
//     counts whose mtime is set back, and any at equal size to a file that is
//     touched on purpose
//   - a write in the same tick of the file system's clock, some milliseconds, in
//     which the file was opened, where it leaves the size as it is; or one whose
//     mtime is set back while the model is being opened
//   - bytes that are read while they are being written: a reply is checked after
//     its bytes were copied here, but the kernel copies mapped replies later
//
// A file that changed no longer serves any bytes. Bytes in the kernel's cache of
// a mount are not requested here, so anyone who has such a file open can still
// read those.
type changes struct {
	size         int64
	inode        uint64
	mtime, ctime unix.Timespec
	touched      bool                                  // mtime is not compared
	err          atomic.Pointer[tensorfs.ChangedError] // once it changed
	begin        sync.Once
	watch        *watch // nil before it is watched, and on systems that cannot
	writes       uint64 // known before that
}

// remember records the state of a file that is being opened.
func (c *changes) remember(st *unix.Stat_t) {
	c.size, c.inode, c.mtime, c.ctime = st.Size, st.Ino, st.Mtim, st.Ctim
}

// state is what was recorded, for others that open the same path.
func (c *changes) state() tensorfs.FileState {
	s := tensorfs.FileState{Bytes: c.size, Inode: c.inode}
	if !c.touched {
		s.ModTime, s.ChangeTime = c.mtime.Nano(), c.ctime.Nano()
	}
	return s
}

// start has the kernel note writes to the file from here on.
func (c *changes) start(fd int) {
	c.begin.Do(func() { c.watch, c.writes = writes.add(fd) })
}

// stop ends that.
func (c *changes) stop() {
	c.begin.Do(func() {})
	writes.remove(c.watch)
	c.watch = nil
}

// check returns an error once the file fd at path is not what it was.
func (c *changes) check(fd int, path string) error {
	if err := c.err.Load(); err != nil {
		return err
	}
	var st unix.Stat_t // unlike os.File.Stat it allocates nothing
	switch err := unix.Fstat(fd, &st); {
	case err != nil || st.Size != c.size || st.Mtim != c.mtime && !c.touched:
		return c.mark(path, "")
	case st.Mtim == c.mtime && st.Ctim == c.ctime:
		return nil
	}
	if why := writes.written(c.watch, c.writes); why != "" {
		return c.mark(path, why)
	}
	return nil
}

// mark records that the file changed, for all later checks. The first reason stays.
func (c *changes) mark(path, why string) error {
	c.err.CompareAndSwap(nil, &tensorfs.ChangedError{File: path, Why: why})
	return c.err.Load()
}

// Unwatched explains why changes of some open file are detected only by its times, so that
// a chmod counts as a change, and what to do. It is "" if all files are watched.
func Unwatched() string { return writes.unwatched() }
