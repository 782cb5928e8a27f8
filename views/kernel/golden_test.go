package kernel

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"
)

// implementations returns plain Go and what this machine has besides.
func implementations() []*implementation { return implementationsTo(Half) }

// implementationsTo is implementations for either format.
func implementationsTo(to Float) []*implementation {
	all, fast := []*implementation{plain(to)}, accelerated()
	if to == Single {
		fast = acceleratedSingle()
	}
	if fast != nil {
		all = append(all, fast)
	}
	return all
}

// formats are the formats of decoded numbers, and their names in golden files.
var formats = map[Float]string{Half: "f16", Single: "f32"}

// canonicalNaNs is canonicalNaN for either format.
func canonicalNaNs(to Float, b []byte) {
	if to == Half {
		canonicalNaN(b)
		return
	}
	for i := 0; i < len(b); i += 4 {
		if x := binary.LittleEndian.Uint32(b[i:]); x&0x7FFF_FFFF > 0x7F80_0000 {
			binary.LittleEndian.PutUint32(b[i:], x&0x8000_0000|quietNaN)
		}
	}
}

// canonicalNaN makes every half NaN sign | 0x7E00, as the golden sums have it.
func canonicalNaN(halves []byte) {
	for i := 0; i < len(halves); i += 2 {
		if h := binary.LittleEndian.Uint16(halves[i:]); h&0x7FFF > 0x7C00 {
			binary.LittleEndian.PutUint16(halves[i:], h&0x8000|0x7E00)
		}
	}
}

// TestGolden decodes what ggml's own quantisers and random block bytes gave and compares with what ggml decodes.
func TestGolden(t *testing.T) {
	for to, name := range formats {
		t.Run(name, func(t *testing.T) { testGolden(t, to, readSums(t, "../../testdata/ggml/types."+name+".sha256")) })
	}
}

func testGolden(t *testing.T, to Float, sums map[string]string) {
	seen := map[string]bool{}
	for _, file := range []string{"types.gguf", "big_endian.gguf"} {
		for _, tensor := range readGGUF(t, "../../testdata/ggml/"+file) {
			want := sums[tensor.name]
			decoder, ok := to.Lookup(tensor.dtype)
			if !ok || want == "" {
				t.Fatalf("%s: %s: no decoder for %q or no sum", file, tensor.name, tensor.dtype)
			}
			src := bytes.Clone(tensor.data)
			if tensor.bigEndian {
				decoder.Swap(src)
			}
			for _, impl := range implementationsTo(to) {
				decode := impl.types[tensor.dtype]
				if decode == nil {
					continue
				}
				seen[impl.name+" "+tensor.dtype] = true
				dst := make([]byte, int(to)*tensor.elems)
				decode(dst, src)
				canonicalNaNs(to, dst)
				if sum := sha256.Sum256(dst); hex.EncodeToString(sum[:]) != want {
					t.Errorf("%s: %s (%s) by %s: sum differs", file, tensor.name, tensor.dtype, impl.name)
				}
			}
		}
	}
	for _, d := range types() {
		if d.Name[0] != 'F' && d.Name != "Q6_0" && d.Name != "PQ2_0" && !seen["go "+d.Name] {
			t.Errorf("no golden tensor of type %s", d.Name)
		}
	}
}

// TestPQ20 decodes blocks of PQ2_0 as two blocks of Q2_0 with the same scale, which the golden
// files have; ggml itself does not know the type.
func TestPQ20(t *testing.T) {
	half, whole := typeOf("Q2_0"), typeOf("PQ2_0")
	block := make([]byte, 34)
	for d := range 1 << 16 {
		binary.LittleEndian.PutUint16(block, uint16(d))
		for i := range block[2:] {
			block[2+i] = byte(i*37 + d)
		}
		two := slices.Concat(block[:18], block[:2], block[18:])
		got, want := make([]byte, 256), make([]byte, 256)
		whole.Decode(got, block)
		half.Decode(want, two)
		if !bytes.Equal(got, want) {
			t.Fatalf("scale %#x: %x, want %x", d, got, want)
		}
	}
}

// TestQ60 packs codes by ik_llama's layout and decodes them; no golden file has this type.
func TestQ60(t *testing.T) {
	d, _ := Lookup("Q6_0")
	block := make([]byte, 26)
	binary.LittleEndian.PutUint16(block, 0xB800) // -0.5
	var want []float32
	for i := range 32 {
		q := byte(i*29+7) & 63
		j := i % 16
		block[10+j] |= q & 15 << (i / 16 * 4)
		block[2+j%8] |= q >> 4 << (j/8*4 + i/16*2)
		want = append(want, -0.5*float32(int(q)-32))
	}
	dst, halves := make([]byte, 64), make([]byte, 64)
	d.Decode(dst, block)
	round(halves, want)
	if !bytes.Equal(dst, halves) {
		t.Errorf("% x, want % x", dst, halves)
	}
}
