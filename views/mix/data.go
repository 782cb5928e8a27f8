package mix

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// mixed is a merged tensor as F32.
type mixed struct {
	parts   []tensorfs.Data // F32, of one size
	size    int64
	round   kernel.Rounding
	prepare func() (combine, error)

	mu      sync.Mutex
	combine combine // once prepare has succeeded
}

func (x *mixed) Size() int64 { return x.size }

var _ views.Computed = (*mixed)(nil)

func (x *mixed) Step() int64 { return 2 * run }

// Check asks all inputs.
func (x *mixed) Check() error {
	for _, p := range x.parts {
		if err := tensorfs.Check(p); err != nil {
			return err
		}
	}
	return nil
}

// ready returns what computes the numbers. Readers that come while whole tensors are read
// for it wait for that.
func (x *mixed) ready() (combine, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.combine == nil {
		c, err := x.prepare()
		if err != nil {
			return nil, err
		}
		x.combine = c
	}
	return x.combine, nil
}

// run is how many bytes are computed in one go: those of all inputs are in the CPU's cache.
const run = 64 << 10

func (x *mixed) ReadAt(p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(x.size, p, off)
	if n == 0 {
		return 0, eof
	}
	c, err := x.ready()
	if err != nil {
		return 0, err
	}
	b := pool.Get().(*buffers)
	defer pool.Put(b)
	for done := 0; done < n; {
		at := off + int64(done)
		from := at &^ 3
		whole := min(run, (int64(n-done)+at-from+3)&^3)
		in, err := b.read(x.parts, from, whole)
		if err != nil {
			return done, err
		}
		dst := p[done:n]
		if at == from && int64(len(dst)) >= whole {
			c(dst[:whole], in, from/4)
			x.round(dst[:whole])
			done += int(whole)
			continue
		}
		scratch := b.part(len(x.parts), whole)
		c(scratch, in, from/4)
		x.round(scratch)
		done += copy(dst, scratch[at-from:])
	}
	return n, eof
}

// buffers are what a run needs: bytes of each input, and a result of which a part is wanted.
type buffers struct {
	parts [][]byte
	in    [][]byte
}

var pool = sync.Pool{New: func() any { return new(buffers) }}

func (b *buffers) part(i int, n int64) []byte {
	for len(b.parts) <= i {
		b.parts = append(b.parts, nil)
	}
	if int64(cap(b.parts[i])) < n {
		b.parts[i] = make([]byte, run)
	}
	return b.parts[i][:n]
}

// read returns n bytes of each input.
func (b *buffers) read(parts []tensorfs.Data, off, n int64) ([][]byte, error) {
	b.in = b.in[:0]
	for i, p := range parts {
		buf := b.part(i, n)
		if err := tensorfs.ReadFull(p, buf, off); err != nil {
			return nil, err
		}
		b.in = append(b.in, buf)
	}
	return b.in, nil
}

// walk calls f with all bytes of data of one size.
func walk(parts []tensorfs.Data, f func(in [][]byte, first int64)) error {
	b := pool.Get().(*buffers)
	defer pool.Put(b)
	for off := int64(0); off < parts[0].Size(); off += run {
		in, err := b.read(parts, off, min(run, parts[0].Size()-off))
		if err != nil {
			return err
		}
		f(in, off/4)
	}
	return nil
}

func get(p []byte) float32    { return math.Float32frombits(binary.LittleEndian.Uint32(p)) }
func put(p []byte, x float32) { binary.LittleEndian.PutUint32(p, math.Float32bits(x)) }
