package metal

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/models"
	modeltree "github.com/tensorfs/tensorfs/views/tree"
)

// Options choose how a model is opened and loaded. The zero value is the default.
type Options struct {
	// Device makes the buffers; nil means DefaultDevice, which the loader then closes
	// itself.
	Device Device
	// TreeOnly maps no files of the model itself, only files of the tree or of a cache.
	// With a mount, unchanged tensors are then in memory twice: in the model's page cache
	// and in the mount's.
	TreeOnly bool
	// OffsetAlign is what Buffer.Offset must be a multiple of, a power of two; a
	// tensor at another offset of the model's file is taken from elsewhere. 0 is
	// the size of an element, and 4 at least. Metal wants 256 for buffers bound
	// to the constant address space of some GPUs.
	OffsetAlign int64
	// TailPad is how many bytes a kernel may read past the end of a tensor. They
	// are in its buffer then; what they hold is not said. A tensor whose file ends
	// sooner is taken into memory.
	TailPad int64
	// MaxMemory is how much the buffers of the loader may take together; Load refuses to
	// take more. 0 means what the device reports as free.
	MaxMemory int64

	// Views names the views; nil means a mount's default views. A view is made on first
	// use.
	Views []string
	// I2S is the layout of I2_S codes: one of views.I2SLayouts, "" to go by the size.
	// Of a tree it cannot be chosen any more, which is an error of Open.
	I2S string
	// LoRA are adapters that are applied, in order: paths or names, each with the number by
	// which its changes are multiplied after a colon, 1 without one, as --lora of the
	// commands. A tree is as it was made; its adapters count besides.
	LoRA []string
	// Convert selects the contents of gguf/, hf/ and mlx/, by the values of the command's
	// flags: {GGUFType: "q4_k_m"}, {MLXBits: "4"}, {Dequantise: true}. The views hf and
	// mlx, and the files of Tree, follow it.
	Convert models.Convert
	// Model configures how the model's files are found and read. With Formats of a
	// [github.com/tensorfs/tensorfs/formats/remote.Client] they may be on servers.
	Model formats.Options
	// CacheDir is the directory of the cache; "" means the output of "tensorfs cache dir".
	CacheDir string
	// CacheLimit is how many bytes converted models may take there; 0 for a quarter of
	// what is free and what they take.
	CacheLimit int64
	// Logger receives why the cache cannot be used; may be nil.
	Logger *slog.Logger
}

// Ref names a tensor of a view.
type Ref struct{ View, Name string }

// String returns the tensor's path in the tree.
func (r Ref) String() string { return r.View + "/" + r.Name }

// Loader gives the tensors of one tree as buffers. Its methods are safe for
// concurrent use.
type Loader struct {
	tree      shelf
	name      string // of the tree, for messages
	device    Device
	ownDevice bool
	info      DeviceInfo
	limit     int64 // of a window: whole pages
	opts      Options

	mu      sync.Mutex
	closed  bool
	regions map[*region]struct{} // all that are held
	files   map[file][]*region   // by file
	memory  map[Ref]*region      // by tensor in memory
	leases  map[*lease]struct{}

	ending sync.WaitGroup // goroutines that free buffers of unused regions
}

// New returns a Loader of a model, which it closes, also on error. The options are asked of the
// model as Open asks them.
func New(m *tensorfs.Model, opts Options) (*Loader, error) {
	asked, err := models.Of(m, opts.modelOptions())
	if err != nil {
		return nil, fmt.Errorf("metal: %s: %w", tensorfs.Printable(m.Path), err)
	}
	return newLoader(newTree(asked, opts), opts)
}

func newLoader(t shelf, opts Options) (*Loader, error) {
	name := t.Model().Path
	l := &Loader{tree: t, name: name, device: opts.Device, opts: opts, regions: map[*region]struct{}{},
		files: map[file][]*region{}, memory: map[Ref]*region{}, leases: map[*lease]struct{}{}}
	if err := l.setDevice(); err != nil {
		return nil, fmt.Errorf("metal: %s: %w", name, errors.Join(err, l.close()))
	}
	return l, nil
}

// setDevice checks the options, and finds a device if they have none.
func (l *Loader) setDevice() (err error) {
	if a := l.opts.OffsetAlign; a < 0 || a&(a-1) != 0 {
		return fmt.Errorf("offset alignment %d is not a power of two", a)
	}
	if l.opts.TailPad < 0 || l.opts.TailPad > math.MaxInt32 || l.opts.MaxMemory < 0 {
		return fmt.Errorf("tail padding %d or memory limit %d makes no sense", l.opts.TailPad, l.opts.MaxMemory)
	}
	if l.device == nil {
		if l.device, err = DefaultDevice(); err != nil {
			return err
		}
		l.ownDevice = true
	}
	l.info = l.device.Info()
	if err := l.info.check(); err != nil {
		return err
	}
	l.limit = l.info.MaxBufferLength / l.info.PageSize * l.info.PageSize
	return nil
}

// Model returns the model. It is closed with the loader.
func (l *Loader) Model() *tensorfs.Model { return l.tree.Model() }

// Tree returns the model as the directory that a mount shows, with the views of the loader. It
// is valid until the loader is closed.
func (l *Loader) Tree() *modeltree.Tree { return l.tree.Tree() }

// DeviceInfo describes the device that makes the buffers.
func (l *Loader) DeviceInfo() DeviceInfo { return l.info }

// Views returns the names of the views, sorted.
func (l *Loader) Views() []string { return slices.Clone(l.tree.Views()) }

// Names returns the tensors of a view, sorted; nil if the loader has no such view.
func (l *Loader) Names(view string) []string { return slices.Clone(l.tree.Names(view)) }

// Info describes a tensor, whose Data can be read without a buffer. What it points to
// must not be changed.
func (l *Loader) Info(view, name string) (tensorfs.Tensor, error) {
	t, err := l.tree.Tensor(Ref{view, name})
	if err != nil {
		return t, fmt.Errorf("metal: %w", err)
	}
	return t, nil
}

// Tensor returns a tensor as a buffer. Each buffer is released once, and all buffers of the
// tensor share its memory.
//
// A tensor from Tensor has a buffer of its own. Load is for many tensors.
func (l *Loader) Tensor(view, name string) (Buffer, error) {
	return l.tensor(Ref{view, name}, false)
}

// Private returns a tensor as a buffer of the caller's own, which may be written to. A file
// is mapped copy on write, so unwritten pages stay shared, and neither the file nor any
// other buffer sees a write. Everything else is read or converted into new memory. Each
// buffer is released once.
func (l *Loader) Private(view, name string) (Buffer, error) {
	return l.tensor(Ref{view, name}, true)
}

func (l *Loader) tensor(ref Ref, private bool) (Buffer, error) {
	p, err := l.locate(ref, CacheRead)
	if err != nil {
		return Buffer{}, err
	}
	var r *region
	if p.File != nil {
		w := l.window(&p)
		w.private = private
		r, err = l.acquire(w, l.mapWindow)
	}
	if p.File == nil || errors.Is(err, ErrDeclined) {
		a := l.arenas([]*place{&p})[0]
		a.private = private
		r, err = l.acquire(a, l.fill(&p))
	}
	if err != nil {
		return Buffer{}, fmt.Errorf("metal: %s: %w", p.ref, err)
	}
	return l.lease(&p, r, false), l.release(r)
}

// Close ends the loader. While buffers are in use it is an error that names
// them, and nothing is closed.
func (l *Loader) Close() error {
	l.mu.Lock()
	closed, regions, names := l.closed, len(l.regions), l.inUse()
	l.closed = regions == 0 || closed
	l.mu.Unlock()
	switch {
	case closed:
		return fmt.Errorf("metal: %s: %w", l.name, ErrClosed)
	case regions > 0 && names == "":
		return fmt.Errorf("metal: %s: %w: tensors are being loaded or read", l.name, ErrInUse)
	case regions > 0:
		return fmt.Errorf("metal: %s: %w, release them first: %s", l.name, ErrInUse, names)
	}
	l.ending.Wait()
	if err := l.close(); err != nil {
		return fmt.Errorf("metal: %s: %w", l.name, err)
	}
	return nil
}

func (l *Loader) close() error {
	err := l.tree.Close()
	if l.ownDevice {
		err = errors.Join(err, l.device.Close())
	}
	return err
}
