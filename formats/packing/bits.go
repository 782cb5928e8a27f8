package packing

import (
	"encoding/binary"

	"github.com/tensorfs/tensorfs"
)

// unpack writes the codes of a little-endian bit stream, one byte each, beginning with the
// code number first. src holds the stream.
func unpack(dst, src []byte, bits int, first int64) {
	switch {
	case bits == 8:
		copy(dst, src[first:])
		return
	case bits == 4 && first%2 == 0:
		src = src[first/2:]
		for ; len(dst) >= 16; dst, src = dst[16:], src[8:] {
			w := binary.LittleEndian.Uint64(src)
			binary.LittleEndian.PutUint64(dst, spread(uint32(w)))
			binary.LittleEndian.PutUint64(dst[8:], spread(uint32(w>>32)))
		}
		for i := range dst {
			dst[i] = src[i/2] >> (i % 2 * 4) & 15
		}
		return
	}
	mask := uint64(1)<<bits - 1
	at := first * int64(bits)
	for len(dst) > 0 {
		// Up to 7 bits before the code, and 56 after that in 8 bytes.
		b := src[at/8:]
		var w uint64
		if len(b) >= 8 {
			w = binary.LittleEndian.Uint64(b)
		} else {
			for i, c := range b {
				w |= uint64(c) << (8 * i)
			}
		}
		w >>= at % 8
		n := min(56/bits, len(dst))
		for i := range dst[:n] {
			dst[i] = byte(w & mask)
			w >>= bits
		}
		dst, at = dst[n:], at+int64(n*bits)
	}
}

// spread puts each of 8 nibbles into a byte of its own.
func spread(v uint32) uint64 {
	w := uint64(v)
	w = (w | w<<16) & 0x0000FFFF0000FFFF
	w = (w | w<<8) & 0x00FF00FF00FF00FF
	return (w | w<<4) & 0x0F0F0F0F0F0F0F0F
}

// pack is the reverse of unpack for whole bytes: it writes the stream of codes.
func pack(dst, codes []byte, bits int) {
	clear(dst)
	at := 0
	for _, c := range codes {
		v := uint16(c) << (at % 8)
		dst[at/8] |= byte(v)
		if hi := byte(v >> 8); hi != 0 {
			dst[at/8+1] |= hi
		}
		at += bits
	}
}

// rowBits are rows of whole words, each a bit stream: [N, words].
type rowBits struct {
	t     *tensorfs.Tensor
	bits  int
	words int64
}

func (x rowBits) codes(dst []byte, row, n, from, to int64) error {
	wide, bits := to-from, int64(x.bits)
	start := from * bits / 32 // the words of the columns
	words := up(to*bits, 32) - start
	buf := sized(int(n * words * 4))
	defer buf.free()
	if err := copied(buf.b, x.t, 4*(row*x.words+start), 4*words, 4*x.words, n); err != nil {
		return err
	}
	// The stream of these words begins at a code only where words hold whole codes: the
	// code before it may reach into the first one.
	return rowsOf(dst, buf.b, n, wide, 4*words, x.bits, from*bits-start*32)
}

// rowsOf unpacks n rows of codes, each stored in bytes bytes. The first skip bits of a row
// belong to codes before.
func rowsOf(dst, src []byte, n, wide, bytes int64, bits int, skip int64) error {
	for i := range n {
		unpackFrom(dst[i*wide:][:wide], src[i*bytes:][:bytes], bits, skip)
	}
	return nil
}

// unpackFrom is unpack for a stream that begins skip bits after the start of src.
func unpackFrom(dst, src []byte, bits int, skip int64) {
	if skip%int64(bits) == 0 {
		unpack(dst, src, bits, skip/int64(bits))
		return
	}
	for i := range dst {
		at := skip + int64(i*bits)
		w := uint16(src[at/8])
		if at/8+1 < int64(len(src)) {
			w |= uint16(src[at/8+1]) << 8
		}
		dst[i] = byte(w>>(at%8)) & (1<<bits - 1)
	}
}

// rowFields are rows of words. Each word holds as many whole codes as fit: [N, ceil(K/p)],
// p codes in a word.
type rowFields struct {
	t     *tensorfs.Tensor
	bits  int
	words int64
}

func (x rowFields) codes(dst []byte, row, n, from, to int64) error {
	wide, p := to-from, int64(32/x.bits)
	start := from / p
	words := up(to, p) - start
	buf := sized(int(n * words * 4))
	defer buf.free()
	if err := copied(buf.b, x.t, 4*(row*x.words+start), 4*words, 4*x.words, n); err != nil {
		return err
	}
	for i := range n {
		fields(dst[i*wide:][:wide], buf.b[4*i*words:], x.bits, from-start*p)
	}
	return nil
}

// fields writes codes of words that hold whole ones, from a code on.
func fields(dst, src []byte, bits int, first int64) {
	p := int64(32 / bits)
	for i := range dst {
		k := first + int64(i)
		w := binary.LittleEndian.Uint32(src[4*(k/p):])
		dst[i] = byte(w>>(k%p*int64(bits))) & (1<<bits - 1)
	}
}

// columnBits are columns of words, each the bit stream of a row: [words, N].
type columnBits struct {
	t          *tensorfs.Tensor
	bits       int
	width      int64 // N: words of a row of the tensor
	wholeCodes bool  // words hold whole codes, and what is left of them is unused
}

func (x columnBits) codes(dst []byte, row, n, from, to int64) error {
	wide, bits := to-from, int64(x.bits)
	start, end, skip := from*bits/32, up(to*bits, 32), int64(0)
	if skip = from*bits - start*32; x.wholeCodes {
		p := 32 / bits
		start, end = from/p, up(to, p)
		skip = from - start*p // codes
	}
	words := end - start
	strip := sized(int(words * n * 4))
	defer strip.free()
	if err := copied(strip.b, x.t, 4*(start*x.width+row), 4*n, 4*x.width, words); err != nil {
		return err
	}
	turned := strip.b
	if n > 1 {
		buf := sized(len(strip.b))
		defer buf.free()
		turned = buf.b
		turn(turned, strip.b, int(words), int(n))
	}
	if x.wholeCodes {
		for i := range n {
			fields(dst[i*wide:][:wide], turned[4*i*words:], x.bits, skip)
		}
		return nil
	}
	return rowsOf(dst, turned, n, wide, 4*words, x.bits, skip)
}

// tile is the side of the squares of words that are turned at a time: a line of the
// CPU's cache.
const tile = 16

// turn makes columns of words rows: [rows, cols] becomes [cols, rows].
func turn(dst, src []byte, rows, cols int) {
	for r0 := 0; r0 < rows; r0 += tile {
		for c0 := 0; c0 < cols; c0 += tile {
			for c := c0; c < min(c0+tile, cols); c++ {
				to := dst[4*(c*rows+r0):][:4*min(tile, rows-r0)]
				for at := 4 * (r0*cols + c); len(to) > 0; at, to = at+4*cols, to[4:] {
					binary.NativeEndian.PutUint32(to, binary.NativeEndian.Uint32(src[at:]))
				}
			}
		}
	}
}

// turnedCodes are transposed codes: row i is column i of c.
type turnedCodes struct{ of coder }

func (x turnedCodes) codes(dst []byte, row, n, from, to int64) error {
	wide := to - from
	buf := sized(len(dst))
	defer buf.free()
	if err := x.of.codes(buf.b, from, wide, row, row+n); err != nil {
		return err
	}
	for g := range wide {
		for i := range n {
			dst[i*wide+g] = buf.b[g*n+i]
		}
	}
	return nil
}

// rowBytes are codes of a byte each, [N, K], signed ones from -128 on.
type rowBytes struct {
	t      *tensorfs.Tensor
	cols   int64
	signed bool
}

func (x rowBytes) codes(dst []byte, row, n, from, to int64) error {
	if err := copied(dst, x.t, row*x.cols+from, to-from, x.cols, n); err != nil {
		return err
	}
	if x.signed {
		for i := range dst {
			dst[i] ^= 0x80
		}
	}
	return nil
}
