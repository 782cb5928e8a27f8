package tensorfs

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
)

// rows are the stored bytes of rows of 256 elements, by ggml's and ik_llama's
// type tables and the safetensors format.
const rows = `
F32 1024  F16 512  Q4_0 144  Q4_1 160  Q5_0 176  Q5_1 192  Q8_0 272  Q8_1 288
Q2_K 84  Q3_K 110  Q4_K 144  Q5_K 176  Q6_K 210  Q8_K 292
IQ2_XXS 66  IQ2_XS 74  IQ3_XXS 98  IQ1_S 50  IQ4_NL 144  IQ3_S 110  IQ2_S 82  IQ4_XS 136
I8 256  I16 512  I32 1024  I64 2048  F64 2048  IQ1_M 56  BF16 512
Q4_0_4_4 144  Q4_0_4_8 144  Q4_0_8_8 144  TQ1_0 54  TQ2_0 66  IQ4_NL_4_4 144  IQ4_NL_4_8 144  IQ4_NL_8_8 144
MXFP4 136  NVFP4 144  Q1_0 36  Q2_0 72  PQ2_0 68  PTQ1_0 56
Q6_0 208  IQ1_BN 54  IQ2_BN 68  IQ2_K 76  IQ3_K 110  IQ4_K 144  IQ5_K 176  IQ6_K 212
IQ4_KS 140  IQ2_KS 72  IQ4_KSS 132  IQ5_KS 172  IQ2_KT 72  IQ3_KT 104  IQ4_KT 132  IQ3_KS 104  IQ2_KL 88  IQ1_KT 60
BOOL 256  U8 256  U16 512  U32 1024  U64 2048  C64 2048  F4 128  F6_E2M3 192  F6_E3M2 192
F8_E5M2 256  F8_E4M3 256  F8_E8M0 256  F8_E4M3FNUZ 256  F8_E5M2FNUZ 256`

func TestDTypeRows(t *testing.T) {
	want := map[string]int64{}
	for f := strings.Fields(rows); len(f) > 0; f = f[2:] {
		var n int64
		if _, err := fmt.Sscan(f[1], &n); err != nil {
			t.Fatal(err)
		}
		want[f[0]] = n
	}
	numbers := map[int]DType{}
	for d := range numDTypes {
		size, ok := d.Size([]int64{256})
		if d.Whole() {
			if ok {
				t.Errorf("%v has a size by rows", d)
			}
		} else if !ok || size != want[d.String()] {
			t.Errorf("a row of %v is %d bytes, want %d", d, size, want[d.String()])
		}
		delete(want, d.String())
		if g := d.GGML(); g >= 0 {
			// From 36 on the space of the tensor decides.
			if other, twice := numbers[g]; twice && (g < 36 || g > 39) {
				t.Errorf("%v and %v are both ggml's type %d", d, other, g)
			}
			numbers[g] = d
		}
	}
	for name := range want {
		t.Errorf("there is no %s", name)
	}
}

// TestDTypeFacts holds the facts that few types have to lists of their own.
func TestDTypeFacts(t *testing.T) {
	mantissa := map[DType]int{F16: 10, BF16: 7, F32: 23, F64: 52}
	rowGroup := map[DType]int64{Q4_0_4_4: 4, Q4_0_4_8: 4, Q4_0_8_8: 8}
	safetensors := " BOOL U8 I8 U16 I16 U32 I32 U64 I64 F4 F6_E2M3 F6_E3M2 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ F16 BF16 F32 F64 C64 "
	names := map[string]bool{}
	for d := range DTypes() {
		if got := d.Mantissa(); got != mantissa[d] {
			t.Errorf("%v has a mantissa of %d bits, want %d", d, got, mantissa[d])
		}
		if got := d.RowGroup(); got != max(rowGroup[d], 1) {
			t.Errorf("%v interleaves %d rows, want %d", d, got, max(rowGroup[d], 1))
		}
		if got := d.Safetensors(); got != strings.Contains(safetensors, " "+d.String()+" ") {
			t.Errorf("%v is a type of safetensors: %v", d, got)
		}
		if names[d.String()] || d == Unknown {
			t.Errorf("%v twice, or no type", d)
		}
		names[d.String()] = true
	}
	if len(names) != int(numDTypes)-1 {
		t.Errorf("%d types, want %d", len(names), numDTypes-1)
	}
}

func TestDTypeSize(t *testing.T) {
	shapes := [][]int64{
		{}, {0}, {1}, {2}, {3}, {31}, {32}, {64}, {96}, {128}, {256}, {512}, {257},
		{0, 0}, {0, 1}, {0, 256}, {5, 0}, {3, 256}, {256, 3}, {7, 512}, {2, 3, 4, 256}, {2, 0, 256}, {1, 1, 1, 1, 256},
		{-1}, {-256}, {-1, -256}, {0, -256}, {-1, 0},
		{1 << 62}, {1<<63 - 1}, {1 << 55, 256}, {1 << 54, 256}, {1 << 53, 256}, {1 << 61, 0}, {1 << 32, 1 << 31}, {1 << 32, 1 << 32},
		{1 << 40, 1 << 40, 0}, {1 << 61, 1}, {1 << 60, 1}, {1<<63 - 256}, {1 << 20, 1 << 20, 1 << 20, 256}, {3 << 54, 256}, {5 << 52, 256},
	}
	for d := range numDTypes {
		for _, shape := range shapes {
			size, ok := d.Size(shape)
			if want, fits := bigSize(d, shape); ok != fits || fits && size != want {
				t.Errorf("%v.Size(%v) = %d, %v; want %d, %v", d, shape, size, ok, want, fits)
			}
		}
	}
}

// bigSize is DType.Size without a thought for overflow.
func bigSize(d DType, shape []int64) (int64, bool) {
	cols, n := int64(1), big.NewInt(1)
	nonZero := big.NewInt(1)
	for _, x := range shape {
		if x < 0 {
			return 0, false
		}
		cols = x
		n.Mul(n, big.NewInt(x))
		if x > 0 {
			nonZero.Mul(nonZero, big.NewInt(x))
		}
	}
	elems, _ := d.Block()
	if d.Whole() || !nonZero.IsInt64() || cols%elems != 0 {
		return 0, false
	}
	if n.Sign() == 0 {
		return 0, true
	}
	bits := new(big.Int).Mul(n, big.NewInt(d.Bits()))
	bits.Quo(bits, big.NewInt(elems))
	meta := new(big.Int).Mul(n, big.NewInt(dtypes[d].rowMeta))
	meta.Quo(meta, big.NewInt(cols))
	if bits.BitLen() > 64 || bits.Bit(0)|bits.Bit(1)|bits.Bit(2) != 0 {
		return 0, false
	}
	sum := bits.Rsh(bits, 3)
	return sum.Add(sum, meta).Int64(), true
}

func TestElements(t *testing.T) {
	for _, test := range []struct {
		shape []int64
		n     int64
		ok    bool
	}{
		{nil, 1, true},
		{[]int64{1}, 1, true},
		{[]int64{2, 3, 5}, 30, true},
		{[]int64{7, 0, 9}, 0, true},
		{[]int64{1<<63 - 1}, 1<<63 - 1, true},
		{[]int64{1<<63 - 1, 1}, 1<<63 - 1, true},
		{[]int64{1 << 31, 1 << 31}, 1 << 62, true},
		{[]int64{1 << 31, 1 << 32}, 0, false},
		{[]int64{1 << 32, 1 << 32}, 0, false}, // 2^64 wraps to nothing
		{[]int64{1<<63 - 1, 2}, 0, false},
		{[]int64{0, 1 << 62, 4}, 0, false}, // hidden by the zero
		{[]int64{-1}, 0, false},
		{[]int64{-1, -1}, 0, false},
		{[]int64{0, -1}, 0, false},
	} {
		if n, ok := Elements(test.shape); n != test.n || ok != test.ok {
			t.Errorf("Elements(%v) = %d, %v; want %d, %v", test.shape, n, ok, test.n, test.ok)
		}
	}
}
