package views

import (
	"sync"

	"github.com/tensorfs/tensorfs"
)

// convert is a tensor seen as IEEE half. It holds the arithmetic from byte
// ranges to blocks and nothing else: a range is widened to whole blocks, whole
// blocks are decoded in place, ragged ends through a scratch block.
type convert struct{ codec }

func (c *convert) Size() int64 { return c.blocks * c.out() }

// maxRun bounds the bytes of output that are converted from one view of the
// sources, so that the sources are still in the CPU's cache when decoded.
const maxRun = 1 << 20

func (c *convert) ReadAt(p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(c.Size(), p, off)
	out := c.out()
	run := max(maxRun/out, 1) * out
	for done := 0; done < n; {
		at := off + int64(done)
		take := min(int64(n-done), run-at%run)
		j := jobs.Get().(*job)
		err := j.run(c, p[done:done+int(take)], at)
		j.c, j.dst, j.in, j.part = nil, nil, inputs{}, inputs{}
		jobs.Put(j)
		if err != nil {
			return done, err
		}
		done += int(take)
	}
	return n, eof
}

// job is one conversion. Jobs are pooled with their callback bound once, so that
// a read allocates nothing.
type job struct {
	c       *convert
	dst     []byte
	off     int64 // of dst in the output
	first   int64 // first block
	blocks  int64
	level   int    // streams viewed so far
	in      inputs // of all blocks
	part    inputs // of the blocks being decoded
	next    func(b []byte) error
	scratch []byte
}

var jobs = sync.Pool{New: func() any {
	j := new(job)
	j.next = j.step
	return j
}}

func (j *job) run(c *convert, dst []byte, off int64) error {
	j.c, j.dst, j.off, j.level = c, dst, off, 0
	j.first = off / c.out()
	j.blocks = (off+int64(len(dst))+c.out()-1)/c.out() - j.first
	return j.view()
}

// view opens the views of all streams one inside the other, then decodes.
func (j *job) view() error {
	if j.level == len(j.c.streams) {
		j.decode()
		return nil
	}
	s := j.c.streams[j.level]
	off, n := s.span(j.first, j.blocks)
	return tensorfs.View(s.data, off, n, j.next)
}

func (j *job) step(b []byte) error {
	j.in[j.level] = b
	j.level++
	return j.view()
}

func (j *job) decode() {
	out := j.c.out()
	skip := j.off - j.first*out
	dst, first, end := j.dst, j.first, j.first+j.blocks
	if skip > 0 || int64(len(dst)) < out { // ragged start
		dst = dst[copy(dst, j.block(first)[skip:]):]
		first++
	}
	if whole := int64(len(dst)) / out; whole > 0 {
		j.blocksAt(dst[:whole*out], first, whole)
		dst = dst[whole*out:]
	}
	if len(dst) > 0 { // ragged end
		copy(dst, j.block(end-1))
	}
}

// block decodes one block into scratch.
func (j *job) block(n int64) []byte {
	out := int(j.c.out())
	if cap(j.scratch) < out {
		j.scratch = make([]byte, out)
	}
	b := j.scratch[:out]
	j.blocksAt(b, n, 1)
	return b
}

func (j *job) blocksAt(dst []byte, first, n int64) {
	for i, s := range j.c.streams {
		start, _ := s.span(j.first, j.blocks)
		off, size := s.span(first, n)
		j.part[i] = j.in[i][off-start:][:size]
	}
	j.c.decode(dst, first, &j.part)
}
