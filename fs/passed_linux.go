package fs

import (
	"errors"
	"os"
	"strconv"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// directIO is the flag of an open by a reader that wants no page cache.
const directIO = unix.O_DIRECT

// newPassed returns nil if nothing can be passed through: that takes root.
func newPassed(f *rawFS) *passedFiles {
	if os.Geteuid() != 0 || f.opts.NoPassthrough {
		return nil
	}
	return &passedFiles{log: f.opts.Logger, refused: true, open: make(map[uint64]*openFile), direct: make(map[uint64]bool)}
}

// start learns how to reach the kernel, before the first request.
func (s *passedFiles) start(f *rawFS, server *fuse.Server) {
	s.kernel = serverBackings{server}
	if server.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH == 0 {
		return
	}
	s.refused = false
	// A reader that waits in EROFS cannot be interrupted. A server that waits there, for
	// itself, could not be killed while a keeper holds the device.
	if !f.opts.Waits && f.opts.Keeper == nil {
		s.images = newImages(f)
	}
}

// serverBackings asks the kernel through a mount.
type serverBackings struct{ server *fuse.Server }

func (b serverBackings) register(fd int) (int32, error) {
	id, errno := b.server.RegisterBackingFd(&fuse.BackingMap{Fd: int32(fd)})
	if errno != 0 {
		return 0, errno
	}
	return id, nil
}

func (b serverBackings) unregister(id int32) { b.server.UnregisterBackingFd(id) }

// takesDirect reports whether the file system of an open file has direct I/O. On one that has none (squashfs, eCryptfs), the
// kernel would refuse an open for it.
func (s *passedFiles) takesDirect(fd int) bool {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return true // opening the file reports it
	}
	takes, known := s.direct[st.Dev]
	if !known {
		again, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|directIO|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err == nil {
			unix.Close(again)
		}
		takes = !errors.Is(err, unix.EINVAL)
		s.direct[st.Dev] = takes
	}
	return takes
}
