package fs

import (
	"fmt"
	"os"
	"strconv"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs/internal/mounts"
)

const (
	// canReplyMapped: writev from a lost page fails with EFAULT and nothing else.
	canReplyMapped = true
	// noForeignAttr answers attributes outside our namespace.
	noForeignAttr = fuse.ENOTSUP
)

// mount mounts, with mount(2) as root and by fusermount3 otherwise. go-fuse
// gets the open device by its name /dev/fd/N: mounting here gives errors that
// say what to do, and a device that no child inherits.
func (s *Server) mount(o *fuse.MountOptions) error {
	if s.raw.opts.Keeper != nil {
		if err := s.mountKept(o); err != nil {
			return err
		}
		s.serve()
		return nil
	}
	fd, err := mounts.MountFUSE(s.mountpoint, o.FsName, maxRequest, s.raw.mount)
	if err != nil {
		return err
	}
	s.fuse, err = fuse.NewServer(s.raw, "/dev/fd/"+strconv.Itoa(fd), o)
	if err != nil {
		if uerr := (&mounts.Mount{Mountpoint: s.mountpoint}).Unmount(true); uerr != nil {
			err = fmt.Errorf("%w (and it cannot be unmounted: %w)", err, uerr)
		}
		return fmt.Errorf("the kernel refused the file system: %w", err)
	}
	if m, err := mounts.Top(s.mountpoint); err == nil && m != nil {
		s.device = m.Device
		s.raw.opts.setReadAhead(m.Device)
	}
	s.serve()
	return nil
}

// setReadAhead raises the kernel's read-ahead, which FUSE limits to 128 KiB.
// It only affects speed, so a refusal is not an error.
func (o *Options) setReadAhead(device string) {
	if o.ReadAheadKiB < 0 || os.Geteuid() != 0 {
		return
	}
	path := "/sys/class/bdi/" + device + "/read_ahead_kb"
	if err := os.WriteFile(path, []byte(strconv.Itoa(o.ReadAheadKiB)), 0); err != nil {
		o.Logger.Debug("the kernel's read-ahead stays as it is", "error", err)
	}
}
