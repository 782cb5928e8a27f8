package kernel

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// splitTypes are the types that can be split, and the numbers of theirs that no module of MLX has.
var splitTypes = map[string]func(block []byte) (invalid bool){
	"Q4_0": badHalf(0, 8), "Q5_0": badHalf(0, 16), "Q8_0": badHalf(0, 128),
	"Q4_1": badHalf(0, 1), "Q5_1": badHalf(0, 1),
	"MXFP4": func(b []byte) bool { return b[0] == 0xFF },
	"NVFP4": func(b []byte) bool { return within(b[:4], 0, 0x7E) < 4 },
}

// badHalf reports a scale that is not finite, or not after it is multiplied.
func badHalf(at int, by float32) func(b []byte) bool {
	return func(b []byte) bool {
		d := wide(b[at:])
		return d != d || math.Abs(float64(d*by)) >= 65520 || math.IsInf(float64(d), 0)
	}
}

// splitBlocks returns random blocks of a type, and all codes: every byte occurs at every place.
func splitBlocks(s Split) []byte {
	r := rand.New(rand.NewPCG(1, uint64(s.Bytes)))
	b := make([]byte, 1500*s.Bytes)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for at := 0; s.Name == "NVFP4" && at < len(b); at += 2 * s.Bytes { // most random ones have an invalid scale
		for i := range 4 {
			b[at+i] &= 0x3F
		}
	}
	for c := range 256 {
		for i := range s.Bytes {
			b[c*s.Bytes+i] = byte(c)
		}
		if s.Scale == "F16" {
			binary.LittleEndian.PutUint16(b[c*s.Bytes:], uint16(c*97)&^0x4000)
		}
	}
	return b
}

// pieces returns the streams of blocks.
func pieces(s Split, b []byte) (codes, scales, biases []byte) {
	n := len(b) / s.Bytes
	scale := n * s.Elems / s.Group * scaleBytes(s.Scale)
	codes, scales = make([]byte, n*s.Elems*s.Bits/8), make([]byte, scale)
	s.Codes(codes, b)
	s.Scales(scales, b)
	if s.Biased {
		biases = make([]byte, scale)
		s.Biases(biases, b)
	}
	return codes, scales, biases
}

// TestSplit: what MLX computes of the streams is what ggml computes of the blocks, in F32, and zeros may differ in sign.
func TestSplit(t *testing.T) {
	for name, invalid := range splitTypes {
		s, ok := LookupSplit(name)
		g, grouped := Single.LookupGroup(s.Mode, s.Bits, s.Group, s.Scale)
		d, decoded := Single.Lookup(name)
		if !ok || !grouped || !decoded {
			t.Fatal(name, ok, grouped, decoded)
		}
		b := splitBlocks(s)
		n := len(b) / s.Bytes
		got, want := make([]byte, 4*n*s.Elems), make([]byte, 4*n*s.Elems)
		codes, scales, biases := pieces(s, b)
		g.Decode(got, codes, scales, biases, 1)
		d.Decode(want, b)
		compared := 0
		for i := range n {
			if invalid(b[i*s.Bytes:][:s.Bytes]) {
				continue
			}
			for j := i * s.Elems; j < (i+1)*s.Elems; j++ {
				x, y := number32At(got, j), number32At(want, j)
				if !(x == y) && !(x != x && y != y) {
					t.Fatalf("%s: element %d of block %x is %v, want %v", name, j%s.Elems, b[i*s.Bytes:][:s.Bytes], x, y)
				}
				compared++
			}
		}
		if compared < 200*s.Elems {
			t.Errorf("%s: only %d numbers are compared", name, compared)
		}
	}
	if len(splits()) != len(splitTypes) {
		t.Errorf("%d types can be split, and %d are tested", len(splits()), len(splitTypes))
	}
	if _, ok := LookupSplit("Q6_K"); ok {
		t.Error("Q6_K can be split")
	}
}

// TestSplitsAreOne: every implementation writes the same codes, and nothing else.
func TestSplitsAreOne(t *testing.T) {
	for _, s := range goSplits {
		x, _ := LookupSplit(s.Name)
		per := x.Elems * x.Bits / 8
		b := splitBlocks(x)
		for _, impl := range implementations() {
			split := impl.splits[s.Name]
			if split == nil {
				continue
			}
			for _, n := range []int{0, 1, 2, 7, len(b) / x.Bytes} {
				got, want := bytes.Repeat([]byte{0xA5}, n*per+40), make([]byte, n*per)
				split(got[:n*per], b[:n*x.Bytes])
				s.Codes(want, b[:n*x.Bytes])
				if !bytes.Equal(got[:n*per], want) || bytes.Count(got[n*per:], []byte{0xA5}) != 40 {
					t.Errorf("%s by %s: %d blocks differ", s.Name, impl.name, n)
				}
			}
		}
	}
}

func number32At(b []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}

// TestSplitIsRepacked: streams of types that MLX's groups become are the same blocks again.
func TestSplitIsRepacked(t *testing.T) {
	for _, name := range []string{"Q4_1", "Q5_1", "MXFP4", "NVFP4"} {
		s, _ := LookupSplit(name)
		p, ok := LookupRepack(s.Mode, s.Bits, s.Group, s.Scale)
		if !ok || p.Type != name {
			t.Fatal(name, p.Type)
		}
		var b []byte
		for block := splitBlocks(s); len(block) > 0; block = block[s.Bytes:] {
			if x := block[:s.Bytes]; !splitTypes[name](x) && (s.Scale == "U8" || !badHalf(2, 1)(x) && (wide(x) != 0 || x[1] == 0)) {
				b = append(b, x...)
			}
		}
		codes, scales, biases := pieces(s, b)
		got := make([]byte, len(b))
		if n := p.Repack(got, codes, scales, biases); n != len(codes)/p.Codes {
			t.Errorf("%s: %d of %d units are exact", name, n, len(codes)/p.Codes)
		}
		if !bytes.Equal(got, b) {
			t.Errorf("%s: blocks differ", name)
		}
	}
}

// TestSplitLengths: lengths that do not fit are the caller's bug.
func TestSplitLengths(t *testing.T) {
	for name := range splitTypes {
		s, _ := LookupSplit(name)
		for _, lengths := range [][2]int{{s.Elems * s.Bits / 8, s.Bytes - 1}, {s.Elems*s.Bits/8 + 1, s.Bytes}, {0, s.Bytes}} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: %d bytes of %d", name, lengths[0], lengths[1])
					}
				}()
				s.Codes(make([]byte, lengths[0]), make([]byte, lengths[1]))
			}()
		}
		s.Codes(nil, nil)
		s.Scales(nil, nil)
	}
}

func BenchmarkSplit(b *testing.B) {
	for name := range splitTypes {
		s, _ := LookupSplit(name)
		src := bytes.Repeat(splitBlocks(s), 10)
		codes, scales, biases := pieces(s, src)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				s.Codes(codes, src)
				s.Scales(scales, src)
				if s.Biased {
					s.Biases(biases, src)
				}
			}
		})
	}
}
