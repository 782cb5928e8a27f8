package kernel

import (
	"encoding/binary"
	"math"
	"testing"
)

func TestFloat8(t *testing.T) {
	for _, c := range []struct {
		name string
		code byte
		want uint16
	}{
		{"F8_E4M3", 0, 0}, {"F8_E4M3", 0x80, 0x8000}, {"F8_E4M3", 1, 0x1800}, {"F8_E4M3", 8, 0x2400}, {"F8_E4M3", 0x38, 0x3C00},
		{"F8_E4M3", 0x7E, 0x5F00}, {"F8_E4M3", 0xFE, 0xDF00}, {"F8_E4M3", 0x7F, 0x7E00}, {"F8_E4M3", 0xFF, 0xFE00},
		{"F8_E4M3FNUZ", 0, 0}, {"F8_E4M3FNUZ", 0x80, 0x7E00}, {"F8_E4M3FNUZ", 1, 0x1400}, {"F8_E4M3FNUZ", 0x40, 0x3C00},
		{"F8_E4M3FNUZ", 0x7F, 0x5B80}, {"F8_E4M3FNUZ", 0xFF, 0xDB80},
		{"F8_E5M2FNUZ", 0, 0}, {"F8_E5M2FNUZ", 0x80, 0x7E00}, {"F8_E5M2FNUZ", 1, 0x0080}, {"F8_E5M2FNUZ", 0x40, 0x3C00},
		{"F8_E5M2FNUZ", 0x7F, 0x7B00}, {"F8_E5M2FNUZ", 0xFF, 0xFB00},
		{"F8_E8M0", 0, 0}, {"F8_E8M0", 102, 0}, {"F8_E8M0", 103, 1}, {"F8_E8M0", 127, 0x3C00}, {"F8_E8M0", 142, 0x7800},
		{"F8_E8M0", 143, 0x7C00}, {"F8_E8M0", 254, 0x7C00}, {"F8_E8M0", 255, 0x7E00},
	} {
		d, _ := Lookup(c.name)
		var dst [2]byte
		d.Decode(dst[:], []byte{c.code})
		if got := binary.LittleEndian.Uint16(dst[:]); got != c.want {
			t.Errorf("%s %#02x: %#04x, want %#04x", c.name, c.code, got, c.want)
		}
	}
	e5m2, _ := Lookup("F8_E5M2")
	e4m3, _ := Lookup("F8_E4M3")
	for code := range 256 {
		var dst [2]byte
		e5m2.Decode(dst[:], []byte{byte(code)})
		want := uint16(code) << 8
		if want&0x7FFF > 0x7C00 {
			want = want&0x8000 | 0x7E00
		}
		if got := binary.LittleEndian.Uint16(dst[:]); got != want {
			t.Errorf("F8_E5M2 %#02x: %#04x, want %#04x", code, got, want)
		}
		e4m3.Decode(dst[:], []byte{byte(code)})
		if got := widen(binary.LittleEndian.Uint16(dst[:])); code&0x7F != 0x7F && got != float8Value(code) {
			t.Errorf("F8_E4M3 %#02x: %v, want %v", code, got, float8Value(code))
		}
	}
}

// TestScaledF8 multiplies every code by every kind of scale in runs of every length around a vector's.
func TestScaledF8(t *testing.T) {
	codes := make([]byte, 1024)
	for i := range codes {
		codes[i] = byte(i*5 + i/256*45) // a code's place in a vector varies
	}
	public := &implementation{name: "exported", scaled: map[string]scaledFunc{"F8_E4M3": decoders()["F8_E4M3"].Scaled, "F8_E5M2": decoders()["F8_E5M2"].Scaled}}
	for _, f := range []struct {
		name  string
		nan   func(code byte) bool
		value func(code int) float32
	}{
		{"F8_E4M3", func(c byte) bool { return c&0x7F == 0x7F }, float8Value},
		{"F8_E5M2", func(c byte) bool { return c&0x7F > 0x7C }, func(c int) float32 { return widen(uint16(c) << 8) }},
	} {
		for _, scale := range []float32{1, -1, 0.1, 1.0 / 3, 200, 1e-7, 1e-40, 1e38, 0, float32(math.Copysign(0, -1)),
			float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())} {
			want := make([]byte, 2*len(codes))
			for i, c := range codes {
				product := f.value(int(c)) * scale
				h := refHalf(math.Float32bits(product))
				if f.nan(c) || product != product {
					h = 0x7E00
				}
				binary.LittleEndian.PutUint16(want[2*i:], h)
			}
			for _, impl := range append(implementations(), public) {
				decode := impl.scaled[f.name]
				if decode == nil {
					continue
				}
				for n := range 100 {
					for _, n := range []int{n, len(codes) - n} {
						dst := make([]byte, 2*n)
						decode(dst, codes[:n], scale)
						if i := firstDifference(dst, want[:2*n]); i >= 0 {
							t.Fatalf("%s by %s: %#02x * %v = %x, want %x", f.name, impl.name, codes[i/2], scale, dst[i&^1:][:2], want[i&^1:][:2])
						}
					}
				}
			}
		}
	}
}
