package views

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// Counts are the numbers of a tensor that are out of the ordinary.
type Counts struct {
	Numbers  int64 // that were looked at: 0 for integers and what cannot be decoded
	NaN      int64
	Infinite int64
	Overflow int64   // finite numbers that become infinite in f16/
	Largest  float64 // the largest magnitude of those
	NonZero  bool    // some number is not 0 or, where Numbers is 0, some byte
}

// add adds the counts of other numbers of the same tensor.
func (c *Counts) add(more Counts) {
	c.Numbers += more.Numbers
	c.NaN += more.NaN
	c.Infinite += more.Infinite
	c.Overflow += more.Overflow
	c.Largest = max(c.Largest, more.Largest)
	c.NonZero = c.NonZero || more.NonZero
}

// Count reads all of t and counts its numbers. If f16/ does not show the tensor, it
// counts the floats that are stored; if there are no floats, it only reads the bytes. read is told how many stored bytes were read since it was
// called last; the sum is the size of t.Data. Count returns the error of ctx when
// that ends, or the error of a read, and what it has counted so far.
func Count(ctx context.Context, t *tensorfs.Tensor, opts Options, read func(n int64)) (Counts, error) {
	b := countPool.Get().(*countBuffers)
	defer countPool.Put(b)
	shown, reason := half(t, opts)
	f, plain := ieee[t.DType]
	switch {
	case plain && t.Quant == nil && !t.BigEndian:
		c, err := b.stored(ctx, t.Data, f, read)
		if reason != "" { // no view shows these numbers as halves
			c.Overflow, c.Largest = 0, 0
		}
		return c, err
	case reason == "" && shown.Data.Size() > 0:
		return b.decoded(ctx, t, opts, shown.Data, read)
	}
	c, err := b.stored(ctx, t.Data, ieee[tensorfs.F16], read)
	return Counts{NonZero: c.NonZero}, err
}

// countRun is how many bytes are counted in one go: as many as fit into a processor's own
// cache with the bytes that they are decoded from.
const countRun = 1 << 18

// countBuffers are what a count needs, so that it allocates nothing.
type countBuffers struct{ half, wide []byte }

var countPool = sync.Pool{New: func() any { return new(countBuffers) }}

// stored counts floats as they are stored.
func (b *countBuffers) stored(ctx context.Context, d tensorfs.Data, f ieeeFloat, read func(n int64)) (total Counts, err error) {
	for off := int64(0); off < d.Size(); {
		n := min(countRun, d.Size()-off)
		if err := ctx.Err(); err != nil {
			return total, err
		}
		bytes, memory, err := tensorfs.ViewContext(ctx, d, off, n, &b.half)
		if err != nil {
			return total, err
		}
		var c Counts
		if err := tensorfs.Guard(func() error { c = f.count(bytes); return nil }, memory); err != nil {
			return total, err
		}
		total.add(c)
		off += n
		read(n)
	}
	return total, nil
}

// decoded counts the numbers behind halves. An infinite half is either an infinite number
// or a large one, and a half that is 0 may be a small number: only then are the numbers
// themselves decoded.
func (b *countBuffers) decoded(ctx context.Context, t *tensorfs.Tensor, opts Options, halves tensorfs.Data, read func(int64)) (total Counts, err error) {
	size, said := halves.Size(), int64(0)
	for off := int64(0); off < size; {
		n := min(countRun, size-off)
		c, err := b.count(ctx, halves, kernel.Half, off, n)
		if err == nil && (c.Infinite > 0 || !c.NonZero && !total.NonZero) {
			var wide codec
			if wide, err = codecOf(t, opts, kernel.Single); err == nil {
				c, err = b.count(ctx, &convert{wide}, kernel.Single, 2*off, 2*n)
			}
		}
		if err != nil {
			return total, err
		}
		total.add(c)
		off += n
		part := t.Data.Size()
		if off < size {
			part = int64(float64(part) * (float64(off) / float64(size)))
		}
		read(part - said)
		said = part
	}
	return total, nil
}

// count counts the decoded numbers of [off, off+n).
func (b *countBuffers) count(ctx context.Context, d tensorfs.Data, as kernel.Float, off, n int64) (Counts, error) {
	p, f := &b.half, ieee[tensorfs.F16]
	if as == kernel.Single {
		p, f = &b.wide, ieee[tensorfs.F32]
	}
	if err := ctx.Err(); err != nil {
		return Counts{}, err
	}
	*p = slices.Grow((*p)[:0], int(n))[:n]
	if err := tensorfs.ReadFullContext(ctx, d, *p, off); err != nil {
		return Counts{}, err
	}
	return f.count(*p), nil
}

// ieeeFloat is an IEEE format. limit is the least magnitude that is not finite as half:
// from 65520 on, halfway from the largest half to the next power of two, numbers
// are rounded to infinity.
type ieeeFloat struct {
	bytes           int
	limit, infinity uint64
	value           func(magnitude uint64) float64
}

// ieee holds the formats, for every type with a mantissa.
var ieee = map[tensorfs.DType]ieeeFloat{
	tensorfs.F16:  {2, 0x7C00, 0x7C00, nil},
	tensorfs.BF16: {2, 0x4780, 0x7F80, func(m uint64) float64 { return float64(math.Float32frombits(uint32(m) << 16)) }},
	tensorfs.F32:  {4, 0x477F_F000, 0x7F80_0000, func(m uint64) float64 { return float64(math.Float32frombits(uint32(m))) }},
	// F64 is rounded to F32 first, which makes 65520 of the number halfway below it.
	tensorfs.F64: {8, 0x40EF_FDFF_F000_0000, 0x7FF0_0000_0000_0000, math.Float64frombits},
}

// countBlock is how many bytes are looked at in words before the numbers are
// looked at one by one.
const countBlock = 1024

// count counts the numbers of b. It looks at words that hold several of them: adding
// what the limit lacks to the sign bit sets that bit where a magnitude reaches the
// limit, and carries nothing into the next number.
func (f ieeeFloat) count(b []byte) (c Counts) {
	c.Numbers = int64(len(b) / f.bytes)
	var signs, lacks uint64
	for at := 0; at < 64; at += 8 * f.bytes {
		signs |= 1 << (at + 8*f.bytes - 1)
		lacks |= (1<<(8*f.bytes-1) - f.limit) << at
	}
	c.NonZero = nonZero(b, signs)
	for ; len(b) >= countBlock; b = b[countBlock:] {
		if reach(b[:countBlock], signs, lacks) {
			f.each(b[:countBlock], &c)
		}
	}
	f.each(b, &c)
	return c
}

// nonZero reports whether a number is not 0, whatever its sign. It ends at the first.
func nonZero(b []byte, signs uint64) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b)&^signs != 0 {
			return true
		}
	}
	var rest [8]byte
	copy(rest[:], b)
	return binary.LittleEndian.Uint64(rest[:])&^signs != 0
}

// reach reports whether a sum has the bit of a sign. b is whole blocks.
func reach(b []byte, signs, lacks uint64) bool {
	var over uint64
	for ; len(b) >= 32; b = b[32:] {
		over |= binary.LittleEndian.Uint64(b)&^signs + lacks
		over |= binary.LittleEndian.Uint64(b[8:])&^signs + lacks
		over |= binary.LittleEndian.Uint64(b[16:])&^signs + lacks
		over |= binary.LittleEndian.Uint64(b[24:])&^signs + lacks
	}
	return over&signs != 0
}

// each counts the numbers of b one by one.
func (f ieeeFloat) each(b []byte, c *Counts) {
	for ; len(b) >= f.bytes; b = b[f.bytes:] {
		var m uint64
		switch f.bytes {
		case 2:
			m = uint64(binary.LittleEndian.Uint16(b) & 0x7FFF)
		case 4:
			m = uint64(binary.LittleEndian.Uint32(b) & 0x7FFF_FFFF)
		default:
			m = binary.LittleEndian.Uint64(b) &^ (1 << 63)
		}
		switch {
		case m < f.limit:
		case m > f.infinity:
			c.NaN++
		case m == f.infinity:
			c.Infinite++
		default:
			c.Overflow++
			c.Largest = max(c.Largest, f.value(m))
		}
	}
}
