package fs

import (
	"errors"
	"fmt"
	"log"
	"log/slog"
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/memlimit"
	"github.com/tensorfs/tensorfs/internal/mounts"
)

// Errors of mounting that programs tell apart.
var (
	// ErrMounted is the error that a tensorfs is mounted at the path already.
	ErrMounted = mounts.ErrMounted
	// ErrNoMountpoint is the error that there is no directory at the path.
	ErrNoMountpoint = mounts.ErrNoMountpoint
)

// Server is a mounted tree that is being served.
type Server struct {
	mountpoint string
	made       string // identity of the directory at the mount point if Mount made it
	raw        *rawFS
	fuse       *fuse.Server
	device     string // major:minor as the mount table shows it; "" if it shows none
	done       chan struct{}
}

// maxWaiting is how many requests of the kernel's read-ahead may wait. With the kernel's
// default of 12, the requests for one file whose server does not answer would stop all
// others.
const maxWaiting = 128

// Mount mounts the tree and serves it until it is unmounted. It returns when the mount can
// be used. A mount that a killed server left behind is cleaned up first; for a live one it
// returns ErrMounted.
//
// With Options.MakeMountpoint it makes the last directory of the mount point if
// that is missing. The directory is removed again when mounting fails, and when the
// mount and its last user are gone.
//
// It sets the soft memory limit of the process, unless GOMEMLIMIT does.
//
// The calling process must not use the mount itself: a page fault on a file of
// its own can stop the very goroutine that would answer it.
func Mount(tree tensorfs.Dir, mountpoint string, opts Options) (*Server, error) {
	raw, err := newRawFS(tree, opts)
	if err != nil {
		return nil, err
	}
	return mountRaw(raw, mountpoint)
}

// mountRaw mounts what answers the requests.
func mountRaw(raw *rawFS, mountpoint string) (*Server, error) {
	o := raw.fuseOptions()
	if raw.opts.Keeper != nil {
		s, err := takeOver(raw, o, mountpoint)
		if s != nil || err != nil {
			return s, err
		}
	}
	s, err := mountAnew(raw, o, mountpoint)
	if err != nil && raw.opts.Keeper != nil {
		err = errors.Join(err, raw.opts.Keeper.Drop())
	}
	return s, err
}

// mountAnew makes the mount.
func mountAnew(raw *rawFS, o *fuse.MountOptions, mountpoint string) (*Server, error) {
	point, err := mounts.Take(mountpoint, raw.opts.MakeMountpoint, raw.opts.NonEmpty)
	if err != nil {
		return nil, err
	}
	defer point.Close()
	if point.Cleaned {
		raw.opts.Logger.Info("removed the mount of a server that is gone", "mountpoint", mountpoint)
	}
	s := &Server{mountpoint: point.Path, made: point.Made, raw: raw, done: make(chan struct{})}
	memlimit.Follow()
	if err := s.mount(o); err != nil {
		raw.OnUnmount()
		point.Remove()
		return nil, fmt.Errorf("%s: %w", tensorfs.Printable(mountpoint), err)
	}
	return s, nil
}

// fuseOptions are the options for go-fuse.
func (f *rawFS) fuseOptions() *fuse.MountOptions {
	o := &fuse.MountOptions{
		MaxWrite:          maxRequest,
		FsName:            f.opts.FsName,
		Name:              mounts.Program,
		DisableSplice:     true, // it costs three calls a reply and gains nothing
		ExtraCapabilities: fuse.CAP_READDIRPLUS_AUTO,
		// So a file system may still be stacked on the mount (overlayfs), but files
		// on overlayfs are not passed through.
		MaxStackDepth: 1,
		Debug:         f.opts.Debug,
		Logger:        log.New(fuseLog{f}, "", 0),
		PanicHandler:  f.panicked,
		// Container runtimes map the owners of a volume for pods with user namespaces. The kernel allows that if it
		// checks modes and owners itself, and refuses the whole mount otherwise.
		IDMappedMount: slices.Contains(f.mount.Data, "default_permissions"),
	}
	if f.passed == nil {
		o.DisabledCapabilities = fuse.CAP_PASSTHROUGH
	}
	if f.opts.Waits {
		o.MaxBackground = maxWaiting
	}
	return o
}

// serve answers requests until the mount is gone.
func (s *Server) serve() {
	go func() {
		defer close(s.done)
		s.fuse.Serve()
		if k := s.raw.opts.Keeper; k != nil {
			if err := k.Drop(); err != nil {
				s.raw.opts.Logger.Debug("the keeper cannot be told that the mount is gone", "error", err) // it will see
			}
		}
		if s.made != "" {
			mounts.Leave(s.mountpoint, s.made)
		}
	}()
}

// Wait returns when the mount and its last user are gone.
func (s *Server) Wait() { <-s.done }

// Done is closed when Wait would return.
func (s *Server) Done() <-chan struct{} { return s.done }

// Unmount unmounts. It fails with an error that wraps syscall.EBUSY as long as a process
// has a file, a mapping or a working directory there; the server then goes on. It does not
// wait: see Wait.
func (s *Server) Unmount() error { return s.unmount(false) }

// UnmountLazy takes the mount out of the tree of files at once, in use or not. Its users
// are served until the last of them is done.
func (s *Server) UnmountLazy() error { return s.unmount(true) }

func (s *Server) unmount(lazy bool) error {
	select {
	case <-s.done:
		return nil
	default:
	}
	m, err := mounts.Top(s.mountpoint)
	switch {
	case err == nil && s.device != "" && (m == nil || m.Device != s.device):
		// Another mount may be at the path by now, and the name may be gone while the
		// last users are still there.
		return nil
	case err != nil || m == nil:
		m = &mounts.Mount{Mountpoint: s.mountpoint} // the kernel knows better
	}
	return m.Unmount(lazy)
}

// Status returns the state of the server. It checks the files of the model, see
// [Options.Check].
func (s *Server) Status() Status { return s.raw.status() }

// Logger returns Options.Logger with a memory: what it logs as a warning or error
// is part of the Health.
func (s *Server) Logger() *slog.Logger { return s.raw.opts.Logger }
