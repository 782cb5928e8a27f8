package measure

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
)

// bins are a Profile's bins.
type bins [61]int64

// scaleOf is what numbers are multiplied by to find their bins.
func scaleOf(rms float64) float64 {
	if rms == 0 {
		return 0
	}
	return float64(len(bins{})) / (12 * rms)
}

// count counts n numbers that are v.
func (b *bins) count(v float32, scale float64, n int64) {
	const half = float64(len(b)) / 2
	if at := float64(float64(v)*scale) + half; at >= 0 && at < float64(len(b)) {
		b[int(at)] += n
	}
}

// countAll counts F32 numbers. Four sets of bins take turns: most numbers are in few of them, and an
// addition to one would wait for the last.
func (b *bins) countAll(data []byte, scale float64) {
	const half, n = float64(len(b)) / 2, float64(len(b))
	var sets [4]bins
	for ; len(data) >= 16; data = data[16:] {
		for i := range sets {
			if at := float64(float64(float32At(data[4*i:]))*scale) + half; at >= 0 && at < n {
				sets[i][int(at)]++
			}
		}
	}
	for ; len(data) >= 4; data = data[4:] {
		b.count(float32At(data), scale, 1)
	}
	for i := range b {
		b[i] += sets[0][i] + sets[1][i] + sets[2][i] + sets[3][i]
	}
}

// tally counts how often each number occurs, as long as all of them have the 10 bits of
// fraction that F16 has at most: then there are 2^19, and 2^16 in BF16. It costs a step a
// number, and saves reading and decoding them again, which costs several.
type tally struct {
	off   atomic.Bool // there are others, or they are too few to be worth it
	lock  sync.Mutex
	total []int64
}

// What a number's bits have that is not of a tally, and not of BF16; and the sizes of tallies.
const (
	finer      = 1<<13 - 1
	finerBF16  = 1<<16 - 1
	halves     = 1 << 19
	halvesBF16 = 1 << 16
)

// newTally is for so many numbers.
func newTally(n int64) *tally {
	t := new(tally)
	t.off.Store(n < piece)
	return t
}

// counts are a stretch's counts.
type counts struct {
	*tally
	byUpperBits *[halves]uint32 // by the upper 16 bits of a number, and 3 more above them
	any         uint32          // bits that any of the numbers has
}

// counts begins with a stretch, of less than 2^32 numbers.
func (t *tally) counts(b *buffer) *counts {
	if b.counts == nil && !t.off.Load() {
		b.counts = new([halves]uint32)
	}
	return &counts{tally: t, byUpperBits: b.counts}
}

// add counts numbers, which have these bits.
func (c *counts) add(data []byte, any uint32) {
	if any&finer != 0 {
		c.off.Store(true)
	}
	if c.off.Load() {
		return
	}
	c.any |= any
	of := c.byUpperBits // which increments would have the loop look up again
	if any&finerBF16 == 0 {
		for ; len(data) >= 16; data = data[16:] {
			a, b := binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:])
			of[uint16(a>>16)]++
			of[a>>48]++
			of[uint16(b>>16)]++
			of[b>>48]++
		}
	}
	for ; len(data) >= 4; data = data[4:] {
		bits := binary.LittleEndian.Uint32(data)
		of[bits>>16|bits&(finerBF16&^finer)<<3]++
	}
}

// end adds the counts to the tally, and leaves the buffer empty.
func (c *counts) end() {
	if c.byUpperBits == nil {
		return
	}
	n := halves
	if c.any&finerBF16 == 0 {
		n = halvesBF16
	}
	if c.off.Load() {
		clear(c.byUpperBits[:n])
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if len(c.total) < n {
		c.total = append(c.total, make([]int64, n-len(c.total))...)
	}
	for i, k := range c.byUpperBits[:n] {
		if k != 0 { // few are not
			c.total[i] += int64(k)
			c.byUpperBits[i] = 0
		}
	}
}

// bins fills the bins of a profile with a known RMS.
func (r *run) bins(p *Profile, s *Surveyed, counted *tally) error {
	scale := scaleOf(p.RMS)
	if !counted.off.Load() {
		for i, n := range counted.total {
			if n != 0 {
				(*bins)(&p.Bins).count(math.Float32frombits(uint32(i)<<16|uint32(i)>>16<<13), scale, n)
			}
		}
		r.add(4 * p.Count)
		return nil
	}
	parts, err := stretches(r, s.Name, p.Count, func(b *buffer, first, n int64) (x bins, err error) {
		for end := first + n; first < end; first += piece {
			data, err := r.read(s.Data, &b.a, 4*first, 4*min(piece, end-first))
			if err != nil {
				return x, err
			}
			x.countAll(data, scale)
		}
		return x, nil
	})
	for i := range parts {
		for k, n := range parts[i] {
			p.Bins[k] += n
		}
	}
	return err
}
