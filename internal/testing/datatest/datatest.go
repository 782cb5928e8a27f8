// Package datatest holds Data of any package to its contract, in tests.
package datatest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/tensorfs/tensorfs"
)

// Check compares d with want: every offset, all lengths unless they are too many, and each
// ability that d has. The short form takes a sixth of the offsets of long data: both ends,
// offsets around blocks of 16, and some without a pattern.
func Check(t testing.TB, d tensorfs.Data, want []byte) {
	t.Helper()
	size := int64(len(want))
	if d.Size() != size {
		t.Fatalf("%d bytes, want %d", d.Size(), size)
	}
	var lengths []int
	for n := range len(want) + 3 {
		// Of long data: the shortest, the longest, those around blocks of 64 and
		// 512 bytes, and some that no pattern of blocks repeats with.
		if len(want) <= 200 || n < 3 || n > len(want)-2 || n%512 < 2 || n == 63 || n == 65 || n%197 == 0 {
			lengths = append(lengths, n)
		}
	}
	buf := make([]byte, len(want)+8)
	var mem [][]byte
	var copied []byte
	for off := int64(0); off <= size; off++ {
		if testing.Short() && size > 200 && off > 2 && off < size-2 && (off+1)%16 > 1 && off%23 != 0 {
			continue
		}
		for _, n := range lengths {
			p := buf[:n]
			clear(buf)
			left := min(int64(n), size-off)
			got, err := d.ReadAt(p, off)
			if int64(got) != left || left < int64(n) && err != io.EOF || left == int64(n) && err != nil && !(err == io.EOF && off+left == size) {
				t.Fatalf("ReadAt(%d bytes, %d) = %d, %v", n, off, got, err)
			}
			if !bytes.Equal(p[:left], want[off:off+left]) {
				t.Fatalf("ReadAt(%d bytes, %d) = %x, want %x", n, off, p[:left], want[off:off+left])
			}
			if bytes.Count(buf[left:], []byte{0}) != len(buf)-int(left) {
				t.Fatalf("ReadAt(%d bytes, %d) wrote past the end", n, off)
			}
			if int64(n) > left {
				continue
			}
			b, memory, err := tensorfs.View(d, off, left, &copied)
			if err == nil {
				err = tensorfs.Guard(func() error {
					if !bytes.Equal(b, want[off:off+left]) {
						return fmt.Errorf("%x", b)
					}
					return nil
				}, memory)
			}
			if err != nil {
				t.Fatalf("View(%d, %d): %v", off, left, err)
			}
			mem, mapped, err := tensorfs.Slices(d, append(mem[:0], []byte("kept")), off, left)
			if err != nil || string(mem[0]) != "kept" || mapped && !bytes.Equal(bytes.Join(mem[1:], nil), want[off:off+left]) || !mapped && len(mem) > 1 {
				t.Fatalf("Slices(%d, %d) = %x, %v, %v", off, left, mem, mapped, err)
			}
		}
	}
	if size > 0 {
		if err := iotest.TestReader(io.NewSectionReader(d, 0, size), want); err != nil {
			t.Error(err)
		}
	}
	if n, err := d.ReadAt(buf[:1], -1); n != 0 || err == nil || err == io.EOF {
		t.Errorf("a read before the start: %d, %v", n, err)
	}
	for _, r := range [][2]int64{{-1, 1}, {0, size + 1}, {size, 1}, {size + 1, 0}, {1, math.MaxInt64}, {math.MaxInt64, 1}, {0, -1}} {
		if _, _, err := tensorfs.View(d, r[0], r[1], &copied); err == nil {
			t.Errorf("View(%d, %d) is allowed", r[0], r[1])
		}
		if v, ok := d.(tensorfs.Viewer); ok {
			if _, _, err := v.View(r[0], r[1]); err == nil {
				t.Errorf("View(%d, %d) is allowed", r[0], r[1])
			}
		}
		if mem, mapped, err := tensorfs.Slices(d, nil, r[0], r[1]); mapped || len(mem) > 0 {
			t.Errorf("Slices(%d, %d) is allowed: %v", r[0], r[1], err)
		}
	}
}

// Random returns n bytes that depend only on the seed.
func Random(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// Plain returns b as Data that can do nothing but be read.
func Plain(b []byte) tensorfs.Data { return bytes.NewReader(b) }

// ErrBroken is the error of [Broken].
var ErrBroken = errors.New("the disk is broken")

// Broken is Data that cannot be read from an offset on.
type Broken struct {
	Data tensorfs.Data
	At   int64
}

// Size returns the size of the whole Data.
func (b Broken) Size() int64 { return b.Data.Size() }

// ReadAt fails with ErrBroken from At on.
func (b Broken) ReadAt(p []byte, off int64) (int, error) {
	if end := off + int64(len(p)); end > b.At {
		n, _ := b.Data.ReadAt(p[:max(b.At-off, 0)], off)
		return n, ErrBroken
	}
	return b.Data.ReadAt(p, off)
}
