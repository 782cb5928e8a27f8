package fs

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs/internal/memlimit"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
)

// newHot prepares memory for hot files.
func newHot(budget int64, log *slog.Logger) (*hotFiles, error) {
	if os.Geteuid() != 0 {
		return nil, mounts.Advised{Text: "hot files need root: the kernel lets nobody else pass files through", Cause: unix.EPERM}
	}
	if err := memlimit.Allow(budget); err != nil {
		return nil, err
	}
	dir, err := tmpfs(budget)
	if err != nil {
		return nil, fmt.Errorf("no memory file system for hot files: %w", err)
	}
	h := newHotFiles(budget, log, &memory{dir: dir})
	h.left = memlimit.Left
	return h, nil
}

// tmpfs makes a file system in memory that is not mounted anywhere: only the
// returned descriptor reaches it, and it is gone when that is closed. It uses huge
// pages, which a memfd does only if the administrator has enabled that.
func tmpfs(size int64) (int, error) {
	dir, err := tmpfsWith(size, "always")
	if err != nil {
		dir, err = tmpfsWith(size, "") // a kernel without huge pages
	}
	return dir, err
}

func tmpfsWith(size int64, huge string) (int, error) {
	ctx, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigSetString(ctx, "size", strconv.FormatInt(size, 10)); err != nil {
		return -1, fmt.Errorf("tmpfs size: %w", err)
	}
	if err := unix.FsconfigSetString(ctx, "mode", "0700"); err != nil {
		return -1, fmt.Errorf("tmpfs mode: %w", err)
	}
	if huge != "" {
		if err := unix.FsconfigSetString(ctx, "huge", huge); err != nil {
			return -1, fmt.Errorf("tmpfs huge: %w", err)
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, fmt.Errorf("fsconfig: %w", err)
	}
	dir, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsmount: %w", err)
	}
	return dir, nil
}

// memory is the store of hot files.
type memory struct {
	serverBackings
	dir int
}

func (m *memory) create() (*os.File, error) {
	fd, err := unix.Openat(m.dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), "hot file"), nil
}

func (m *memory) close() { unix.Close(m.dir) }

// start learns how to reach the kernel, before the first request.
func (h *hotFiles) start(s *fuse.Server) {
	if m, ok := h.store.(*memory); ok {
		m.serverBackings = serverBackings{s}
	}
	if s.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH == 0 {
		h.off = true
		h.log.Warn("this kernel cannot pass files through (Linux 6.9 can); files are read as without memory for hot files")
	}
}
