package fs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"sync"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs/internal/memlimit"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
)

// A FUSE connection lives as long as its device is open anywhere, and the kernel does not care who
// answers. So a server that keeps its mount goes to the device by the way of a socket:
//
//	kernel's INIT -> kept -> socket -> go-fuse -> its answer -> kept -> kernel
//
// and replaces the socket by the device then. The next server gives go-fuse the INIT that
// was kept; if go-fuse gives the same answer, the agreement with the kernel holds, and it
// goes on at the device. It asks the kernel for the requests that its predecessor took and
// did not answer.

// initFlags2 is where an INIT message has the upper half of the kernel's abilities: behind the header, the version,
// the read-ahead and the lower half.
const initFlags2 = 40 + 4*4

// canResend is resends, but where a test needs an older kernel.
var canResend = resends

// resends reports whether the kernel can send requests again (Linux 6.9), by its INIT
// message.
func resends(init []byte) bool {
	return len(init) >= initFlags2+4 && binary.NativeEndian.Uint32(init[initFlags2:])&(fuse.CAP_HAS_RESEND>>32) != 0
}

// readInit reads the first message of a mount.
func readInit(device int) ([]byte, error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(device, buf)
		if err == nil {
			return buf[:n], nil
		}
		if !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("the kernel's first message: %w", err)
		}
	}
}

// attach has go-fuse agree with the kernel whose INIT message was read, and returns what go-fuse answered and the
// descriptor that it serves from then on: a socket, which the device has to take the place of.
func (s *Server) attach(init []byte, o *fuse.MountOptions) (answer []byte, fd int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("socketpair: %w", err)
	}
	defer unix.Close(pair[1])
	if _, err := unix.Write(pair[1], init); err != nil {
		unix.Close(pair[0])
		return nil, -1, err
	}
	if s.fuse, err = fuse.NewServer(s.raw, "/dev/fd/"+strconv.Itoa(pair[0]), o); err != nil { // it has closed the socket
		return nil, -1, err
	}
	if err := presentBuffers(s.fuse); err != nil {
		s.raw.opts.Logger.Warn("if this server is killed, a reader may get an error", "error", err)
	}
	buf := make([]byte, 4096)
	n, err := unix.Read(pair[1], buf)
	if err != nil {
		return nil, -1, err
	}
	return buf[:n], pair[0], nil
}

// longestRequest is what the kernel sends at most in a request that a reader waits for: a header and a name.
const longestRequest = 40 + unix.PathMax

// presentBuffers has go-fuse read requests only into buffers whose pages are present. While
// a process is killed, its threads still take requests. The kernel gives them no new pages
// any more: a request whose page is missing ends with EIO, instead of waiting for the next
// server. Go does not touch memory that it allocates if that is zero already, because it is
// fresh or was given back to the kernel. A buffer in use is not given back. The buffer of
// the first message is older than this call; that message has touched its pages.
//
// go-fuse has no option for its buffers, so the function that makes them is replaced where go-fuse keeps it. The kernel
// may still take pages away, to swap or to move them.
func presentBuffers(s *fuse.Server) error {
	f := reflect.ValueOf(s).Elem().FieldByName("readPool")
	if !f.IsValid() || f.Type() != reflect.TypeFor[sync.Pool]() {
		return errors.New("this version of go-fuse allocates its buffers in another way")
	}
	pool := (*sync.Pool)(unsafe.Pointer(f.UnsafeAddr()))
	allocate := pool.New
	pool.New = func() any {
		v := allocate()
		if buf, ok := v.([]byte); ok {
			clear(buf[:longestRequest])
		}
		return v
	}
	return nil
}

// mountKept is mount for a server that keeps its mount.
func (s *Server) mountKept(o *fuse.MountOptions) error {
	device, err := mounts.MountFUSE(s.mountpoint, o.FsName, maxRequest, s.raw.mount)
	if err != nil {
		return err
	}
	defer unix.Close(device)
	init, err := readInit(device)
	var answer []byte
	fd := -1
	if err == nil {
		answer, fd, err = s.attach(init, o)
	}
	if err == nil {
		_, err = unix.Write(device, answer)
	}
	if err == nil {
		err = unix.Dup3(device, fd, unix.O_CLOEXEC)
	}
	if err != nil {
		if uerr := (&mounts.Mount{Mountpoint: s.mountpoint}).Unmount(true); uerr != nil {
			err = fmt.Errorf("%w (and it cannot be unmounted: %w)", err, uerr)
		}
		return fmt.Errorf("the kernel refused the file system: %w", err)
	}
	m, err := mounts.Top(s.mountpoint)
	if err == nil && m != nil {
		s.device = m.Device
		s.raw.opts.setReadAhead(m.Device)
	}
	log := s.raw.opts.Logger
	if !canResend(init) {
		log.Warn("this kernel does not let a mount outlive its server, which takes Linux 6.9: if this server is killed, its readers get errors")
		return s.raw.opts.Keeper.Drop()
	}
	kept, err := newStateFile(state{
		Numbering: numbering, Identity: s.raw.identity(), Mountpoint: s.mountpoint, Made: s.made, Device: s.device, Init: init, Answer: answer,
		Later: map[uint64]string{},
	})
	if err == nil {
		s.keep(kept)
		k := s.raw.opts.Keeper
		err = errors.Join(s.keepOpens(), k.Put(keptDevice, device), k.Put(keptState, kept.fd))
	}
	if err != nil {
		log.Warn("the mount cannot be kept: if this server is killed, its readers get errors", "error", err)
	}
	return nil
}

// keep starts recording what directories contain that are made on first access.
func (s *Server) keep(kept *stateFile) {
	s.raw.kept = kept
	s.raw.tree.eachLater(func(d *dirNode) {
		d.later.note = func(t *nodes) {
			if err := kept.change(func(to *state) { to.Later[d.id] = t.digest() }); err != nil {
				s.raw.opts.Logger.Error("what a directory has cannot be kept", "directory", d.path, "error", err)
			}
		}
	})
}

// keepOpens starts recording which open files the kernel reads itself.
func (s *Server) keepOpens() error {
	if s.raw.passed == nil {
		return nil
	}
	f, err := newOpensFile()
	if err != nil {
		return err
	}
	s.raw.passed.kept = f
	return s.raw.opts.Keeper.Put(keptOpens, f.fd)
}

// eachLater calls fn with the directories that are made later.
func (t *nodes) eachLater(fn func(*dirNode)) {
	for k := range t.dirs {
		if d := &t.dirs[k]; d.later != nil {
			fn(d)
		}
	}
}

// takeOver goes on with the mount that another server left with the keeper. It returns nil if there is no such mount, or it cannot be taken
// over: open files there give ESTALE, and a new
// mount can be made.
func takeOver(raw *rawFS, o *fuse.MountOptions, mountpoint string) (*Server, error) {
	if k, ok := raw.opts.Keeper.(interface{ LogTo(*slog.Logger) }); ok {
		k.LogTo(raw.opts.Logger)
	}
	fds, err := raw.opts.Keeper.Get()
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	device, ok := fds[keptDevice]
	fd, ok2 := fds[keptState]
	if !ok || !ok2 { // its server was killed before all was kept
		return nil, raw.opts.Keeper.Clear()
	}
	delete(fds, keptState)
	kept, err := openStateFile(fd)
	if err != nil {
		unix.Close(fd)
		kept = nil
	}
	log := raw.opts.Logger
	var opens *opensFile
	if fd, ok := fds[keptOpens]; ok && err == nil && raw.passed != nil {
		delete(fds, keptOpens)
		if opens, err = openOpensFile(fd); err != nil {
			unix.Close(fd)
		}
	}
	var s *Server
	if err == nil {
		if s, err = resume(raw, o, kept, opens, device, mountpoint); err == nil {
			log.Info("took the mount over from a server that is gone", "mountpoint", s.mountpoint)
			return s, nil
		}
	}
	log.Warn("the mount of a server that has ended cannot be taken over; mounting again", "error", err)
	delete(fds, keptDevice)
	retire(kept, device, mountpoint, log)
	// Before the keeper gets anything of the new mount: the next server must not find the
	// device of one mount and the state of another.
	return nil, raw.opts.Keeper.Clear()
}

// Reasons why a mount is not taken over.
var (
	errUnmounted = errors.New("it is not mounted any more")
	errOther     = errors.New("the model, or what is shown of it, is another one")
	errAgreed    = errors.New("this version agrees on other things with the kernel")
)

// resume serves the device of a server that is gone.
func resume(raw *rawFS, o *fuse.MountOptions, kept *stateFile, opens *opensFile, device int, mountpoint string) (*Server, error) {
	was := &kept.state
	m, err := was.ownMount(device, mountpoint)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, errUnmounted
	case (raw.passed == nil) != (opens == nil):
		return nil, errAgreed
	case was.Numbering != numbering || was.Identity != raw.identity():
		return nil, errOther
	}
	for id, digest := range was.Later {
		d := raw.tree.listed(id)
		if d == nil || d.later == nil || d.later.nodes().digest() != digest {
			return nil, errOther
		}
	}
	s := &Server{mountpoint: was.Mountpoint, made: was.Made, device: was.Device, raw: raw, done: make(chan struct{})}
	memlimit.Follow()
	answer, fd, err := s.attach(was.Init, o)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(answer, was.Answer) {
		return nil, errAgreed
	}
	if err := kept.change(func(to *state) {
		to.Taken++
		if to.Later == nil {
			to.Later = map[uint64]string{}
		}
	}); err != nil {
		return nil, err
	}
	s.keep(kept)
	if err := unix.Dup3(device, fd, unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if opens != nil {
		raw.passed.resume(opens)
	}
	s.serve()
	return s, resend(device)
}

// resend asks the kernel for the requests that were taken from a device and not answered.
func resend(device int) error {
	const resendCode = 7 // FUSE_NOTIFY_RESEND
	if _, err := unix.Write(device, outHeader(resendCode, 0)); err != nil {
		return fmt.Errorf("asking the kernel for unanswered requests: %w", err)
	}
	return nil
}
