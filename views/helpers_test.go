package views

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/mmap"
	"github.com/x448/float16"
)

// mapped returns b as a section of a mapped file, at an odd offset, and the same
// every time for the same label.
func mapped(t testing.TB, label string, b []byte) *mmap.Section {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, append([]byte("before it"), append(b, "behind it"...)...), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := mmap.Open(path, label)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f.Section(9, int64(len(b)))
}

// plain returns b as Data that can do nothing but be read.
func plain(b []byte) tensorfs.Data { return bytes.NewReader(b) }

// random returns n bytes that depend on the seed alone.
func random(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// halves returns floats as IEEE half.
func halves(v []float32) []byte {
	b := make([]byte, 0, 2*len(v))
	for _, f := range v {
		b = binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(f).Bits())
	}
	return b
}

// floats returns n moderate floats, as bytes of the type and as they are read back.
func floats(seed uint64, d tensorfs.DType, n int) ([]byte, []float32) {
	r := rand.New(rand.NewPCG(seed, 2))
	var b []byte
	v := make([]float32, n)
	for i := range v {
		f := float32(r.NormFloat64())
		switch d {
		case tensorfs.F32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
		case tensorfs.BF16:
			bits := math.Float32bits(f) >> 16
			b, f = binary.LittleEndian.AppendUint16(b, uint16(bits)), math.Float32frombits(bits<<16)
		case tensorfs.F16:
			h := float16.Fromfloat32(f)
			b, f = binary.LittleEndian.AppendUint16(b, h.Bits()), h.Float32()
		default:
			panic(fmt.Sprintf("floats of type %v", d))
		}
		v[i] = f
	}
	return b, v
}

// checkData holds d to want: every offset, all lengths where that is not too
// much, and each ability that d has.
func checkData(t *testing.T, d tensorfs.Data, want []byte) {
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
	for off := int64(0); off <= size; off++ {
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
				t.Fatalf("ReadAt(%d bytes, %d) wrote behind the end", n, off)
			}
			if int64(n) > left {
				continue
			}
			if v, ok := d.(tensorfs.Viewer); ok {
				called := false
				err := v.View(off, left, func(b []byte) error {
					if called = true; !bytes.Equal(b, want[off:off+left]) {
						t.Errorf("View(%d, %d) = %x", off, left, b)
					}
					return nil
				})
				if err != nil || !called || t.Failed() {
					t.Fatalf("View(%d, %d): %v", off, left, err)
				}
			}
			if s, ok := d.(tensorfs.Slicer); ok {
				mem, err = s.Slices(append(mem[:0], []byte("kept")), off, left)
				if err != nil || string(mem[0]) != "kept" || !bytes.Equal(bytes.Join(mem[1:], nil), want[off:off+left]) {
					t.Fatalf("Slices(%d, %d) = %x, %v", off, left, mem, err)
				}
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
		if v, ok := d.(tensorfs.Viewer); ok {
			if err := v.View(r[0], r[1], func([]byte) error { t.Error("called"); return nil }); err == nil {
				t.Errorf("View(%d, %d) is allowed", r[0], r[1])
			}
		}
		if s, ok := d.(tensorfs.Slicer); ok {
			if mem, err := s.Slices(nil, r[0], r[1]); err == nil || len(mem) > 0 {
				t.Errorf("Slices(%d, %d) is allowed", r[0], r[1])
			}
		}
	}
}

var errBroken = errors.New("the disk is broken")

// broken is Data that cannot be read from an offset on.
type broken struct {
	d  tensorfs.Data
	at int64
}

func (b broken) Size() int64 { return b.d.Size() }

func (b broken) ReadAt(p []byte, off int64) (int, error) {
	if end := off + int64(len(p)); end > b.at {
		n, _ := b.d.ReadAt(p[:max(b.at-off, 0)], off)
		return n, errBroken
	}
	return b.d.ReadAt(p, off)
}

// list returns a view's tensors.
func list(ts Tensors) []tensorfs.Tensor {
	out := make([]tensorfs.Tensor, ts.Len())
	for i := range out {
		out[i] = ts.At(i)
	}
	return out
}

// content reads all of d.
func content(t testing.TB, d tensorfs.Data) []byte {
	t.Helper()
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}
