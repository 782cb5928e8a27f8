package kernel

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"
)

// TestI2S decodes the same matrices in every layout; the scale is the F32 after the codes.
func TestI2S(t *testing.T) {
	for to, name := range formats {
		t.Run(name, func(t *testing.T) { testI2S(t, to, readSums(t, "../../testdata/bitnet/i2s."+name+".sha256")) })
	}
}

func testI2S(t *testing.T, to Float, sums map[string]string) {
	columns := map[string]int{"blk.0.attn_q.weight": 256, "blk.0.ffn_down.weight": 512, "blk.0.attn_k.weight": 128}
	seen := 0
	for file, layout := range map[string]string{"i2s-128": "128", "i2s-64-arm": "64", "i2s-rows4": "rows4", "i2s-trinity": "trinity"} {
		for _, tensor := range readGGUF(t, "../../testdata/bitnet/"+file+".gguf") {
			if tensor.dtype != "I2_S" {
				continue
			}
			seen++
			i2s, ok := to.I2S(layout, columns[tensor.name])
			if !ok {
				t.Fatalf("no I2_S layout %q", layout)
			}
			codes, name, d := tensor.data[:tensor.elems/4], tensor.name, float32(1)
			if layout == "trinity" {
				name = "trinity:" + name
			} else {
				d = math.Float32frombits(binary.LittleEndian.Uint32(tensor.data[len(codes):]))
			}
			dst := make([]byte, int(to)*tensor.elems)
			i2s.Decode(dst, codes, d)
			if sum := sha256.Sum256(dst); hex.EncodeToString(sum[:]) != sums[name] {
				t.Errorf("%s: %s in layout %s: sum differs", file, tensor.name, layout)
			}
		}
	}
	if seen != 12 {
		t.Errorf("%d tensors, want 12", seen)
	}
}

func TestI2SLevels(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		layout string
		d      float32
		want   [4]uint16 // of codes 0 to 3
	}{
		{"128", 1.21875, [4]uint16{0xBCE0, 0, 0x3CE0, 0}},
		{"64", -1, [4]uint16{0x3C00, 0x8000, 0xBC00, 0x8000}},
		{"rows4", 0.1, [4]uint16{0xAE66, 0, 0x2E66, 0}},
		{"trinity", 1, [4]uint16{0, 0x3C00, 0xBC00, 0}},
		{"128", inf, [4]uint16{0xFC00, 0x7E00, 0x7C00, 0x7E00}},
		{"128", nan, [4]uint16{0x7E00, 0x7E00, 0x7E00, 0x7E00}},
	} {
		i2s, _ := I2S(c.layout, 128)
		for code, want := range c.want {
			dst := make([]byte, 2*i2s.Elems)
			i2s.Decode(dst, bytes.Repeat([]byte{byte(code * 0x55)}, i2s.Bytes), c.d)
			for i := 0; i < len(dst); i += 2 {
				if got := binary.LittleEndian.Uint16(dst[i:]); got != want {
					t.Fatalf("%s, d %v, code %d: %#04x, want %#04x", c.layout, c.d, code, got, want)
				}
			}
		}
	}
	for _, c := range []struct {
		layout      string
		cols        int
		ok          bool
		elems, size int
	}{
		{"128", 256, true, 128, 32}, {"64", 256, true, 64, 16}, {"rows4", 96, true, 384, 96}, {"trinity", 12, true, 4, 1},
		{"trinity", 13, false, 0, 0}, {"", 128, false, 0, 0}, {"128", 0, false, 0, 0}, {"rows4", math.MaxInt, false, 0, 0},
	} {
		i2s, ok := I2S(c.layout, c.cols)
		if ok != c.ok || ok && (i2s.Elems != c.elems || i2s.Bytes != c.size) {
			t.Errorf("%+v: %v %+v", c, ok, i2s)
		}
	}
}

// TestPicks compares every implementation with the definition: every byte, blocks of every small size and of whole
// rows, any number of them.
func TestPicks(t *testing.T) {
	h := [4]uint16{0xBCE0, 0x8001, 0x3C7F, 0x7E00}
	for _, impl := range implementations() {
		if impl.picks == nil {
			continue
		}
		for n := 1; n < 200; n++ {
			for blocks := range 5 {
				src, want := make([]byte, n*blocks), make([]byte, 8*n*blocks)
				for i := range src {
					src[i] = byte(i*37 + n)
					for q := range 4 {
						at := i/n*4*n + q*n + i%n
						binary.LittleEndian.PutUint16(want[2*at:], h[src[i]>>(6-2*q)&3])
					}
				}
				dst := make([]byte, len(want))
				impl.picks(dst, src, n, h)
				if i := firstDifference(dst, want); i >= 0 {
					t.Fatalf("%s, %d blocks of %d bytes: element %d is %x, want %x", impl.name, blocks, n, i/2, dst[i&^1:][:2], want[i&^1:][:2])
				}
			}
		}
	}
}

// TestSinglePicks is TestPicks for F32.
func TestSinglePicks(t *testing.T) {
	f := [4]uint32{0xBF9C_0000, 0x8000_0000, 0x3F81_2345, quietNaN}
	for _, impl := range implementationsTo(Single) {
		if impl.singlePicks == nil {
			continue
		}
		for n := 1; n < 200; n++ {
			for blocks := range 5 {
				src, want := make([]byte, n*blocks), make([]byte, 16*n*blocks)
				for i := range src {
					src[i] = byte(i*37 + n)
					for q := range 4 {
						at := i/n*4*n + q*n + i%n
						binary.LittleEndian.PutUint32(want[4*at:], f[src[i]>>(6-2*q)&3])
					}
				}
				dst := make([]byte, len(want))
				impl.singlePicks(dst, src, n, f)
				if i := firstDifference(dst, want); i >= 0 {
					t.Fatalf("%s, %d blocks of %d bytes: element %d is %x, want %x", impl.name, blocks, n, i/4, dst[i&^3:][:4], want[i&^3:][:4])
				}
			}
		}
	}
}
