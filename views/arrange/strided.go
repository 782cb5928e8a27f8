package arrange

import (
	"slices"

	"github.com/tensorfs/tensorfs"
)

// axis is a counter of rows: how many, and how many bytes from one to the next.
type axis struct{ n, step int64 }

// strided is a selection of the rows of d, in an order that counters describe:
//
//	for a < axes[0].n, b < axes[1].n, c < axes[2].n:
//	    row bytes at base + a*axes[0].step + b*axes[1].step + c*axes[2].step
//
// A permutation of the rows of heads is one, and so are the same rows of every
// matrix of a stack, and every other row.
type strided struct {
	d         tensorfs.Data
	row, base int64 // bytes
	axes      [3]axis
}

// pick returns a selection of rows, outermost axis first. It is a section of d
// where the rows are together.
func pick(d tensorfs.Data, row, base int64, axes ...axis) tensorfs.Data {
	axes = slices.DeleteFunc(axes, func(a axis) bool { return a.n == 1 })
	for i := len(axes) - 1; i >= 0 && axes[i].step == row; i-- {
		row *= axes[i].n
		axes = axes[:i]
	}
	if len(axes) == 0 {
		return tensorfs.Section(d, base, row)
	}
	s := &strided{d: d, row: row, base: base, axes: [3]axis{{n: 1}, {n: 1}, {n: 1}}}
	copy(s.axes[3-len(axes):], axes)
	if s.Size() == 0 {
		return tensorfs.Bytes(nil)
	}
	return s
}

// minSlice is the shortest row that is given to the kernel as a piece of mapped
// memory. Shorter ones are copied: a reply takes about a thousand pieces.
const minSlice = 2 << 10

// SlicesIf returns the memory of the rows, if they are long and all of them are mapped.
func (s *strided) SlicesIf(dst [][]byte, off, n int64) (_ [][]byte, all bool, err error) {
	if err := tensorfs.CheckRange(s, off, n); err != nil || s.row < minSlice {
		return dst, false, err
	}
	kept := len(dst)
	all = true
	err = s.each(off, n, func(at, n int64) (err error) {
		if all {
			dst, all, err = tensorfs.Slices(s.d, dst, at, n)
		}
		return err
	})
	if err != nil || !all {
		return dst[:kept], false, err
	}
	return dst, true, nil
}

func (s *strided) Size() int64 { return s.row * s.axes[0].n * s.axes[1].n * s.axes[2].n }

func (s *strided) Check() error { return tensorfs.Check(s.d) }

const (
	// maxRun bounds what is read at a time, so that it is still in the CPU's cache
	// when it is copied to its place.
	maxRun = 1 << 20
	// Rows that lie within a window of so many times their size, and a few pages, are
	// taken from one view.
	maxSpread = 4
	slack     = 64 << 10
)

func (s *strided) ReadAt(p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(s.Size(), p, off)
	for done := 0; done < n; {
		take := min(n-done, maxRun)
		if err := s.read(p[done:done+take], off+int64(done)); err != nil {
			return done, err
		}
		done += take
	}
	return n, eof
}

// read reads len(dst) bytes at off, at most maxRun.
func (s *strided) read(dst []byte, off int64) error {
	lo, hi, pieces := int64(-1), int64(0), 0
	s.each(off, int64(len(dst)), func(at, n int64) error {
		if lo < 0 || at < lo {
			lo = at
		}
		hi = max(hi, at+n)
		pieces++
		return nil
	})
	if pieces == 1 || hi-lo > maxSpread*int64(len(dst))+slack {
		if z := s.axes[2].n; pieces > 2 && z > 1 && z <= maxLanes {
			if done, err := s.readLanes(dst, off); done || err != nil {
				return err
			}
		}
		return s.each(off, int64(len(dst)), func(at, n int64) error {
			err := tensorfs.ReadFull(s.d, dst[:n], at)
			dst = dst[n:]
			return err
		})
	}
	return viewed(s.d, lo, hi-lo, func(src []byte) error {
		to := dst
		return s.each(off, int64(len(dst)), func(at, n int64) error {
			copy(to[:n], src[at-lo:])
			to = to[n:]
			return nil
		})
	})
}

// maxLanes is how many runs of rows may take turns to be read together.
const maxLanes = 4

// readLanes is read for rows that come in turn from a few runs far from each other,
// each run in one piece. It reports whether the rows are arranged in that way; if
// not, it reads nothing.
func (s *strided) readLanes(dst []byte, off int64) (done bool, err error) {
	lanes := s.axes[2].n
	var lo, hi [maxLanes]int64
	lane := off / s.row % lanes
	s.each(off, int64(len(dst)), func(at, n int64) error {
		if hi[lane] == 0 || at < lo[lane] {
			lo[lane] = at
		}
		hi[lane] = max(hi[lane], at+n)
		lane = (lane + 1) % lanes
		return nil
	})
	all := int64(0)
	for i := range lanes {
		all += hi[i] - lo[i]
	}
	if all > maxSpread*int64(len(dst))+slack {
		return false, nil
	}
	var src [maxLanes][]byte
	var memory [maxLanes]tensorfs.Memory
	for i := range lanes {
		if hi[i] == 0 {
			continue
		}
		buf := scratch.Get().(*[]byte)
		defer scratch.Put(buf)
		if src[i], memory[i], err = tensorfs.View(s.d, lo[i], hi[i]-lo[i], buf); err != nil {
			return false, err
		}
	}
	return true, tensorfs.Guard(func() error {
		to, lane := dst, off/s.row%lanes
		return s.each(off, int64(len(dst)), func(at, n int64) error {
			copy(to[:n], src[lane][at-lo[lane]:])
			to, lane = to[n:], (lane+1)%lanes
			return nil
		})
	}, memory[:lanes]...)
}

// each calls fn for the pieces of d that make up [off, off+n), in order.
func (s *strided) each(off, n int64, fn func(at, n int64) error) error {
	x, y, z := s.axes[0], s.axes[1], s.axes[2]
	i, skip := off/s.row, off%s.row
	a, b, c := i/z.n/y.n, i/z.n%y.n, i%z.n
	for n > 0 {
		take := min(n, s.row-skip)
		if err := fn(s.base+a*x.step+b*y.step+c*z.step+skip, take); err != nil {
			return err
		}
		n, skip = n-take, 0
		if c++; c == z.n {
			c = 0
			if b++; b == y.n {
				b = 0
				a++
			}
		}
	}
	return nil
}

var (
	_ tensorfs.Checker    = (*strided)(nil)
	_ tensorfs.PartSlicer = (*strided)(nil)
)
