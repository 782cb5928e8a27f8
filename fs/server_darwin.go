package fs

import (
	"fmt"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs/internal/mounts"
)

const (
	// canReplyMapped: it is not known what a fault in writev does there.
	canReplyMapped = false
	// noForeignAttr answers attributes outside our namespace.
	noForeignAttr = fuse.ENOATTR
)

// mount mounts through macFUSE.
func (s *Server) mount(o *fuse.MountOptions) error {
	o.Options = append(s.raw.opts.system.options(o.FsName), s.raw.mount.Data...)
	o.FsName = mounts.SourcePrefix + o.FsName
	var err error
	if s.fuse, err = fuse.NewServer(s.raw, s.mountpoint, o); err != nil {
		return fmt.Errorf("%w; is macFUSE installed, and its kernel extension allowed in System Settings, Privacy & Security?", err)
	}
	s.serve()
	return s.fuse.WaitMount()
}
