package metal

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Options choose how a tree is loaded. The zero value is the default.
type Options struct {
	// Device makes the buffers; nil for DefaultDevice, which the loader then
	// closes itself.
	Device Device
	// MountedOnly maps the mounted files only, never the model's own. Tensors
	// that the model holds unchanged are then in memory twice: in the model's
	// page cache and in the mount's.
	MountedOnly bool
	// OffsetAlign is what Buffer.Offset must be a multiple of; a tensor that
	// at another offset of the model's file is taken from its mounted file. 0 is
	// the size of an element, and 4 at least. Metal wants 256 for buffers bound
	// to the constant address space of some GPUs.
	OffsetAlign int64
}

// Ref names a tensor of a view.
type Ref struct{ View, Name string }

// String returns the tensor's path in the tree.
func (r Ref) String() string { return r.View + "/" + r.Name }

// ModelInfo is what the tree says about the model.
type ModelInfo struct {
	Format       string
	Path         string
	Architecture string
	Layout       string
}

// TensorInfo describes a tensor of a view.
type TensorInfo struct {
	Ref
	DType       string  // of ggml (Q4_K) or safetensors (BF16)
	Shape       []int64 // row-major
	Bytes       int64
	Sections    []Section // nil where the bytes are one section
	Quant       *Quant    // nil where the bytes say all
	EngineDType int       // -1 without one
}

// Section is a part of a tensor's bytes, such as the scales after the codes.
type Section struct {
	Name   string `json:"name"`
	DType  string `json:"dtype"`
	Offset int64  `json:"offset"` // from the start of the tensor
	Bytes  int64  `json:"bytes"`
}

// Quant says how a tensor is quantised.
type Quant struct {
	Mode      string `json:"mode"`
	Bits      int    `json:"bits"`
	GroupSize int    `json:"group_size"`
}

// Loader gives the tensors of one mounted tree as buffers. Its methods are safe
// for concurrent use.
type Loader struct {
	dir       string
	root      *os.Root
	index     *index
	device    Device
	ownDevice bool
	info      DeviceInfo
	limit     int64 // of a window: whole pages
	opts      Options
	plans     []filePlan // by index.files

	tensors shared[Ref, *tensor]
	regions shared[regionKey, *region]
	files   shared[fileKey, *mapping]
}

// Open reads the index of the tree mounted at a directory.
func Open(mountpoint string, opts Options) (*Loader, error) {
	l, err := open(mountpoint, opts)
	if err != nil {
		return nil, fmt.Errorf("metal: %s: %w", mountpoint, err)
	}
	return l, nil
}

func open(mountpoint string, opts Options) (_ *Loader, err error) {
	if opts.OffsetAlign < 0 {
		return nil, fmt.Errorf("offset alignment %d is negative", opts.OffsetAlign)
	}
	dir, err := filepath.Abs(mountpoint)
	if err != nil {
		return nil, err
	}
	// The open directory stays: a mount that takes the place of this one later
	// is not mistaken for it.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, reword(err)
	}
	l := &Loader{dir: dir, root: root, device: opts.Device, opts: opts}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Close())
			if l.ownDevice {
				err = errors.Join(err, l.device.Close())
			}
		}
	}()
	if l.index, err = l.readIndex(); err != nil {
		return nil, err
	}
	if l.device == nil {
		if l.device, err = DefaultDevice(); err != nil {
			return nil, err
		}
		l.ownDevice = true
	}
	l.info = l.device.Info()
	page := int64(os.Getpagesize())
	if l.info.PageSize < page || l.info.PageSize&(l.info.PageSize-1) != 0 || l.info.MaxBufferLength < l.info.PageSize {
		return nil, fmt.Errorf("device %q: pages of %d bytes and buffers of %d make no sense here", l.info.Name, l.info.PageSize, l.info.MaxBufferLength)
	}
	l.limit = l.info.MaxBufferLength / l.info.PageSize * l.info.PageSize
	l.plans = make([]filePlan, len(l.index.files))
	l.tensors.drop = (*tensor).drop
	l.regions.drop = func(r *region) error { return r.buffer.Release() }
	l.files.drop = (*mapping).unmap
	return l, nil
}

func (l *Loader) readIndex() (*index, error) {
	f, err := l.root.Open("index.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no index.json: is a model mounted here? (tensorfs status)")
	}
	if err != nil {
		return nil, reword(err)
	}
	defer f.Close()
	x, err := readIndex(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("index.json: %w", reword(err))
	}
	return x, nil
}

// reword explains the errors that a lost mount gives.
func reword(err error) error {
	if errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.EIO) || errors.Is(err, unix.ESTALE) || errors.Is(err, unix.ECONNABORTED) {
		return fmt.Errorf("%w: the mount is gone or its model changed; mount it again and open it anew", err)
	}
	return err
}

// Model describes the model that is mounted.
func (l *Loader) Model() ModelInfo { return l.index.model }

// DeviceInfo describes the device that makes the buffers.
func (l *Loader) DeviceInfo() DeviceInfo { return l.info }

// Views returns the names of the views, sorted.
func (l *Loader) Views() []string {
	names := make([]string, len(l.index.views))
	for i, v := range l.index.views {
		names[i] = v.name
	}
	return names
}

// Names returns the tensors of a view, sorted; nil where there is no such view.
func (l *Loader) Names(view string) []string {
	v := l.index.view(view)
	if v == nil {
		return nil
	}
	names := make([]string, len(v.entries))
	for i, e := range v.entries {
		names[i] = e.name
	}
	return names
}

// Info describes a tensor. The slices are the caller's.
func (l *Loader) Info(view, name string) (TensorInfo, error) {
	ref := Ref{view, name}
	e, err := l.find(ref)
	if err != nil {
		return TensorInfo{}, fmt.Errorf("metal: %w", err)
	}
	info := TensorInfo{
		Ref:         ref,
		DType:       l.index.dtypes[e.dtype],
		Shape:       slices.Clone(l.index.shapes[e.shape]),
		Bytes:       e.bytes,
		Sections:    slices.Clone(l.index.layout[e.layout].sections),
		EngineDType: l.index.layout[e.layout].engine,
	}
	if q := l.index.layout[e.layout].quant; q != nil {
		quant := *q
		info.Quant = &quant
	}
	return info, nil
}

// find returns the entry of a tensor.
func (l *Loader) find(ref Ref) (*entry, error) {
	v := l.index.view(ref.View)
	if v == nil {
		return nil, fmt.Errorf("%q: no such view; there are %s: %w", ref.View, strings.Join(l.Views(), ", "), ErrAbsent)
	}
	if e := v.entry(ref.Name); e != nil {
		return e, nil
	}
	if why, ok := v.reason(ref.Name); ok {
		return nil, fmt.Errorf("%q is not in view %q: %s: %w", ref.Name, ref.View, why, ErrAbsent)
	}
	return nil, fmt.Errorf("%q is not in view %q: %w", ref.Name, ref.View, ErrAbsent)
}

// Close ends the loader. While buffers are in use it is an error that names
// them, and nothing is closed.
func (l *Loader) Close() error {
	held, err := l.tensors.close()
	if held != nil {
		names := make([]string, 0, len(held))
		for _, ref := range held {
			names = append(names, ref.String())
		}
		slices.Sort(names)
		const shown = 5
		more := ""
		if n := len(names) - shown; n > 0 {
			names, more = names[:shown], fmt.Sprintf(" and %d more", n)
		}
		return fmt.Errorf("metal: %s: buffers are in use, release them first: %s%s", l.dir, strings.Join(names, ", "), more)
	}
	if err != nil {
		return fmt.Errorf("metal: %s: %w", l.dir, err)
	}
	err = l.root.Close()
	if l.ownDevice {
		err = errors.Join(err, l.device.Close())
	}
	if err != nil {
		return fmt.Errorf("metal: %s: %w", l.dir, err)
	}
	return nil
}

// fileKey is a file that can be mapped: a mounted one or one of the model.
type fileKey struct {
	ref    Ref   // of a mounted file; zero for the model's
	source int32 // place in index.files
}

// openMounted opens the mounted file of an entry and checks its length.
func (l *Loader) openMounted(ref Ref, e *entry) (*os.File, error) {
	// The root lets no name lead out of the tree.
	f, err := openRegular(func(flag int) (*os.File, error) { return l.root.OpenFile(ref.String(), flag, 0) }, e.bytes, true)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: index.json names it and the mount lacks it; is the model still mounted? (tensorfs status)", err)
	}
	return f, err
}

// openSource opens a file of the model, which must hold size bytes.
func (l *Loader) openSource(file int32, size int64) (*os.File, error) {
	name := l.index.files[file]
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("%q is not a file below source/", name)
	}
	// source/ holds links that lead out of the tree.
	link := filepath.Join("source", name)
	path := filepath.Join(l.dir, link)
	if target, err := l.root.Readlink(link); err == nil {
		path = target
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.dir, filepath.Dir(link), target)
		}
	}
	return openRegular(func(flag int) (*os.File, error) { return os.OpenFile(path, flag, 0) }, size, false)
}

// openRegular opens a regular file of exactly, or at least, size bytes. It does
// not wait for the other end of a FIFO.
func openRegular(open func(flag int) (*os.File, error), size int64, exact bool) (*os.File, error) {
	f, err := open(os.O_RDONLY | unix.O_NONBLOCK)
	if err != nil {
		return nil, reword(err)
	}
	st, err := f.Stat()
	switch {
	case err != nil:
		err = reword(err)
	case !st.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", f.Name())
	case st.Size() < size, exact && st.Size() != size:
		err = fmt.Errorf("%s has %d bytes and index.json says %d; mount the model again and open it anew", f.Name(), st.Size(), size)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
