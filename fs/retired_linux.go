package fs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
)

// errStrange is the error that the kept state belongs to the mount point of another server.
var errStrange = errors.New("what is kept belongs to another mount")

// ownMount returns the mount that was kept with a state and a device, nil if it is not mounted any more. The state may have
// been written by anything: it has to be of the mount point that this server was given, and of the device.
func (s *state) ownMount(device int, mountpoint string) (*mounts.Mount, error) {
	if path, err := mounts.Resolve(mountpoint); err != nil || path != s.Mountpoint {
		return nil, errStrange
	}
	m, err := mounts.Held(s.Mountpoint, s.Device, device)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStrange, err)
	}
	return m, nil
}

// retire detaches the mount of this mount point if it is not taken over, and answers its
// remaining users with ESTALE. The device is its own. kept is nil if the state cannot be
// read: then the mount is a dead one.
func retire(kept *stateFile, device int, mountpoint string, log *slog.Logger) {
	if kept == nil {
		unix.Close(device)
		return
	}
	m, err := kept.state.ownMount(device, mountpoint)
	kept.close()
	if err != nil {
		log.Warn("the mount of a server that has ended could not be released", "error", err)
		unix.Close(device)
		return
	}
	if m != nil {
		if err := m.Unmount(true); err != nil {
			log.Warn("the mount of a server that is gone cannot be removed", "error", err)
		}
	}
	go func() {
		defer unix.Close(device)
		if err := resend(device); err == nil {
			answerStale(device)
		}
	}()
}

// Numbers of requests, of the kernel's fuse.h.
var (
	unanswered = []uint32{2, 36, 42}      // FORGET, INTERRUPT, BATCH_FORGET
	allowed    = []uint32{18, 25, 29, 38} // RELEASE, FLUSH, RELEASEDIR, DESTROY: they end something
)

// answerStale answers the requests of a mount until its last user is gone.
func answerStale(device int) {
	buf := make([]byte, maxRequest+64<<10) // the kernel wants room for the largest write
	for {
		n, err := unix.Read(device, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil || n < 16:
			return
		}
		op, unique := binary.NativeEndian.Uint32(buf[4:]), binary.NativeEndian.Uint64(buf[8:])
		code := -int32(unix.ESTALE)
		switch {
		case slices.Contains(unanswered, op):
			continue
		case slices.Contains(allowed, op):
			code = 0
		}
		_, _ = unix.Write(device, outHeader(code, unique)) // the reader may be gone
	}
}

// outHeader is a reply without more than its header, or a notification.
func outHeader(code int32, unique uint64) []byte {
	out := binary.NativeEndian.AppendUint32(nil, 16)
	out = binary.NativeEndian.AppendUint32(out, uint32(code))
	return binary.NativeEndian.AppendUint64(out, unique)
}

// Abandon gives up the mount that a keeper has, if any, because its model can no longer be
// opened: readers get an error instead of waiting for a server.
func Abandon(k Keeper, mountpoint string, log *slog.Logger) error {
	if k == nil {
		return nil
	}
	fds, err := k.Get()
	if err != nil {
		return err
	}
	device, ok := fds[keptDevice]
	fd, ok2 := fds[keptState]
	if ok && ok2 {
		kept, err := openStateFile(fd)
		if err != nil {
			unix.Close(fd)
			kept = nil
		}
		retire(kept, device, mountpoint, log)
	}
	return k.Drop()
}
