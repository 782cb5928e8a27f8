package fs

import (
	"log/slog"
	"os"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// newStored returns nil where nothing can be passed through: that takes root.
func newStored(log *slog.Logger) *storedFiles {
	if os.Geteuid() != 0 {
		return nil
	}
	return &storedFiles{log: log, off: true, open: make(map[uint64]*openStored)}
}

// start learns how to reach the kernel, before the first request.
func (s *storedFiles) start(server *fuse.Server) {
	s.kernel = serverBackings{server}
	s.off = server.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH == 0
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
