package source

import (
	"sync"

	"golang.org/x/sys/unix"
)

// hold keeps other programs from writing to an open file while bytes of it are copied by the
// kernel: a read lease (fcntl(2)). The kernel grants it if no program has the file open for
// writing, which includes writable mappings. A program that then opens it for writing, or
// truncates it, waits until the lease ends. Each lease is as short as the copies that it is for.
type hold struct {
	mu    sync.Mutex
	users int
	once  sync.Once
	knows bool // whether the file system knows all that write to the file
}

// leasing are file systems of this machine, which nothing changes from outside. On overlayfs, a
// lease does not keep programs from the files below; FUSE and network disks do not know all writers.
var leasing = map[int64]bool{unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true}

// begin returns whether the file fd is held, until as many calls of end.
func (h *hold) begin(fd int) bool {
	h.once.Do(func() {
		var st unix.Statfs_t
		h.knows = unix.Fstatfs(fd, &st) == nil && leasing[int64(st.Type)]
	})
	if !h.knows {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users == 0 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
			return false
		}
	} else if lease, err := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0); err != nil || lease != unix.F_RDLCK {
		return false // a program waits for the end of the copies under way
	}
	h.users++
	return true
}

// end ends what begin began.
func (h *hold) end(fd int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users--; h.users == 0 {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK) // a lease that is gone needs no end
	}
}
