package fs

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
)

// retire detaches a mount that is not taken over and answers whoever still uses it with ESTALE. The device is its
// own. kept is nil where the state cannot be read: then the mount is a dead one.
func retire(kept *stateFile, device int, log *slog.Logger) {
	if kept == nil {
		unix.Close(device)
		return
	}
	was := kept.state
	kept.close()
	if m, err := mounts.Top(was.Mountpoint); err == nil && m != nil && m.Ours() && m.Device == was.Device {
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

// answerStale answers the requests of a mount until nobody uses it any more.
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
		_, _ = unix.Write(device, outHeader(code, unique)) // the one who asked may be gone
	}
}

// outHeader is a reply without more than its header, or a notification.
func outHeader(code int32, unique uint64) []byte {
	out := binary.NativeEndian.AppendUint32(nil, 16)
	out = binary.NativeEndian.AppendUint32(out, uint32(code))
	return binary.NativeEndian.AppendUint64(out, unique)
}

// Abandon gives up the mount that a keeper has, nil for none, because its model cannot be opened any more: whoever
// uses it gets an error instead of waiting for a server.
func Abandon(k Keeper, log *slog.Logger) error {
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
		retire(kept, device, log)
	}
	return k.Drop()
}
