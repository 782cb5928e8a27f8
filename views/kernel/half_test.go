package kernel

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/x448/float16"
)

// refHalf is the rounding that half is compared with; NaN is quiet and without payload by contract.
func refHalf(b uint32) uint16 {
	if b&0x7FFF_FFFF > 0x7F80_0000 {
		return uint16(b>>16&0x8000 | 0x7E00)
	}
	return uint16(float16.Fromfloat32(math.Float32frombits(b)))
}

// roundingEdges returns every F32 pattern next to which the rounded half can change: all multiples of half's last
// place and all ties between them, for every exponent, and their neighbours. Rounding is monotonic in between.
func roundingEdges() []uint32 {
	var edges []uint32
	for sign := range uint32(2) {
		for e := range uint32(256) {
			step := uint32(1) << 12 // half of half's last place
			if e < 113 {
				step <<= min(113-e, 11)
			}
			for m := uint32(0); m < 1<<23; m += step {
				b := sign<<31 | e<<23 | m
				edges = append(edges, b-1, b, b+1)
			}
		}
	}
	return edges
}

func TestHalfRounding(t *testing.T) {
	for _, b := range roundingEdges() {
		if got, want := half(b), refHalf(b); got != want {
			t.Fatalf("half(%#08x) = %#04x, want %#04x", b, got, want)
		}
	}
	for b := uint64(0); b < 1<<32; b += 9973 {
		if got, want := half(uint32(b)), refHalf(uint32(b)); got != want {
			t.Fatalf("half(%#08x) = %#04x, want %#04x", b, got, want)
		}
	}
}

func TestWiden(t *testing.T) {
	for h := range 1 << 16 {
		got, want := math.Float32bits(widen(uint16(h))), math.Float32bits(float16.Frombits(uint16(h)).Float32())
		if h&0x7FFF > 0x7C00 { // signalling NaNs may come out quiet
			got, want = got|1<<22, want|1<<22
		}
		if got != want {
			t.Fatalf("widen(%#04x) = %#08x, want %#08x", h, got, want)
		}
	}
}

func TestRoundComputedNaN(t *testing.T) {
	var dst [6]byte
	rest := round(dst[:], []float32{math.Float32frombits(0xFFC0_0001), float32(math.Inf(-1)), math.Float32frombits(0x7F80_0001)})
	if want := []byte{0, 0x7E, 0, 0xFC, 0, 0x7E}; !bytes.Equal(dst[:], want) || len(rest) != 0 {
		t.Errorf("round = % x with %d bytes left, want % x", dst, len(rest), want)
	}
}

// TestFloats runs the plain floats of every implementation over all 16-bit patterns and all edges of F32.
func TestFloats(t *testing.T) {
	var all16, all32, f16s, bf16s, f32s []byte
	for h := range 1 << 16 {
		all16 = binary.LittleEndian.AppendUint16(all16, uint16(h))
		f16s = binary.LittleEndian.AppendUint16(f16s, uint16(h))
		bf16s = binary.LittleEndian.AppendUint16(bf16s, refHalf(uint32(h)<<16))
	}
	for _, b := range roundingEdges() {
		all32 = binary.LittleEndian.AppendUint32(all32, b)
		f32s = binary.LittleEndian.AppendUint16(f32s, refHalf(b))
	}
	for _, c := range []struct {
		name      string
		src, want []byte
	}{{"F16", all16, f16s}, {"BF16", all16, bf16s}, {"F32", all32, f32s}} {
		for _, impl := range implementations() {
			if decode := impl.types[c.name]; decode != nil {
				dst := make([]byte, len(c.want))
				decode(dst, c.src)
				if i := firstDifference(dst, c.want); i >= 0 {
					t.Errorf("%s by %s: element %d is %x, want %x", c.name, impl.name, i/2, dst[i&^1:][:2], c.want[i&^1:][:2])
				}
			}
		}
	}
}

func TestF64(t *testing.T) {
	d, _ := Lookup("F64")
	for x, want := range map[float64]uint16{
		0: 0, math.Copysign(0, -1): 0x8000, 1: 0x3C00, -2: 0xC000, 65519.99: 0x7BFF, 65520: 0x7C00, -1e300: 0xFC00,
		0x1p-25: 0, 0x1.000001p-25: 0, 0x1.000002p-25: 1, 1e-300: 0, 0x1p-24: 1, math.Inf(1): 0x7C00,
		1 + 0x1p-11 + 0x1p-40: 0x3C00, // to F32 first, which leaves a tie
		1 + 0x1p-11 + 0x1p-23: 0x3C01,
	} {
		var dst [2]byte
		d.Decode(dst[:], binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
		if got := binary.LittleEndian.Uint16(dst[:]); got != want {
			t.Errorf("%v: %#04x, want %#04x", x, got, want)
		}
	}
	for _, b := range []uint64{0x7FF0_0000_0000_0001, 0xFFF8_0000_0000_0000} {
		var dst [2]byte
		d.Decode(dst[:], binary.LittleEndian.AppendUint64(nil, b))
		if got, want := binary.LittleEndian.Uint16(dst[:]), uint16(b>>48&0x8000|0x7E00); got != want {
			t.Errorf("NaN %#x: %#04x, want %#04x", b, got, want)
		}
	}
}

// firstDifference returns the index of the first differing byte of two slices of one length, or -1.
func firstDifference(a, b []byte) int {
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}
