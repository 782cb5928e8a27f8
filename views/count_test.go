package views

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/x448/float16"
)

// counted counts a tensor and holds that all of it was read.
func counted(t testing.TB, x *tensorfs.Tensor) Counts {
	t.Helper()
	read := int64(0)
	c, err := Count(t.Context(), x, Options{}, func(n int64) { read += n })
	if err != nil || read != x.Data.Size() {
		t.Errorf("%s %v: %v after %d bytes of %d", x.DType, x.Shape, err, read, x.Data.Size())
	}
	return c
}

func float32s(v ...float32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func float64s(v ...float64) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

func swapped(width int, b []byte) []byte {
	b = slices.Clone(b)
	for part := range slices.Chunk(b, width) {
		slices.Reverse(part)
	}
	return b
}

func TestCount(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	below := math.Nextafter32(65520, 0)
	mixed := float32s(nan, inf, -inf, 65504, below, 65520, -1e6, 1)
	want := Counts{Numbers: 8, NaN: 1, Infinite: 2, Overflow: 2, Largest: 1e6, NonZero: true}
	one := []int64{8}
	block := make([]byte, 34) // of Q8_0
	copy(block[2:], []byte{1, 2, 127, 0x81})
	q8 := func(scale float32) []byte {
		b := slices.Clone(block)
		binary.LittleEndian.PutUint16(b, float16.Fromfloat32(scale).Bits())
		return b
	}
	for _, test := range []struct {
		name string
		t    tensorfs.Tensor
		want Counts
	}{
		{"F32", tensorfs.Tensor{DType: tensorfs.F32, Shape: one, Data: tensorfs.Bytes(mixed)}, want},
		{"F32 big-endian", tensorfs.Tensor{DType: tensorfs.F32, Shape: one, Data: tensorfs.Bytes(swapped(4, mixed)), BigEndian: true}, want},
		{"F32 of a companion", tensorfs.Tensor{DType: tensorfs.F32, Shape: one, Data: tensorfs.Bytes(mixed), Owner: "a"}, Counts{Numbers: 8, NaN: 1, Infinite: 2, NonZero: true}},
		{"F64", tensorfs.Tensor{DType: tensorfs.F64, Shape: []int64{6}, Data: tensorfs.Bytes(float64s(
			math.NaN(), math.Inf(-1), 65519.998046875, math.Nextafter(65519.998046875, 0), 1e300, 65519))},
			Counts{Numbers: 6, NaN: 1, Infinite: 1, Overflow: 2, Largest: 1e300, NonZero: true}},
		{"F16", tensorfs.Tensor{DType: tensorfs.F16, Shape: []int64{5}, Data: tensorfs.Bytes(halves([]float32{nan, inf, -inf, 65504, 0}))}, Counts{Numbers: 5, NaN: 1, Infinite: 2, NonZero: true}},
		{"BF16", tensorfs.Tensor{DType: tensorfs.BF16, Shape: []int64{5}, Data: tensorfs.Bytes("\xc0\x7f\x80\xff\x80\x47\x7f\x47\x80\xc7")}, Counts{Numbers: 5, NaN: 1, Infinite: 1, Overflow: 2, Largest: 65536, NonZero: true}},
		{"Q8_0", tensorfs.Tensor{DType: tensorfs.Q8_0, Shape: []int64{32}, Data: tensorfs.Bytes(q8(1))}, Counts{Numbers: 32, NonZero: true}},
		{"Q8_0 beyond half", tensorfs.Tensor{DType: tensorfs.Q8_0, Shape: []int64{32}, Data: tensorfs.Bytes(q8(32768))}, Counts{Numbers: 32, Overflow: 3, Largest: 127 * 32768, NonZero: true}},
		{"Q8_0 infinite", tensorfs.Tensor{DType: tensorfs.Q8_0, Shape: []int64{32}, Data: tensorfs.Bytes(q8(inf))}, Counts{Numbers: 32, NaN: 28, Infinite: 4, NonZero: true}},
		{"Q8_0 NaN", tensorfs.Tensor{DType: tensorfs.Q8_0, Shape: []int64{32}, Data: tensorfs.Bytes(q8(nan))}, Counts{Numbers: 32, NaN: 32, NonZero: true}},
		{"integers", tensorfs.Tensor{DType: tensorfs.I32, Shape: one, Data: tensorfs.Bytes(mixed)}, Counts{NonZero: true}},
		{"a type that cannot be decoded", tensorfs.Tensor{DType: tensorfs.IQ2_K, Shape: []int64{256}, Data: tensorfs.Bytes(make([]byte, 76))}, Counts{}},
		{"an odd number of bytes", tensorfs.Tensor{DType: tensorfs.U8, Shape: []int64{3}, Data: tensorfs.Bytes("\xff\xff\xff")}, Counts{NonZero: true}},
		{"zeros of both signs", tensorfs.Tensor{DType: tensorfs.BF16, Shape: []int64{5}, Data: tensorfs.Bytes("\x00\x00\x00\x80\x00\x00\x00\x80\x00\x80")}, Counts{Numbers: 5}},
		{"one that half does not hold", tensorfs.Tensor{DType: tensorfs.F32, Shape: one, Data: tensorfs.Bytes(float32s(0, 0, 0, 0, 0, 0, 0, 1e-30))}, Counts{Numbers: 8, NonZero: true}},
		{"Q8_0 of zeros", tensorfs.Tensor{DType: tensorfs.Q8_0, Shape: []int64{32}, Data: tensorfs.Bytes(q8(0))}, Counts{Numbers: 32}},
		{"MXFP4 that half does not hold", tensorfs.Tensor{DType: tensorfs.MXFP4, Shape: []int64{32}, Data: tensorfs.Bytes("\x01" + strings.Repeat("\x11", 16))}, Counts{Numbers: 32, NonZero: true}},
		{"MXFP4 of zeros", tensorfs.Tensor{DType: tensorfs.MXFP4, Shape: []int64{32}, Data: tensorfs.Bytes("\x7f" + strings.Repeat("\x00", 16))}, Counts{Numbers: 32}},
		{"nothing", tensorfs.Tensor{DType: tensorfs.Q8_0, Shape: []int64{0, 32}, Data: tensorfs.Bytes(nil)}, Counts{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := counted(t, &test.t); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

// A number is beyond half exactly if f16/ shows an infinity where the number is
// finite.
func TestCountAgreesWithF16(t *testing.T) {
	var bf16, f32, f64 []byte
	for i := range 1 << 16 {
		bf16 = binary.LittleEndian.AppendUint16(bf16, uint16(i))
	}
	for bits := uint32(0x477F_0000); bits < 0x4780_1000; bits += 7 {
		f32 = binary.LittleEndian.AppendUint32(f32, bits)
	}
	for _, at := range []uint64{0x40EF_FDFF_F000_0000, math.Float64bits(65504), math.Float64bits(65520), math.Float64bits(math.MaxFloat32), 0x7FF0_0000_0000_0000} {
		for d := range uint64(9) {
			f64 = binary.LittleEndian.AppendUint64(f64, at+d-4)
		}
	}
	for d, b := range map[tensorfs.DType][]byte{tensorfs.BF16: bf16, tensorfs.F32: f32, tensorfs.F64: f64} {
		width := int(d.Bits() / 8)
		found := Counts{}
		for number := range slices.Chunk(b, width) {
			x := &tensorfs.Tensor{DType: d, Shape: []int64{1}, Data: tensorfs.Bytes(number)}
			shown, reason := half(x, Options{})
			if reason != "" {
				t.Fatal(reason)
			}
			h := make([]byte, 2)
			if err := tensorfs.ReadFull(shown.Data, h, 0); err != nil {
				t.Fatal(err)
			}
			bits := binary.LittleEndian.Uint16(h) & 0x7FFF
			c := counted(t, x)
			if c.NaN+c.Infinite+c.Overflow > 1 || (bits > 0x7C00) != (c.NaN == 1) || (bits == 0x7C00) != (c.Infinite+c.Overflow == 1) {
				t.Errorf("%s %x: %04x in f16/, counted as %+v", d, number, bits, c)
			}
			found.add(c)
		}
		all := counted(t, &tensorfs.Tensor{DType: d, Shape: []int64{int64(len(b) / width)}, Data: tensorfs.Bytes(b)})
		if all != found || all.Overflow == 0 {
			t.Errorf("%s: %+v together, %+v one by one", d, all, found)
		}
	}
}

// Every type with a mantissa has its row, and only those.
func TestCountTypes(t *testing.T) {
	for d := range tensorfs.DTypes() {
		if f, ok := ieee[d]; ok != (d.Mantissa() > 0) || ok && int64(f.bytes)*8 != d.Bits() {
			t.Errorf("%s: %v, %d bytes", d, ok, f.bytes)
		}
	}
}

// Wherever a number is, it is found: at every place of more than a run, and once.
func TestCountPlaces(t *testing.T) {
	const n = countRun/2 + 3
	for d, special := range map[tensorfs.DType]string{tensorfs.F16: "\x00\xfc", tensorfs.F32: "\x00\x00\x80\xff", tensorfs.F64: "\x00\x00\x00\x00\x00\x00\xf0\xff"} {
		width := int64(len(special))
		b := make([]byte, n*width)
		x := &tensorfs.Tensor{DType: d, Shape: []int64{n}, Data: mapped(t, "x", b)}
		if c := counted(t, x); c != (Counts{Numbers: n}) {
			t.Errorf("%s: %+v of zeros", d, c)
		}
		for at := int64(0); at < n; at += 1 + at%1009 {
			copy(b[at*width:], special)
			if c := ieee[d].count(b); c.Infinite != 1 || !c.NonZero {
				t.Fatalf("%s: the infinity at %d is counted as %+v", d, at, c)
			}
			clear(b[at*width:][:width])
		}
	}
}

// An infinite half is looked up in the source.
func TestCountDecodedPlaces(t *testing.T) {
	const blocks = countRun/2/32 + 1000
	b := make([]byte, 34*blocks)
	block := func(i int) []byte { return b[34*i:][:34] }
	binary.LittleEndian.PutUint16(block(3), 0x7800) // 32768, and codes of 0 but for two
	copy(block(3)[2:], []byte{2, 0x80})
	copy(block(blocks-7), block(3))
	binary.LittleEndian.PutUint16(block(blocks-900), 0x7C00)
	copy(block(blocks - 900)[2:], bytes.Repeat([]byte{1}, 32))
	x := &tensorfs.Tensor{DType: tensorfs.Q8_0, Shape: []int64{32 * blocks}, Data: mapped(t, "x", b)}
	if c, want := counted(t, x), (Counts{Numbers: 32 * blocks, Infinite: 32, Overflow: 4, Largest: 128 * 32768, NonZero: true}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
}

func TestCountStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	for _, d := range []tensorfs.DType{tensorfs.F32, tensorfs.Q8_0, tensorfs.I8} {
		const n = 32 << 20
		size, _ := d.Size([]int64{n})
		x := &tensorfs.Tensor{DType: d, Shape: []int64{n}, Data: tensorfs.Section(zeros(size), 0, size)}
		calls := 0
		_, err := Count(ctx, x, Options{}, func(int64) {
			if calls++; calls == 2 {
				stop()
			}
		})
		if !errors.Is(err, context.Canceled) || calls > 2 {
			t.Errorf("%s: %v after %d calls", d, err, calls)
		}
		ctx, stop = context.WithCancel(t.Context())
	}
	stop()
}

// zeros is Data of so many zeros.
type zeros int64

func (z zeros) Size() int64 { return int64(z) }

func (z zeros) ReadAt(p []byte, off int64) (int, error) {
	n, err := tensorfs.ClipRange(int64(z), p, off)
	clear(p[:n])
	return n, err
}

func TestCountFails(t *testing.T) {
	s, path := mappedAt(t, "x", make([]byte, 1<<20))
	x := &tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{1 << 18}, Data: s}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Count(t.Context(), x, Options{}, func(int64) {}); !errors.Is(err, tensorfs.ErrChanged) {
		t.Errorf("of a file that changed: %v", err)
	}
}

func BenchmarkCount(b *testing.B) {
	for _, d := range []tensorfs.DType{tensorfs.BF16, tensorfs.F32, tensorfs.Q4_K} {
		const n = 1 << 22
		size, _ := d.Size([]int64{n})
		x := &tensorfs.Tensor{DType: d, Shape: []int64{n}, Data: tensorfs.Bytes(make([]byte, size))}
		b.Run(d.String(), func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Count(b.Context(), x, Options{}, func(int64) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
