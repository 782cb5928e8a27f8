package gguf

import (
	"encoding/binary"
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// maxHeader bounds the header before the tensor data. Real files have less than a
// fifth of it; beyond it a sparse file could claim a vocabulary that takes
// minutes to walk.
const maxHeader = 1 << 28

// A cursor copies bytes out of the file in windows. The first are small and later
// ones half of what was read so far, so little is read beyond the header of a
// remote file; leastWindow covers the first bytes, which say what the file is.
const (
	leastWindow = 64
	window      = 64 << 10
)

// cursor reads a range of a file from front to back. The first error sticks: all
// later calls return zeros, so a caller need check err only now and then.
type cursor struct {
	file   source.File
	start  int64
	pos    int64
	end    int64  // of the range
	big    bool   // integers and floats are big-endian
	narrow bool   // lengths have 4 bytes: version 1
	what   string // kind of item being read, for messages
	index  int64  // its number, from 0
	key    string // its name, if the item is an entry and its name is known
	tensor string // its name, if the item is a tensor info and its name is known
	buf    []byte
	win    []byte // bytes from winOff on, in buf
	winOff int64
	err    error
}

// newCursor returns a cursor over [pos, end) of a file.
func newCursor(f source.File, pos, end int64) *cursor {
	return &cursor{file: f, start: pos, pos: pos, end: end}
}

// fail sets err to a problem at off, unless it is already set.
func (c *cursor) fail(off int64, format string, args ...any) {
	if c.err != nil {
		return
	}
	e := &tensorfs.FormatError{File: c.file.Path(), Tensor: c.tensor, Offset: off, Problem: fmt.Sprintf(format, args...)}
	switch {
	case c.tensor != "":
	case c.key != "":
		e.Problem = fmt.Sprintf("%s %s: %s", c.what, tensorfs.Quote(c.key), e.Problem)
	case c.what != "":
		e.Problem = fmt.Sprintf("%s %d: %s", c.what, c.index, e.Problem)
	}
	c.err = e
}

// short fails because n bytes that are announced or needed are missing.
func (c *cursor) short(n uint64, announced bool) {
	switch {
	case c.end < c.file.Size():
		c.fail(c.pos, "%d bytes here go beyond the first %d of the file, where metadata and tensor infos must end", n, c.end)
	case announced:
		c.fail(c.pos, "%d bytes are announced, but only %d are left in the file", n, c.end-c.pos)
	default:
		c.fail(c.pos, "the file ends here, inside a field of %d bytes, after %d of them", n, c.end-c.pos)
	}
}

// next returns the next n bytes, at most a window of them, until the next call.
// It returns nil after an error.
func (c *cursor) next(n int) []byte {
	if c.err != nil {
		return nil
	}
	if int64(n) > c.end-c.pos {
		c.short(uint64(n), false)
		return nil
	}
	i := c.pos - c.winOff
	if i < 0 || i+int64(n) > int64(len(c.win)) {
		if !c.fill(int64(n)) {
			return nil
		}
		i = 0
	}
	c.pos += int64(n)
	return c.win[i : i+int64(n)]
}

// fill moves the window to pos. The window then has at least n bytes.
func (c *cursor) fill(n int64) bool {
	size := min(max(leastWindow, n, (c.pos-c.start)/2), window, c.end-c.pos)
	if int64(cap(c.buf)) < size {
		c.buf = make([]byte, min(max(2*size, 4096), window, max(c.end-c.pos, size)))
	}
	c.win = c.buf[:size]
	c.winOff = c.pos
	if err := tensorfs.ReadFull(c.file, c.win, c.pos); err != nil {
		c.err, c.win = err, nil
	}
	return c.err == nil
}

// skip skips n bytes without reading them.
func (c *cursor) skip(n uint64) {
	if c.err != nil {
		return
	}
	if n > uint64(c.end-c.pos) {
		c.short(n, true)
		return
	}
	c.pos += int64(n)
}

// uint32At and uint64At decode integers in the byte order of the file.
func (c *cursor) uint32At(b []byte) uint32 {
	if c.big {
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

func (c *cursor) uint64At(b []byte) uint64 {
	if c.big {
		return binary.BigEndian.Uint64(b)
	}
	return binary.LittleEndian.Uint64(b)
}

func (c *cursor) u32() uint32 {
	if b := c.next(4); b != nil {
		return c.uint32At(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.next(8); b != nil {
		return c.uint64At(b)
	}
	return 0
}

// length reads a length field: a count, a string's length or a dimension.
func (c *cursor) length() uint64 {
	if c.narrow {
		return uint64(c.u32())
	}
	return c.u64()
}

// lengthSize returns the size of a length field.
func (c *cursor) lengthSize() uint64 {
	if c.narrow {
		return 4
	}
	return 8
}

// count reads the number of items that follow, each of at least size bytes, and
// fails if that many do not fit in the bytes left.
func (c *cursor) count(things string, size uint64) int64 {
	at := c.pos
	n := c.length()
	if c.err == nil && n > uint64(c.end-c.pos)/size {
		c.fail(at, "%d %s are announced, but only %d bytes are left for them", n, things, c.end-c.pos)
		return 0
	}
	return int64(n)
}

// text reads a string of at most limit bytes.
func (c *cursor) text(limit uint64) string {
	at := c.pos
	n := c.length()
	if c.err != nil {
		return ""
	}
	if n > uint64(c.end-c.pos) {
		c.short(n, true)
		return ""
	}
	if n > limit {
		c.fail(at, "it has %d bytes, more than %d", n, limit)
		return ""
	}
	if n <= window {
		return string(c.next(int(n)))
	}
	b := make([]byte, n) // not more than the file has
	if err := tensorfs.ReadFull(c.file, b, c.pos); err != nil {
		c.err = err
		return ""
	}
	c.pos += int64(n)
	return string(b)
}

// skipTexts skips n strings. A vocabulary has hundreds of thousands, so strings inside the
// window are skipped in a tight loop.
func (c *cursor) skipTexts(n int64) {
	size := int64(c.lengthSize())
	for n > 0 && c.err == nil {
		i := c.pos - c.winOff
		for ; n > 0 && i >= 0 && int64(len(c.win))-i >= size; n-- {
			var length uint64
			if c.narrow {
				length = uint64(c.uint32At(c.win[i:]))
			} else {
				length = c.uint64At(c.win[i:])
			}
			if length > uint64(int64(len(c.win))-i-size) {
				break
			}
			i += size + int64(length)
			c.pos = c.winOff + i
		}
		if n > 0 {
			c.skip(c.length())
			n--
		}
	}
}
