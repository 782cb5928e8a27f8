package fs

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

const (
	// canReplyMapped: it is not known what a fault in writev does there.
	canReplyMapped = false
	// noForeignAttr answers attributes outside our namespace.
	noForeignAttr = fuse.ENOATTR
)

// mount mounts through macFUSE.
func (s *Server) mount(o *fuse.MountOptions, flags, data []string) error {
	o.Options = append([]string{"rdonly", "nosuid", "nodev", "noexec", "noappledouble", "noapplexattr", "volname=" + subtype}, data...)
	o.FsName = sourcePrefix + o.FsName
	var err error
	if s.fuse, err = fuse.NewServer(s.raw, s.mountpoint, o); err != nil {
		return fmt.Errorf("%w; is macFUSE installed and its kernel extension allowed?", err)
	}
	s.serve()
	return s.fuse.WaitMount()
}

// checkMountpoint checks that a directory can be a mount point.
func checkMountpoint(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if path == "/" {
		return "", errRoot
	}
	m, err := mountedAt(path)
	if err != nil {
		return "", err
	}
	if m != nil {
		return "", fmt.Errorf("%s: %w: %s; unmount it first or choose another directory", tensorfs.Printable(path), ErrMounted, tensorfs.Printable(m.Source))
	}
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !st.IsDir() {
		return "", fmt.Errorf("%s: not a directory; a mount point must be one", tensorfs.Printable(path))
	}
	return path, nil
}
