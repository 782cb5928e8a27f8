package fs

import (
	"errors"
	"log/slog"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs"
)

// storedFile is Data that is all of an open file of this machine.
type storedFile interface {
	Descriptor() int
	// Slow reports whether the kernel would read the file much slower than the server, which
	// has many requests under way. It may take as long as two reads.
	Slow() bool
}

// passedFiles are files of the tree that the kernel reads past the server (passthrough). A
// file becomes readable for the kernel in one of two ways:
//
//   - A file of the model as it is: at the speed of the model's own file system, and from its
//     pages, which need not be in memory twice. Large files of slow disks are read by the server.
//   - Every other large file, in an image of its directory (see images): what the server gives
//     is in large pages, which are read and mapped as fast as those of any file.
//
// All opens of a file at a time must take the same way, so they are counted.
type passedFiles struct {
	log    *slog.Logger
	kernel backings
	images *images    // may be nil
	kept   *opensFile // nil unless another server needs to know the open files

	mu      sync.Mutex
	refused bool            // the kernel takes no files of the model
	direct  map[uint64]bool // by the device of a file system: whether it has direct I/O
	open    map[uint64]*openFile
}

// way is how a file is read that is open.
type way uint8

const (
	answered way = iota // by the server
	stored              // by the kernel, from the model's file
	imaged              // by the kernel, from an image
)

type openFile struct {
	opens   int
	way     way
	backing int32
}

// backings makes the kernel read files.
type backings interface {
	register(fd int) (backing int32, err error)
	unregister(backing int32)
}

// countedHandle is the handle of opens that are counted.
const countedHandle = 1

// opened decides how a file is read, the one with that id in the tree and its data, and notes that it
// is open. unique is the number of the request. An error means that the file cannot be read.
//
// direct is set if the program wants direct I/O (O_DIRECT). The kernel does not mix ways to
// open one file, so such an open uses the file's present way as well; otherwise a program
// could open a file directly only while it is not open elsewhere. For a file in an image,
// the server answers the reads of such an open, whose bytes are not cached, and the image
// has its mappings.
func (s *passedFiles) opened(t *served, id uint64, d tensorfs.Data, direct bool, unique uint64, out *fuse.OpenOut) error {
	if s == nil {
		return nil
	}
	_, isStored := d.(storedFile)
	if !isStored && !inImage(d) {
		return nil // the server answers, for every reader
	}
	node := t.node | id
	slow := inImage(d) && !s.isOpen(node) && isSlow(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.open[node]
	if o == nil {
		o = new(openFile)
		var err error
		if o.backing, o.way, err = s.way(t, id, d, slow); err != nil {
			return err
		}
		s.open[node] = o
	}
	if o.way != answered {
		out.OpenFlags, out.BackingID = fuse.FOPEN_PASSTHROUGH|fuse.FOPEN_NOFLUSH, o.backing
		if direct && o.way == imaged {
			out.OpenFlags |= fuse.FOPEN_DIRECT_IO
		}
	}
	out.Fh = countedHandle
	if s.kept != nil {
		handle, again, err := s.kept.add(node, unique, o.backing)
		if err != nil {
			s.ended(node, o)
			return err
		}
		if out.Fh = handle; again {
			return nil
		}
	}
	o.opens++
	return nil
}

// isOpen reports whether a file is open, and its way is decided.
func (s *passedFiles) isOpen(node uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[node] != nil
}

// isSlow reports whether a file of the model is on a slow disk. See storedFile.
func isSlow(d tensorfs.Data) bool {
	f, ok := d.(storedFile)
	return ok && f.Slow()
}

// way finds a way to a file that is not open.
func (s *passedFiles) way(t *served, id uint64, d tensorfs.Data, slow bool) (backing int32, w way, err error) {
	if !slow {
		if backing, ok := s.stored(d); ok {
			return backing, stored, nil
		}
	}
	if s.images == nil || !inImage(d) {
		return 0, answered, nil
	}
	backing, ok, err := s.imaged(t, id)
	if !ok {
		return 0, answered, err
	}
	return backing, imaged, nil
}

// stored registers a file of the model.
func (s *passedFiles) stored(d tensorfs.Data) (backing int32, ok bool) {
	f, ok := d.(storedFile)
	if !ok || s.refused || !s.takesDirect(f.Descriptor()) {
		return 0, false
	}
	backing, err := s.kernel.register(f.Descriptor())
	if err != nil { // a model on overlayfs or on another FUSE mount: ELOOP
		s.refused = true
		s.log.Debug("the kernel cannot read the model's files directly; the server reads them", "error", err)
	}
	return backing, err == nil
}

// imaged registers a file of an image.
func (s *passedFiles) imaged(t *served, id uint64) (backing int32, ok bool, err error) {
	fd, err := s.images.open(t, id)
	if errors.Is(err, errNoImage) {
		return 0, false, nil
	}
	if err == nil {
		defer syscall.Close(fd)
		backing, err = s.kernel.register(fd)
	}
	switch {
	case err == nil:
		return backing, true, nil
	case errors.Is(err, syscall.ESTALE), errors.Is(err, syscall.EIO): // the model, not the kernel
		return 0, false, err
	}
	s.log.Debug("the kernel takes no images of directories; the server answers its reads", "error", err)
	s.endImages()
	return 0, false, nil
}

// released ends an open that was counted.
func (s *passedFiles) released(node, handle uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept != nil && !s.kept.remove(handle) {
		return // another server did, and was killed before it said so
	}
	o := s.open[node]
	o.opens--
	s.ended(node, o)
}

// ended ends the way to a file after its last close. mu is held.
func (s *passedFiles) ended(node uint64, o *openFile) {
	if o.opens == 0 {
		delete(s.open, node)
		if o.way != answered {
			s.kernel.unregister(o.backing)
		}
	}
}

// imaging returns how many directories have an image now.
func (s *passedFiles) imaging() int {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.images.len()
}

// end gives back what images took. The mount is gone.
func (s *passedFiles) end() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endImages()
}

func (s *passedFiles) endImages() {
	if s.images != nil {
		s.images.end()
		s.images = nil
	}
}
