package arrange

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
	"github.com/x448/float16"
)

// tensor returns a tensor of random bytes whose Data are as a parser's.
func tensor(seed uint64, d tensorfs.DType, shape ...int64) *tensorfs.Tensor {
	size, ok := d.Size(shape)
	if !ok {
		panic("shape")
	}
	return &tensorfs.Tensor{Name: "t", DType: d, Shape: shape, Data: datatest.Stored("f", 7, datatest.Random(seed, int(size)))}
}

// packed returns a tensor of 4-bit codes in groups of 32, with scales and biases.
func packed(seed uint64, shape ...int64) *tensorfs.Tensor {
	last := len(shape) - 1
	t := tensor(seed, tensorfs.U32, with(shape, last, shape[last]/8)...)
	groups := with(shape, last, shape[last]/32)
	t.Quant = &tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 32, Shape: shape,
		Scales: tensor(seed+1, tensorfs.BF16, groups...), Biases: tensor(seed+2, tensorfs.BF16, groups...)}
	return t
}

// bytesOf reads all of d.
func bytesOf(t testing.TB, d tensorfs.Data) []byte {
	t.Helper()
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// take returns the units of b at these indices.
func take(b []byte, unit int, indices []int) (out []byte) {
	for _, i := range indices {
		out = append(out, b[i*unit:][:unit]...)
	}
	return out
}

// moves are functions that move whole indices of dimensions, and which rows of the
// result are which of the source, for a tensor of 24 units.
var moves = []struct {
	name  string
	shape []int64 // without the length of rows
	do    func(t *tensorfs.Tensor) (*tensorfs.Tensor, error)
	want  []int64 // the shape
	from  []int
}{
	{"permute", []int64{24}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return Permute(t, 3) }, []int64{24},
		[]int{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15, 16, 20, 17, 21, 18, 22, 19, 23}},
	{"unpermute", []int64{24}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return Unpermute(t, 3) }, []int64{24},
		[]int{0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15, 16, 18, 20, 22, 17, 19, 21, 23}},
	{"slice of rows", []int64{24}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return Slice(t, 0, 3, 5) }, []int64{5}, []int{3, 4, 5, 6, 7}},
	{"slice of matrices", []int64{4, 6}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return Slice(t, 0, 2, 1) }, []int64{1, 6}, []int{12, 13, 14, 15, 16, 17}},
	{"slice of each", []int64{4, 6}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return Slice(t, 1, 4, 2) }, []int64{4, 2}, []int{4, 5, 10, 11, 16, 17, 22, 23}},
	{"slice of everything", []int64{4, 6}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return Slice(t, 1, 0, 6) }, []int64{4, 6},
		[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
	{"slice of nothing", []int64{4, 6}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return Slice(t, 1, 2, 0) }, []int64{4, 0}, nil},
	{"even", []int64{2, 12}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return EveryOther(t, 1, 0) }, []int64{2, 6}, []int{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}},
	{"odd", []int64{2, 12}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return EveryOther(t, 1, 1) }, []int64{2, 6}, []int{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23}},
	{"odd matrices", []int64{4, 6}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return EveryOther(t, 0, 1) }, []int64{2, 6}, []int{6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23}},
	{"swap", []int64{24}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return Swap(t, 0, 3, 4) }, []int64{24},
		[]int{0, 1, 8, 9, 16, 17, 2, 3, 10, 11, 18, 19, 4, 5, 12, 13, 20, 21, 6, 7, 14, 15, 22, 23}},
	{"swap in each", []int64{2, 12}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return Swap(t, 1, 2, 3) }, []int64{2, 12},
		[]int{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, 12, 13, 18, 19, 14, 15, 20, 21, 16, 17, 22, 23}},
	{"swap of one", []int64{24}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return Swap(t, 0, 1, 4) }, []int64{24},
		[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
	{"reshape", []int64{4, 6}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
		return Reshape(t, append([]int64{2, 3, 4}, t.Numbers()[2:]...)...)
	}, []int64{2, 3, 4}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
	{"join", []int64{4, 6}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
		a, err := Slice(t, 1, 0, 2)
		if err != nil {
			return nil, err
		}
		b, err := Slice(t, 1, 5, 1)
		if err != nil {
			return nil, err
		}
		return Join(1, b, a, b)
	}, []int64{4, 4}, []int{5, 0, 1, 5, 11, 6, 7, 11, 17, 12, 13, 17, 23, 18, 19, 23}},
	{"stack", []int64{24}, func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
		a, err := Slice(t, 0, 0, 3)
		if err != nil {
			return nil, err
		}
		b, err := Slice(t, 0, 20, 3)
		if err != nil {
			return nil, err
		}
		return Stack(b, a)
	}, []int64{2, 3}, []int{20, 21, 22, 0, 1, 2}},
}

// TestMoves moves plain numbers, rows of blocks, and codes with their scales and
// biases, and reads the result in every way.
func TestMoves(t *testing.T) {
	for _, m := range moves {
		for _, in := range []struct {
			name string
			t    *tensorfs.Tensor
		}{
			{"bias", tensor(1, tensorfs.F16, m.shape...)},
			{"weight", tensor(2, tensorfs.BF16, append(slices.Clone(m.shape), 3)...)},
			{"single column", tensor(2, tensorfs.F32, append(slices.Clone(m.shape), 1)...)},
			{"blocks", tensor(3, tensorfs.Q4_0, append(slices.Clone(m.shape), 32)...)},
			{"codes", packed(4, append(slices.Clone(m.shape), 64)...)},
		} {
			t.Run(m.name+" of "+in.name, func(t *testing.T) {
				got, err := m.do(in.t)
				if err != nil {
					t.Fatal(err)
				}
				rows := append(slices.Clone(m.want), in.t.Numbers()[len(m.shape):]...)
				if !slices.Equal(got.Numbers(), rows) {
					t.Fatalf("shape %v, want %v", got.Numbers(), rows)
				}
				compare := func(of, got, in *tensorfs.Tensor) {
					t.Helper()
					want := take(bytesOf(t, in.Data), int(in.Data.Size()/24), m.from)
					if size, ok := got.DType.Size(got.Shape); !ok || size != int64(len(want)) {
						t.Fatalf("%s: %s of shape %v for %d bytes", of.Name, got.DType, got.Shape, len(want))
					}
					datatest.Check(t, got.Data, want)
				}
				compare(got, got, in.t)
				if q := in.t.Quant; q != nil {
					compare(got, got.Quant.Scales, q.Scales)
					compare(got, got.Quant.Biases, q.Biases)
				}
			})
		}
	}
}

// TestPermuteIsUndone: the two orders are each other's inverse.
func TestPermuteIsUndone(t *testing.T) {
	in := tensor(5, tensorfs.BF16, 32, 5)
	a, err := Permute(in, 2)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Unpermute(a, 2)
	if err != nil {
		t.Fatal(err)
	}
	if want := bytesOf(t, in.Data); !slices.Equal(bytesOf(t, b.Data), want) || slices.Equal(bytesOf(t, a.Data), want) {
		t.Error("permuted and back is another tensor")
	}
}

// TestBlocksOfGPTOSS: the codes of Hugging Face's mxfp4 have a dimension more than
// their numbers.
func TestBlocksOfGPTOSS(t *testing.T) {
	in := tensor(6, tensorfs.U8, 2, 4, 3, 16)
	in.Quant = &tensorfs.Quant{Mode: "mxfp4", Bits: 4, GroupSize: 32, Shape: []int64{2, 4, 96}, Scales: tensor(7, tensorfs.U8, 2, 4, 3)}
	got, err := EveryOther(in, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	rows := []int{1, 3, 5, 7}
	datatest.Check(t, got.Data, take(bytesOf(t, in.Data), 48, rows))
	datatest.Check(t, got.Quant.Scales.Data, take(bytesOf(t, in.Quant.Scales.Data), 3, rows))
	if !slices.Equal(got.Shape, []int64{2, 2, 3, 16}) || !slices.Equal(got.Quant.Scales.Shape, []int64{2, 2, 3}) || !slices.Equal(got.Numbers(), []int64{2, 2, 96}) {
		t.Error(got.Shape, got.Quant.Scales.Shape, got.Numbers())
	}
}

// TestGlobalFactors: a factor for the whole tensor, and one for each matrix.
func TestGlobalFactors(t *testing.T) {
	nvfp4 := func(global *tensorfs.Tensor, shape ...int64) *tensorfs.Tensor {
		in := tensor(8, tensorfs.U32, with(shape, len(shape)-1, 4)...)
		in.Quant = &tensorfs.Quant{Mode: "nvfp4", Bits: 4, GroupSize: 16, Shape: shape, Scales: tensor(9, tensorfs.U8, with(shape, len(shape)-1, 2)...), Global: global}
		return in
	}
	each := nvfp4(tensor(10, tensorfs.F32, 4), 4, 6, 32)
	got, err := Slice(each, 0, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	datatest.Check(t, got.Quant.Global.Data, bytesOf(t, each.Quant.Global.Data)[4:12])
	if got, err = Slice(each, 1, 1, 2); err != nil || got.Quant.Global.Data.Size() != 16 {
		t.Error(err)
	}
	one := nvfp4(tensor(11, tensorfs.F32), 6, 32)
	if got, err = Slice(one, 0, 1, 2); err != nil || got.Quant.Global.Data.Size() != 4 {
		t.Error(err)
	}
	if got, err = Stack(one, one, one); err != nil || !slices.Equal(got.Quant.Global.Shape, []int64{3}) {
		t.Fatal(err)
	}
	b := bytesOf(t, one.Quant.Global.Data)
	datatest.Check(t, got.Quant.Global.Data, slices.Concat(b, b, b))
	for name, err := range map[string]error{
		"join":    second(Join(0, one, one)),
		"stack":   second(Stack(each, each)),
		"reshape": second(Reshape(each, 2, 12, 32)),
		"mixture": second(Stack(one, nvfp4(nil, 6, 32))),
	} {
		if err == nil {
			t.Error(name, "is allowed")
		}
	}
}

func second(_ *tensorfs.Tensor, err error) error { return err }

// TestTranspose: matrices, and matrices of a stack.
func TestTranspose(t *testing.T) {
	for _, c := range []struct {
		d     tensorfs.DType
		shape []int64
	}{
		{tensorfs.F32, []int64{5, 7}}, {tensorfs.F16, []int64{7, 5}}, {tensorfs.BF16, []int64{3, 4, 5}}, {tensorfs.F32, []int64{2, 19, 3}},
		{tensorfs.BF16, []int64{2, 35, 18}}, {tensorfs.F32, []int64{1, 6}}, {tensorfs.F16, []int64{3, 6, 1}}, {tensorfs.F16, []int64{0, 6}},
	} {
		t.Run(fmt.Sprint(c.d, c.shape), func(t *testing.T) {
			in := tensor(12, c.d, c.shape...)
			got, err := Transpose(in)
			if err != nil {
				t.Fatal(err)
			}
			last := len(c.shape) - 1
			rows, cols := int(c.shape[last-1]), int(c.shape[last])
			_, width := c.d.Block()
			var from []int
			for m := range int(product(c.shape[:last-1])) {
				for col := range cols {
					for row := range rows {
						from = append(from, (m*rows+row)*cols+col)
					}
				}
			}
			datatest.Check(t, got.Data, take(bytesOf(t, in.Data), int(width), from))
			if got.Shape[last] != int64(rows) || got.Shape[last-1] != int64(cols) {
				t.Error(got.Shape)
			}
		})
	}
}

// TestAddOne compares with sums in float64, rounded once for F32 and F16.
func TestAddOne(t *testing.T) {
	numbers := []float32{0, 1, -1, 0.5, -0.25, 1.0009765625, 3.0517578e-05, 5.9604645e-08, -5.9604645e-08, 0.00048828125, 2047, 65504, float32(math.Inf(1)), -3.140625, 0.33325195}
	for _, c := range []struct {
		d    tensorfs.DType
		want []float32
	}{
		{tensorfs.F32, []float32{1, 2, 0, 1.5, 0.75, 2.0009766, 1.0000305, 1, 0.99999994, 1.0004883, 2048, 65505, float32(math.Inf(1)), -2.140625, 1.333252}},
		// In F16 the sum is rounded to 10 digits after the point.
		{tensorfs.F16, []float32{1, 2, 0, 1.5, 0.75, 2, 1, 1, 1, 1, 2048, 65504, float32(math.Inf(1)), -2.140625, 1.3330078}},
	} {
		in := tensor(13, c.d, int64(len(numbers)))
		var b, want []byte
		for i, x := range numbers {
			if c.d == tensorfs.F32 {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			} else {
				b = binary.LittleEndian.AppendUint16(b, half(x))
			}
			want = binary.LittleEndian.AppendUint32(want, math.Float32bits(c.want[i]))
		}
		in.Data = datatest.Stored("f", 0, b)
		got, err := Add(in, 1)
		if err != nil || got.DType != tensorfs.F32 {
			t.Fatal(got, err)
		}
		datatest.Check(t, got.Data, want)
	}
	in := tensor(14, tensorfs.BF16, 300)
	var want []byte
	for b := bytesOf(t, in.Data); len(b) > 0; b = b[2:] {
		want = binary.LittleEndian.AppendUint32(want, math.Float32bits(1+math.Float32frombits(uint32(binary.LittleEndian.Uint16(b))<<16)))
	}
	got, err := Add(in, 1)
	if err != nil {
		t.Fatal(err)
	}
	if b := bytesOf(t, got.Data); !slices.Equal(b, want) {
		t.Error("BF16 plus one is something else")
	}
}

// TestSubtractOne undoes Add wherever a sum with one has the digits.
// TestScale: Unscale returns the BF16 numbers that Scale multiplied, and products of halves are halves.
func TestScale(t *testing.T) {
	root := float32(math.Sqrt(5120.0 / 1024))
	in := tensor(22, tensorfs.BF16, 300)
	var b []byte
	for i := range 300 { // 8 digits, of either sign
		b = binary.LittleEndian.AppendUint16(b, uint16(0x3C00+7*i|i<<15))
	}
	in.Data = datatest.Stored("f", 0, b)
	scaled, err := Scale(in, root)
	if err != nil || scaled.DType != tensorfs.F32 {
		t.Fatal(scaled, err)
	}
	back, err := Unscale(scaled, root)
	if err != nil || back.DType != tensorfs.BF16 {
		t.Fatal(back, err)
	}
	datatest.Check(t, back.Data, b)
	in.DType = tensorfs.F16
	if scaled, err = Scale(in, root); err != nil {
		t.Fatal(err)
	}
	for b := bytesOf(t, scaled.Data); len(b) > 0; b = b[4:] {
		if x := math.Float32frombits(binary.LittleEndian.Uint32(b)); float16.Fromfloat32(x).Float32() != x {
			t.Fatalf("%v is not a half", x)
		}
	}
}

func TestSubtractOne(t *testing.T) {
	for _, d := range []tensorfs.DType{tensorfs.F32, tensorfs.F16, tensorfs.BF16} {
		in := tensor(21, d, 300)
		plus, err := Add(in, 1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Subtract(plus, 1)
		if err != nil || got.DType != tensorfs.F32 {
			t.Fatal(got, err)
		}
		sum := bytesOf(t, plus.Data)
		var want []byte
		for ; len(sum) > 0; sum = sum[4:] {
			want = binary.LittleEndian.AppendUint32(want, math.Float32bits(math.Float32frombits(binary.LittleEndian.Uint32(sum))-1))
		}
		datatest.Check(t, got.Data, want)
	}
	in := tensor(0, tensorfs.F32, 3)
	in.Data = datatest.Stored("f", 0, []byte{0, 0, 0x80, 0x3f, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0xbf}) // 1, 1.5, -0.5
	got, err := Subtract(in, 1)
	if err != nil {
		t.Fatal(err)
	}
	if b := bytesOf(t, got.Data); !slices.Equal(b, []byte{0, 0, 0, 0, 0, 0, 0, 0x3f, 0, 0, 0xc0, 0xbf}) {
		t.Errorf("%x", b)
	}
	for _, c := range []struct {
		d    tensorfs.DType
		half []byte // 1.5
	}{{tensorfs.F16, []byte{0, 0x3e}}, {tensorfs.BF16, []byte{0xc0, 0x3f}}} {
		in := tensor(0, c.d, 1)
		in.Data = datatest.Stored("f", 0, c.half)
		got, err := Subtract(in, 1)
		if err != nil {
			t.Fatal(err)
		}
		if b := bytesOf(t, got.Data); !slices.Equal(b, []byte{0, 0, 0, 0x3f}) {
			t.Errorf("%s: %x", c.d, b)
		}
	}
}

// counted counts reads.
type counted struct {
	tensorfs.Data
	reads atomic.Int64
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	c.reads.Add(1)
	return c.Data.ReadAt(p, off)
}

// TestTurns: a tensor that interleaves a few runs of rows is read in few reads, however far apart
// the runs are.
func TestTurns(t *testing.T) {
	const rows, cols = 3 * 8000, 96
	in := tensor(22, tensorfs.F16, rows, cols)
	w := &counted{Data: in.Data}
	in.Data = w
	got, err := Swap(in, 0, 3, rows/3)
	if err != nil {
		t.Fatal(err)
	}
	from := make([]int, rows)
	for i := range from {
		from[i] = i%3*(rows/3) + i/3
	}
	want := take(bytesOf(t, in.Data), cols*2, from)
	before := w.reads.Load()
	if !slices.Equal(bytesOf(t, got.Data), want) {
		t.Error("rows are not where they belong")
	}
	if n := w.reads.Load() - before; n > 40 {
		t.Errorf("%d reads for 4 MB", n)
	}
	for n := int64(1); n < 2<<20; n = n*3 + 1 {
		for off := int64(0); off+n < got.Data.Size(); off += n/2 + 499979 {
			p := make([]byte, n)
			if err := tensorfs.ReadFull(got.Data, p, off); err != nil || !slices.Equal(p, want[off:off+n]) {
				t.Fatal(off, n, err)
			}
		}
	}
}

// half rounds to the nearest IEEE half, by trying all of them.
func half(x float32) uint16 {
	for h := range uint16(0x7c01) {
		v := math.Ldexp(float64(h&0x3ff), -24)
		if e := int(h >> 10); e > 0 {
			v = math.Ldexp(float64(h&0x3ff|0x400), e-25)
		}
		if h == 0x7c00 {
			v = math.Inf(1)
		}
		if v == math.Abs(float64(x)) {
			return h | uint16(math.Float32bits(x)>>16&0x8000)
		}
	}
	for h := range uint16(0x7bff) {
		lo, hi := halfValue(h), halfValue(h+1)
		if a := math.Abs(float64(x)); a > lo && a < hi {
			if a-lo > hi-a || a-lo == hi-a && h%2 == 1 {
				h++
			}
			return h | uint16(math.Float32bits(x)>>16&0x8000)
		}
	}
	panic(x)
}

func halfValue(h uint16) float64 {
	if e := int(h >> 10); e > 0 {
		return math.Ldexp(float64(h&0x3ff|0x400), e-25)
	}
	return math.Ldexp(float64(h), -24)
}

// TestOneRow moves and reshapes tensors of one row, and of none.
func TestOneRow(t *testing.T) {
	matrix, row, none := tensor(20, tensorfs.F16, 1, 4), tensor(21, tensorfs.Q8_0, 64), tensor(22, tensorfs.F16, 0, 4)
	same := func(name string, was, is *tensorfs.Tensor, err error) {
		t.Helper()
		if err != nil || !slices.Equal(bytesOf(t, is.Data), bytesOf(t, was.Data)) {
			t.Errorf("%s: %v, or other bytes", name, err)
		}
	}
	swapped, err := Swap(matrix, 0, 1, 1)
	same("swap", matrix, swapped, err)
	even, err := EveryOther(none, 0, 0)
	same("every other row of none", none, even, err)
	reshaped, err := Reshape(row, 1, 64)
	same("a row of blocks as a matrix", row, reshaped, err)
}

// TestRefusals: what would cut rows, or move numbers whose scales stay.
func TestRefusals(t *testing.T) {
	q, plain := packed(15, 6, 64), tensor(16, tensorfs.F16, 6, 4)
	fp8 := tensor(17, tensorfs.F8_E4M3, 6, 4)
	fp8.Quant = &tensorfs.Quant{Mode: "fp8", Bits: 8, Block: [2]int{2, 2}, Shape: fp8.Shape, Scales: tensor(18, tensorfs.F32, 3, 2)}
	opaque := *plain
	opaque.Opaque = "it is a secret"
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"transpose of codes", second(Transpose(q)), "transposed"},
		{"transpose of blocks", second(Transpose(tensor(1, tensorfs.Q8_0, 2, 32))), "transposed"},
		{"transpose of bytes", second(Transpose(tensor(1, tensorfs.U8, 2, 32))), "transposed"},
		{"transpose of a row", second(Transpose(tensor(1, tensorfs.F16, 32))), "dimensions"},
		{"heads", second(Permute(plain, 4)), "heads"},
		{"no heads", second(Permute(plain, 0)), "heads"},
		{"odd heads", second(Permute(plain, 2)), "heads"},
		{"odd heads back", second(Unpermute(plain, 2)), "heads"},
		{"part of a row of codes", second(Slice(q, 1, 0, 32)), "not cut"},
		{"part of a row of blocks", second(EveryOther(tensor(1, tensorfs.Q8_0, 2, 64), 1, 0)), "not cut"},
		{"beyond", second(Slice(plain, 0, 4, 3)), "no indices"},
		{"before", second(Slice(plain, 0, -1, 3)), "no indices"},
		{"dimension", second(Slice(plain, 2, 0, 0)), "no indices"},
		{"pairs", second(EveryOther(tensor(1, tensorfs.F16, 5), 0, 0)), "pairs"},
		{"pairs of nothing", second(EveryOther(plain, 2, 0)), "pairs"},
		{"swap of other rows", second(Swap(plain, 0, 2, 2)), "2 times 2"},
		{"swap of nothing", second(Swap(plain, 0, 0, 6)), "0 times 6"},
		{"swap of too many", second(Swap(plain, 0, 1<<62, 4)), "times 4"},
		{"swap nowhere", second(Swap(plain, 2, 1, 1)), "dimension 2"},
		{"one less code", second(Subtract(q, 1)), "added"},
		{"third of a pair", second(EveryOther(plain, 0, 2)), "pairs"},
		{"scales of blocks", second(Permute(fp8, 1)), "more than a row"},
		{"stack of those", second(Stack(fp8, fp8)), "more than a row"},
		{"interleaved rows", second(Slice(tensor(1, tensorfs.Q4_0_4_4, 8, 32), 0, 0, 4)), "one after the other"},
		{"secret", second(Slice(&opaque, 0, 0, 1)), "secret"},
		{"secret transposed", second(Transpose(&opaque)), "transposed"},
		{"other shape", second(Reshape(plain, 5, 5)), "does not hold"},
		{"other rows of codes", second(Reshape(q, 12, 32)), "not cut"},
		{"stack of shapes", second(Stack(plain, tensor(1, tensorfs.F16, 4, 6))), "differ"},
		{"stack of types", second(Stack(plain, tensor(1, tensorfs.BF16, 6, 4))), "same way"},
		{"stack of codes and numbers", second(Stack(q, tensor(1, tensorfs.F16, 6, 64))), "different ways"},
		{"join of ranks", second(Join(0, plain, tensor(1, tensorfs.F16, 6))), "differ"},
		{"join of columns", second(Join(0, plain, tensor(1, tensorfs.F16, 6, 5))), "differ"},
		{"join nowhere", second(Join(2, plain, plain)), "no dimension"},
		{"one more code", second(Add(q, 1)), "added"},
		{"one more integer", second(Add(tensor(1, tensorfs.I32, 5), 1)), "added"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, c.err, c.want)
		}
	}
}

// TestBrokenSource: an error of the source is the error of the read, and so is a
// file that changed.
func TestBrokenSource(t *testing.T) {
	in := tensor(19, tensorfs.F16, 8, 4)
	in.Data = datatest.Broken{Data: in.Data, At: 40}
	changed := *in
	changed.Data = lost{in.Data}
	for name, do := range map[string]func(t *tensorfs.Tensor) (*tensorfs.Tensor, error){
		"permute":   func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return Permute(t, 2) },
		"transpose": Transpose,
		"add":       func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return Add(t, 1) },
		"swap":      func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return Swap(t, 0, 2, 4) },
		"odd":       func(t *tensorfs.Tensor) (*tensorfs.Tensor, error) { return EveryOther(t, 0, 1) },
	} {
		got, err := do(in)
		if err != nil {
			t.Fatal(name, err)
		}
		if err := tensorfs.ReadFull(got.Data, make([]byte, got.Data.Size()), 0); !errors.Is(err, datatest.ErrBroken) {
			t.Error(name, err)
		}
		// The last byte is only half an element of the result.
		if n, err := got.Data.ReadAt(make([]byte, 1), got.Data.Size()-1); n != 0 || !errors.Is(err, datatest.ErrBroken) {
			t.Error(name, n, err)
		}
		if got, err = do(&changed); err != nil {
			t.Fatal(name, err)
		}
		if err := tensorfs.Check(got.Data); !errors.Is(err, errLost) {
			t.Error(name, "checks nothing:", err)
		}
	}
}

var errLost = errors.New("lost")

type lost struct{ tensorfs.Data }

func (lost) Check() error { return errLost }

// TestWindows reads data that are larger than what is looked at at a time.
func TestWindows(t *testing.T) {
	rows, cols := int64(3000), int64(1001)
	in := tensor(20, tensorfs.BF16, rows, cols)
	b := bytesOf(t, in.Data)
	whole, err := Transpose(in)
	if err != nil {
		t.Fatal(err)
	}
	permuted, err := Permute(in, 3)
	if err != nil {
		t.Fatal(err)
	}
	got, moved := bytesOf(t, whole.Data), bytesOf(t, permuted.Data)
	for i := range int(rows * cols) {
		row, col := i%int(rows), i/int(rows)
		if from := row*int(cols) + col; got[2*i] != b[2*from] || got[2*i+1] != b[2*from+1] {
			t.Fatal("element", i)
		}
	}
	for i := range int(rows) {
		head, r := i/1000, i%1000
		from := head*1000 + r%2*500 + r/2
		if !slices.Equal(moved[i*int(cols)*2:][:cols*2], b[from*int(cols)*2:][:cols*2]) {
			t.Fatal("row", i)
		}
	}
	for n := int64(1); n < 3<<20; n = n*3 + 1 {
		for off := int64(0); off+n < whole.Data.Size(); off += n/2 + 999983 {
			p := make([]byte, n)
			if err := tensorfs.ReadFull(whole.Data, p, off); err != nil || !slices.Equal(p, got[off:off+n]) {
				t.Fatal("transposed", off, n, err)
			}
			if err := tensorfs.ReadFull(permuted.Data, p, off); err != nil || !slices.Equal(p, moved[off:off+n]) {
				t.Fatal("permuted", off, n, err)
			}
		}
	}
}

// TestBandsAreKeptForAWhile: small reads of a large matrix do not look at the
// source again and again, but at a file that changed they fail.
func TestBandsAreKeptForAWhile(t *testing.T) {
	in := tensor(21, tensorfs.F16, 1000, 1000)
	watched := &watched{Data: in.Data}
	in.Data = watched
	got, err := Transpose(in)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for thread := range 8 {
		wait.Go(func() {
			p := make([]byte, 4096)
			for off := int64(thread * 4096); off+4096 <= got.Data.Size(); off += 8 * 4096 {
				if err := tensorfs.ReadFull(got.Data, p, off); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if n := watched.read.Load(); n < got.Data.Size() || n > 4*got.Data.Size() {
		t.Errorf("%d bytes were read for %d", n, got.Data.Size())
	}
	watched.changed.Store(true)
	if err := tensorfs.ReadFull(got.Data, make([]byte, 10), 5); !errors.Is(err, errLost) {
		t.Error("a file that changed is read from memory:", err)
	}
	// Many bands later there is no more memory in use than for a few.
	for i := range 2 * maxBands {
		other, err := Transpose(tensor(uint64(i), tensorfs.F16, 1000, 600))
		if err != nil {
			t.Fatal(err)
		}
		if err := tensorfs.ReadFull(other.Data, make([]byte, 10), 5); err != nil {
			t.Fatal(err)
		}
	}
	bands.Lock()
	defer bands.Unlock()
	if len(bands.list) != maxBands || slices.ContainsFunc(bands.list, func(b *band) bool { return b.t == got.Data.(*transposed) }) {
		t.Errorf("%d bands are kept", len(bands.list))
	}
}

// TestBrokenBand: a band that could not be made is made again.
func TestBrokenBand(t *testing.T) {
	in := tensor(22, tensorfs.F16, 1000, 600)
	want := bytesOf(t, in.Data)
	flaky := &flaky{Data: in.Data}
	in.Data = flaky
	got, err := Transpose(in)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 4)
	if err := tensorfs.ReadFull(got.Data, p, 0); !errors.Is(err, errLost) {
		t.Fatal(err)
	}
	if err := tensorfs.ReadFull(got.Data, p, 0); err != nil || !slices.Equal(p, slices.Concat(want[:2], want[1200:1202])) {
		t.Error(p, err)
	}
}

// watched is Data that counts what is read and can be told that it changed.
type watched struct {
	tensorfs.Data
	read    atomic.Int64
	changed atomic.Bool
}

func (w *watched) ReadAt(p []byte, off int64) (int, error) {
	w.read.Add(int64(len(p)))
	return w.Data.ReadAt(p, off)
}

func (w *watched) Check() error {
	if w.changed.Load() {
		return errLost
	}
	return nil
}

// flaky is Data whose first read fails.
type flaky struct {
	tensorfs.Data
	read bool
}

func (f *flaky) ReadAt(p []byte, off int64) (int, error) {
	if !f.read {
		f.read = true
		return 0, errLost
	}
	return f.Data.ReadAt(p, off)
}
