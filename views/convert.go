package views

import (
	"slices"
	"sync"

	"github.com/tensorfs/tensorfs"
)

// convert is a tensor seen as another type. It holds only the arithmetic from byte
// ranges to blocks: a range is widened to whole blocks, whole blocks are decoded
// in place, ragged ends through a scratch block.
type convert struct{ codec }

func (c *convert) Size() int64 { return c.blocks * c.bytes }

// maxRun bounds how many bytes of output are converted from one view of the
// sources, so that the sources are still in the CPU's cache when they are decoded.
// The same numbers as halves may not exceed it either.
const maxRun = 1 << 20

// Computed is Data that is computed when it is read, most efficiently in runs of Step
// bytes: a consumer then finds them in the CPU's cache. That makes reading f16 of a merge
// of three models 1.5 times as fast, and of a model with an adapter twice as fast.
type Computed interface {
	tensorfs.Data
	Step() int64
}

var _ Computed = (*convert)(nil)

// Step is a part of the CPU's cache, which the sources share.
func (c *convert) Step() int64 { return 1 << 17 }

// run is how many blocks are converted from one view of the sources.
func (c *convert) run() int64 {
	blocks := max(maxRun/max(c.bytes, 2*c.elems), 1)
	for _, s := range c.streams {
		if d, ok := s.data.(Computed); ok {
			if _, n := s.span(0, blocks); n > d.Step() {
				blocks = max(blocks*d.Step()/n, 1)
			}
		}
	}
	return blocks
}

func (c *convert) ReadAt(p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(c.Size(), p, off)
	run := c.run() * c.bytes
	for done := 0; done < n; {
		at := off + int64(done)
		take := int(min(int64(n-done), run-at%run))
		b := pool.Get().(*buffers)
		err := c.read(p[done:done+take], at, b)
		pool.Put(b)
		if err != nil {
			return done, err
		}
		done += take
	}
	return n, eof
}

func (c *convert) Check() error {
	for _, s := range c.streams {
		if err := tensorfs.Check(s.data); err != nil {
			return err
		}
	}
	return nil
}

// buffers are what a run needs besides the sources, so a read allocates nothing.
type buffers struct {
	copies [maxStreams][]byte // copies of inputs that cannot be viewed
	block  []byte             // a block that a run has a part of
}

var pool = sync.Pool{New: func() any { return new(buffers) }}

// run is a run of blocks and the bytes of each stream that belong to it.
type run struct {
	c             *convert
	first, blocks int64
	in            inputs
}

// read converts the bytes from off on: it takes the inputs and decodes under one guard. The
// result counts if no file changed during the call.
func (c *convert) read(dst []byte, off int64, b *buffers) (err error) {
	out := c.bytes
	r := run{c: c, first: off / out}
	r.blocks = (off+int64(len(dst))+out-1)/out - r.first
	var memory [maxStreams]tensorfs.Memory
	for i, s := range c.streams {
		at, n := s.span(r.first, r.blocks)
		if r.in[i], memory[i], err = tensorfs.View(s.data, at, n, &b.copies[i]); err != nil {
			return err
		}
	}
	return tensorfs.Guard(func() error { return r.decode(dst, off-r.first*out, b) }, memory[:]...)
}

// decode writes the run without its first skip bytes.
func (r *run) decode(dst []byte, skip int64, b *buffers) error {
	out := r.c.bytes
	first, end := r.first, r.first+r.blocks
	if skip > 0 || int64(len(dst)) < out { // ragged start
		block, err := r.block(first, b)
		if err != nil {
			return err
		}
		dst = dst[copy(dst, block[skip:]):]
		first++
	}
	if whole := int64(len(dst)) / out; whole > 0 {
		if err := r.c.decode(dst[:whole*out], first, r.part(first, whole)); err != nil {
			return err
		}
		dst = dst[whole*out:]
	}
	if len(dst) > 0 { // ragged end
		block, err := r.block(end-1, b)
		if err != nil {
			return err
		}
		copy(dst, block)
	}
	return nil
}

// block decodes one block when only a part of it is wanted.
func (r *run) block(n int64, b *buffers) ([]byte, error) {
	b.block = slices.Grow(b.block[:0], int(r.c.bytes))[:r.c.bytes]
	return b.block, r.c.decode(b.block, n, r.part(n, 1))
}

// part returns the inputs of some of the run's blocks.
func (r *run) part(first, n int64) inputs { return r.c.part(r.in, r.first, first, n) }
