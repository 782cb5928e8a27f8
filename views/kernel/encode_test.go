package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSingles holds decoding to F32 to decoding to half: every type's F32 rounds to its half.
func TestSingles(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	check := func(name string, elems int, to func(to Float, dst []byte)) {
		t.Helper()
		h, f, rounded := make([]byte, 2*elems), make([]byte, 4*elems), make([]byte, 2*elems)
		to(Half, h)
		to(Single, f)
		f32(rounded, f, Half)
		if at := firstDifference(rounded, h); at >= 0 {
			t.Errorf("%s: element %d is %x as F32 and %x as half", name, at/2, f[at/2*4:][:4], h[at&^1:][:2])
		}
	}
	for _, d := range types() {
		for _, n := range []int{0, 1, 2, 5, 31, 32, 33, 69} {
			src := randomBlocks(r, d, n)
			if d.Name == "F16" {
				canonicalNaN(src)
			}
			check(d.Name, n*d.Elems, func(to Float, dst []byte) {
				d, _ := to.Lookup(d.Name)
				d.Decode(dst, src)
			})
			for _, scale := range []float32{0.01, -3e4, 0, float32(math.Inf(1)), float32(math.NaN()), 1e-42, 1e38} {
				if d.Scaled != nil {
					check(d.Name+" scaled", n, func(to Float, dst []byte) {
						d, _ := to.Lookup(d.Name)
						d.Scaled(dst, src, scale)
					})
				}
			}
		}
	}
	for key := range goGroups() {
		g := lookupGroup(t, key, defaultGroup(key.mode))
		for n := range 9 {
			codes, scales, biases := randomBytes(r, n*g.Codes), randomBytes(r, n*g.Scale), randomBytes(r, n*g.Bias)
			check(fmt.Sprint(key), n*g.Elems, func(to Float, dst []byte) {
				g, _ := to.LookupGroup(key.mode, key.bits, g.Elems, key.scale)
				g.Decode(dst, codes, scales, biases, 0.7)
			})
		}
	}
	for _, layout := range I2SLayouts {
		for _, d := range []float32{0.3, float32(math.Inf(1))} {
			src := randomBytes(r, 256)
			check("I2_S "+layout, 1024, func(to Float, dst []byte) {
				k, _ := to.I2S(layout, 128)
				k.Decode(dst, src, d)
			})
		}
	}
}

// TestSinglesBySpec compares every implementation with plain Go, and F16 and BF16 with all of their patterns.
func TestSinglesBySpec(t *testing.T) {
	var all []byte
	for h := range 1 << 16 {
		all = binary.LittleEndian.AppendUint16(all, uint16(h))
	}
	for name, want := range map[string]func(h uint16) uint32{
		"BF16": func(h uint16) uint32 { return uint32(h) << 16 },
		"F16":  func(h uint16) uint32 { return math.Float32bits(quiet(widen(h))) },
	} {
		d, _ := Single.Lookup(name)
		for _, decode := range []func(dst, src []byte){d.Decode, func(dst, src []byte) { d.body(dst, src, Single) }} {
			dst := make([]byte, 2*len(all))
			decode(dst, all)
			for h := range 1 << 16 {
				if got, want := binary.LittleEndian.Uint32(dst[4*h:]), want(uint16(h)); got != want {
					t.Fatalf("%s %#04x is %#08x, want %#08x", name, h, got, want)
				}
			}
		}
	}
	if acceleratedSingle() == nil {
		return
	}
	r := rand.New(rand.NewPCG(33, 34))
	for name, scaled := range acceleratedSingle().scaled {
		for n := range 100 {
			src := randomBytes(r, n)
			for _, scale := range []float32{1, -0.003, 1e-40, 3e38, 0} {
				got, want := make([]byte, 4*n), make([]byte, 4*n)
				scaled(got, src, scale)
				typeOf(name).scaled(want, src, scale, Single)
				if at := firstDifference(got, want); at >= 0 {
					t.Fatalf("%s times %g, %d codes: %#02x is % x, want % x", name, scale, n, src[at/4], got[at&^3:][:4], want[at&^3:][:4])
				}
			}
		}
	}
}

// TestSingleGroups compares groups as F32 by every implementation with plain Go, the bits of infinities and NaNs too.
func TestSingleGroups(t *testing.T) {
	if acceleratedSingle() == nil {
		t.Skip("plain Go is all there is")
	}
	r := rand.New(rand.NewPCG(47, 48))
	for key, decode := range acceleratedSingle().groups {
		sizes := []int{32, 64, 96, 128}
		if size := fixedGroup[key.mode]; size != 0 {
			sizes = []int{size}
		}
		for _, group := range sizes {
			g := lookupGroup(t, key, group)
			for n := range 40 {
				codes, scales, biases := randomBytes(r, n*g.Codes), randomBytes(r, n*g.Scale), randomBytes(r, n*g.Bias)
				if n%2 == 0 && key.mode == "affine" {
					benchFloats(r, key.scale, scales)
				}
				factor := []float32{1, -0.7, 1e-40, 3e38, float32(math.Inf(1))}[n%5]
				got, want := make([]byte, 4*n*group), make([]byte, 4*n*group)
				decode(got, codes, scales, biases, factor, group)
				goSingles()[key](want, codes, scales, biases, factor, group)
				if at := firstDifference(got, want); at >= 0 {
					t.Fatalf("%v in groups of %d: number %d of %d groups is % x, want % x", key, group, at/4, n, got[at&^3:][:4], want[at&^3:][:4])
				}
			}
		}
	}
}

// refQuantise is ggml's quantisation of a block in other words: in F64 where that rounds to the same.
func refQuantise(name string, x []float32) []byte {
	amax, first := float32(0), float32(0)
	for _, v := range x {
		if a := float32(math.Abs(float64(v))); a > amax {
			amax, first = a, v
		}
	}
	d := amax / 127
	if name == "Q4_0" {
		d = first / -8
	}
	id := float32(0)
	if d != 0 {
		id = 1 / d
	}
	out := binary.LittleEndian.AppendUint16(nil, refHalf(math.Float32bits(d)))
	codes := make([]byte, 32)
	for i, v := range x {
		p := float32(v * id)
		if name == "Q8_0" {
			codes[i] = byte(int(math.Round(float64(p))))
		} else {
			codes[i] = byte(min(15, int(math.Trunc(float64(float32(p+8.5))))))
		}
	}
	if name == "Q8_0" {
		return append(out, codes...)
	}
	for i, c := range codes[:16] {
		out = append(out, c|codes[i+16]<<4)
	}
	return out
}

// quantiseBlocks returns blocks of F32 that quantising is hard for: ties, equal magnitudes of both signs, zeros of
// both signs, and magnitudes from the smallest to the largest.
func quantiseBlocks(r *rand.Rand, n int) (blocks [][]float32) {
	for i := range n {
		x := make([]float32, 32)
		scale := float32(math.Ldexp(1+r.Float64(), r.IntN(200)-90))
		for j := range x {
			switch i % 5 {
			case 0:
				x[j] = scale * float32(r.NormFloat64())
			case 1: // halves of codes of Q8_0, and the float next to them
				x[j] = float32(r.IntN(255)-127) / 2 * scale
				x[j] = math.Float32frombits(math.Float32bits(x[j]) + uint32(r.IntN(3)-1)*min(1, math.Float32bits(x[j])))
			case 2: // few magnitudes
				x[j] = scale * float32(r.IntN(5)-2)
			case 3: // BF16
				x[j] = math.Float32frombits(math.Float32bits(scale*float32(r.NormFloat64())) &^ 0xFFFF)
			case 4:
				x[j] = float32(math.Copysign(0, float64(r.IntN(2))-0.5))
			}
		}
		if i%5 == 1 {
			x[r.IntN(32)] = 127 * scale
		}
		blocks = append(blocks, x)
	}
	return blocks
}

func singlesOf(blocks [][]float32) (b []byte) {
	for _, x := range blocks {
		for _, v := range x {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	return b
}

// encodersOf returns the encoders of all implementations for a type, and what LookupEncoder gives.
func encodersOf(name string) map[string]func(dst, src []byte) {
	e, _ := LookupEncoder(name)
	all := map[string]func(dst, src []byte){"Lookup": e.Encode}
	for _, impl := range implementations() {
		if f := impl.encoders[encoderKey{name, "F32"}]; f != nil {
			all[impl.name] = f
		}
	}
	return all
}

func TestQuantise(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	blocks := quantiseBlocks(r, 20000)
	src := singlesOf(blocks)
	for _, name := range []string{"Q8_0", "Q4_0"} {
		e, _ := LookupEncoder(name)
		for impl, encode := range encodersOf(name) {
			dst := make([]byte, len(blocks)*e.Bytes)
			encode(dst, src)
			for i, x := range blocks {
				if got, want := dst[i*e.Bytes:][:e.Bytes], refQuantise(name, x); !bytes.Equal(got, want) {
					t.Fatalf("%s by %s: %v is\n% x, want\n% x", name, impl, x, got, want)
				}
			}
		}
	}
}

// TestQuantiseSpecial holds what numbers that are not finite, and the smallest ones, become: the same everywhere.
func TestQuantiseSpecial(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 38))
	special := []uint32{0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0xFF80_0001, 1, 0x8000_0001, 0x007F_FFFF, 0x7F7F_FFFF, 0xFF7F_FFFF, 0x0080_0000, 0x0F80_0000, 0x0F7F_FFFF}
	blocks := quantiseBlocks(r, 5000)
	for _, x := range blocks {
		if r.IntN(2) == 0 {
			clear(x)
		}
		for range 1 + r.IntN(3) {
			x[r.IntN(32)] = math.Float32frombits(special[r.IntN(len(special))])
		}
	}
	src := singlesOf(blocks)
	for _, e := range encoderTypes {
		if e.Encode == nil {
			continue
		}
		want := make([]byte, len(src)/4/e.Elems*e.Bytes)
		e.Encode(want, src)
		for impl, encode := range encodersOf(e.Name) {
			got := make([]byte, len(want))
			encode(got, src)
			if at := firstDifference(got, want); at >= 0 {
				block := at / e.Bytes
				t.Errorf("%s by %s: block %d is % x, want % x", e.Name, impl, block, got[block*e.Bytes:][:e.Bytes], want[block*e.Bytes:][:e.Bytes])
			}
		}
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		name string
		x    []float32
		want []byte // d and the first codes
	}{
		{"Q8_0", []float32{1, inf}, []byte{0, 0x7C, 0, 0}},
		{"Q8_0", []float32{nan, 127}, []byte{0, 0x3C, 0, 127}},
		{"Q8_0", []float32{1, 1e-45}, []byte{8, 0x20, 127, 0}},
		{"Q8_0", []float32{1e-45}, []byte{0, 0, 0, 0}},
		{"Q8_0", []float32{1e-42, -1e-42}, []byte{0, 0, 0, 0}}, // 1/d is infinite
		{"Q4_0", []float32{1, -inf}, []byte{0, 0x7C, 0x88, 0x80}},
		{"Q4_0", []float32{nan, -8}, []byte{0, 0x3C, 0x80, 0x80}},
		{"Q4_0", []float32{8, -8}, []byte{0, 0xBC, 0x80, 0x8F}},
		{"Q4_0", []float32{-8, 8}, []byte{0, 0x3C, 0x80, 0x8F}},
		{"Q4_0", []float32{0, float32(math.Copysign(0, -1))}, []byte{0, 0x80, 0x88, 0x88}},
	} {
		x := append(slices.Clone(c.x), make([]float32, 32-len(c.x))...)
		for impl, encode := range encodersOf(c.name) {
			e, _ := LookupEncoder(c.name)
			dst := make([]byte, e.Bytes)
			encode(dst, singlesOf([][]float32{x}))
			if !bytes.HasPrefix(dst, c.want) {
				t.Errorf("%s of %v by %s: % x, want % x", c.name, c.x, impl, dst, c.want)
			}
		}
	}
}

// TestQuantiseFrom holds that encoders of halves give the same blocks as encoders of the same numbers
// in F32, for all bit patterns.
func TestQuantiseFrom(t *testing.T) {
	r := rand.New(rand.NewPCG(45, 46))
	for _, from := range []string{"F16", "BF16"} {
		d, _ := Single.Lookup(from)
		src := randomBytes(r, 64*5000)
		for i := 0; i < len(src); i += 64 {
			if mask := uint16(0xFFFF); i%3 > 0 { // of one sign and exponent, without, and of few magnitudes
				mask = []uint16{0, 0xF3FF, 0x8700, 0xFF7F &^ 0x4000}[i/64%4]
				for j := i; j < i+64; j += 2 {
					binary.LittleEndian.PutUint16(src[j:], binary.LittleEndian.Uint16(src[j:])&mask|0x2000)
				}
			}
		}
		for h := range 1 << 16 {
			src = binary.LittleEndian.AppendUint16(src, uint16(h))
		}
		f := make([]byte, 2*len(src))
		d.Decode(f, src)
		for _, name := range []string{"Q8_0", "Q4_0"} {
			e, ok := LookupEncoderFrom(name, from)
			if !ok {
				continue // plain Go has none
			}
			want, got := make([]byte, len(src)/64*e.Bytes), make([]byte, len(src)/64*e.Bytes)
			goEncoders()[encoderKey{name, "F32"}](want, f)
			e.Encode(got, src)
			if at := firstDifference(got, want); at >= 0 {
				block := at / e.Bytes
				t.Errorf("%s of %s: block %d, % x, is\n% x, want\n% x", name, from, block, src[64*block:][:64], got[block*e.Bytes:][:e.Bytes], want[block*e.Bytes:][:e.Bytes])
			}
		}
	}
}

func TestToBF16(t *testing.T) {
	var src []byte
	var want []uint16
	add := func(b uint32) {
		src = binary.LittleEndian.AppendUint32(src, b)
		x := math.Float32frombits(b)
		low, high := b&^0xFFFF, b&^0xFFFF+0x1_0000
		up := b&0xFFFF > 0x8000 || b&0xFFFF == 0x8000 && b>>16&1 == 1
		switch {
		case x != x:
			want = append(want, uint16(b>>16)|0x40)
		case up:
			want = append(want, uint16(high>>16))
		default:
			want = append(want, uint16(low>>16))
		}
	}
	for h := range uint32(1 << 16) {
		for _, low := range []uint32{0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF} {
			add(h<<16 | low)
		}
	}
	for impl, encode := range encodersOf("BF16") {
		dst := make([]byte, len(src)/2)
		encode(dst, src)
		for i, want := range want {
			if got := binary.LittleEndian.Uint16(dst[2*i:]); got != want {
				t.Fatalf("%s: %x is %#04x, want %#04x", impl, src[4*i:][:4], got, want)
			}
		}
	}
}

// repackers returns the repackings of all implementations, and what LookupRepack gives.
func repackers(p Repack, key groupKey, group int) map[string]func(dst, codes, scales, biases []byte) int {
	all := map[string]func(dst, codes, scales, biases []byte) int{"Lookup": p.Repack}
	for _, impl := range implementations() {
		if f := impl.repacks[key]; f != nil {
			all[impl.name] = func(dst, codes, scales, biases []byte) int { return f(dst, codes, scales, biases, group) }
		}
	}
	return all
}

// TestRepack repacks random groups, also some that the type cannot hold, and decodes both sides.
func TestRepack(t *testing.T) {
	r := rand.New(rand.NewPCG(39, 40))
	for key := range goRepacks() {
		groups := []int{fixedGroup[key.mode]}
		if key.mode == "affine" {
			groups = []int{32, 64, 96, 128}
		}
		for _, group := range groups {
			p, ok := LookupRepack(key.mode, key.bits, group, key.scale)
			if !ok {
				t.Fatalf("no repacking for %v", key)
			}
			g := lookupGroup(t, key, group)
			from, _ := Single.LookupGroup(key.mode, key.bits, group, key.scale)
			to, _ := Single.Lookup(p.Type)
			for _, n := range []int{0, 1, 2, 3, 7, 31, 32, 33, 64, 65, 127, 128, 129, 130, 255, 257, 300} {
				codes, scales, biases := randomBytes(r, n*p.Codes), make([]byte, n*p.Scale), make([]byte, n*p.Bias)
				if key.mode == "affine" {
					for _, b := range [][]byte{scales, biases} {
						for i := 0; i < len(b); i += g.Scale {
							h := []uint16{uint16(r.Uint32()), 0, 0x3C00, 0x1234, 0xFBFF}[r.IntN(5)]
							b := b[i:]
							switch key.scale {
							case "F16":
								binary.LittleEndian.PutUint16(b, h)
							case "BF16":
								binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(widen(h))>>16)&^7)
							case "F32":
								binary.LittleEndian.PutUint32(b, math.Float32bits(widen(h)))
							}
						}
					}
				} else {
					for i := range scales {
						scales[i] = byte(r.IntN(0x7F))
						if key.mode == "mxfp8" {
							scales[i] = byte(10 + r.IntN(245))
						}
					}
				}
				if n > 0 && r.IntN(2) == 0 { // one that does not fit, with codes of zero or without
					i := r.IntN(n)
					if r.IntN(2) == 0 {
						clear(codes[i*p.Codes:][:p.Codes])
					}
					one := scales[i*p.Scale:][:p.Scale]
					if r.IntN(3) == 0 && p.Bias > 0 {
						one = biases[i*p.Bias:][:p.Bias]
					}
					switch key.scale {
					case "U8":
						one[r.IntN(len(one))] = 0xFF
						if key.mode == "mxfp8" {
							one[0] = []byte{0xFF, 0, 9}[r.IntN(3)]
						}
					case "F32":
						binary.LittleEndian.PutUint32(one, []uint32{0x3300_0001, 0x3F80_0001, 0x7F7F_FFFF, 0x7F80_0000, 0x7FC0_0000}[r.IntN(5)])
					case "BF16":
						binary.LittleEndian.PutUint16(one, []uint16{0x3301, 0x4780, 0x7F7F, 0x7F80, 0x7FC0}[r.IntN(5)])
					}
				}
				exact := -1
				for impl, repack := range repackers(p, key, group) {
					dst := make([]byte, n*p.Bytes)
					got := repack(dst, codes, scales, biases)
					if exact < 0 {
						exact = got
					}
					if got != exact || got > n || p.Scales(scales, biases) > got {
						t.Fatalf("%v by %s: %d of %d units are exact, want %d; by scales %d", key, impl, got, n, exact, p.Scales(scales, biases))
					}
					want, have := make([]byte, 4*got*p.Elems), make([]byte, 4*got*p.Elems)
					from.Decode(want, codes[:got*p.Codes], scales[:got*p.Scale], biases[:got*p.Bias], 1)
					to.Decode(have, dst[:got*p.Bytes])
					for i := 0; i < len(want); i += 4 {
						a, b := numberF32(want[i:]), numberF32(have[i:])
						if a != b && (a == a || b == b) {
							t.Fatalf("%v by %s: number %d of %d units is %v, want %v", key, impl, i/4, n, b, a)
						}
					}
				}
				if exact < n { // and it is not refused for nothing
					s, b := scales[exact*p.Scale:][:p.Scale], biases[exact*p.Bias:][:p.Bias]
					if p.Scales(s, b) != 0 {
						t.Fatalf("%v: unit %d of % x, % x is refused", key, exact, s, b)
					}
				}
			}
		}
	}
}

// TestExactHalves compares with the definition for every pattern of a scale.
func TestExactHalves(t *testing.T) {
	for h := range 1 << 16 {
		x := math.Float32frombits(uint32(h) << 16)
		want := widen(refHalf(math.Float32bits(x))) == x || x != x
		for _, at := range []int{0, 1, 3, 4, 6, 31, 32, 40, 99, 100} {
			b := bytes.Repeat([]byte{0x80, 0x3F}, 101)
			binary.LittleEndian.PutUint16(b[2*at:], uint16(h))
			n := 101
			if !want {
				n = at
			}
			if got, plain := exactHalves("BF16", b), goExactHalves("BF16", b); got != n || plain != n {
				t.Fatalf("BF16 %#04x at %d: %d, in plain Go %d", h, at, got, plain)
			}
		}
	}
	for _, e := range roundingEdges() {
		x := math.Float32frombits(e)
		want := 0
		if widen(refHalf(e)) == x || x != x {
			want = 1
		}
		b := bytes.Repeat([]byte{0, 0, 0x80, 0x3F}, 17)
		binary.LittleEndian.PutUint32(b[4*7:], e)
		want = 7 + 10*want
		if got, plain := exactHalves("F32", b), goExactHalves("F32", b); got != want || plain != want {
			t.Fatalf("F32 %#08x: %d, in plain Go %d", e, got, plain)
		}
	}
}

func FuzzEncoders(f *testing.F) {
	r := rand.New(rand.NewPCG(41, 42))
	for _, e := range encoderTypes {
		f.Add(e.Name, singlesOf(quantiseBlocks(r, 5)))
	}
	f.Fuzz(func(t *testing.T, name string, src []byte) {
		e, ok := LookupEncoder(name)
		if !ok || e.Encode == nil {
			return
		}
		src = src[:len(src)/4/e.Elems*e.Elems*4]
		want := make([]byte, len(src)/4/e.Elems*e.Bytes)
		goEncoders()[encoderKey{name, "F32"}](want, src)
		for impl, encode := range encodersOf(name) {
			got := make([]byte, len(want))
			if encode(got, src); !bytes.Equal(got, want) {
				t.Errorf("%s by %s: %x, want %x", name, impl, got, want)
			}
		}
	})
}

// TestEncodersContract holds encoders and repackings to the lengths they get, and to making no garbage.
func TestEncodersContract(t *testing.T) {
	refused := func(name string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: lengths that do not fit are not refused", name)
			}
		}()
		f()
	}
	check := func(name string, f func()) {
		t.Helper()
		if n := testing.AllocsPerRun(20, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	r := rand.New(rand.NewPCG(43, 44))
	for _, d := range rows {
		d, _ := Single.Lookup(d.Name)
		src, dst := make([]byte, 4*d.Bytes), make([]byte, 16*d.Elems)
		check(d.Name+" as F32", func() { d.Decode(dst, src) })
		refused(d.Name+" as F32", func() { d.Decode(dst[:8*d.Elems], src) })
	}
	for key := range goSingles() {
		g, _ := Single.LookupGroup(key.mode, key.bits, defaultGroup(key.mode), key.scale)
		dst, codes, scales, biases := make([]byte, 4*g.Elems), make([]byte, g.Codes), make([]byte, g.Scale), make([]byte, g.Bias)
		check(fmt.Sprint(key, " as F32"), func() { g.Decode(dst, codes, scales, biases, 1) })
		refused(fmt.Sprint(key, " as F32"), func() { g.Decode(dst[:2*g.Elems], codes, scales, biases, 1) })
	}
	for key, e := range encoders() {
		if e.Encode == nil {
			continue
		}
		dst, src := make([]byte, 40*e.Bytes), randomBytes(r, 40*e.In)
		check(fmt.Sprint(key), func() { e.Encode(dst, src) })
		refused(fmt.Sprint(key), func() { e.Encode(dst[1:], src) })
	}
	for _, e := range encoderTypes {
		e, _ := LookupEncoder(e.Name)
		src := singlesOf(quantiseBlocks(r, 40))
		dst := make([]byte, len(src)/4/e.Elems*e.Bytes)
		if e.Weigh != nil {
			importance := make([]float32, len(src)/4)
			for i := range importance {
				importance[i] = float32(r.ExpFloat64())
			}
			check(e.Name+" by an importance", func() { e.Weigh(dst, src, importance) })
		}
		if e.Encode == nil {
			continue
		}
		check(e.Name, func() { e.Encode(dst, src) })
		refused(e.Name, func() { e.Encode(dst[1:], src) })
		refused(e.Name, func() { e.Encode(dst, src[4*e.Elems:]) })
		refused(e.Name, func() { e.Encode(dst, src[:len(src)-1]) })
	}
	for key := range goRepacks() {
		p, _ := LookupRepack(key.mode, key.bits, defaultGroup(key.mode), key.scale)
		const n = 300
		dst, codes, scales, biases := make([]byte, n*p.Bytes), randomBytes(r, n*p.Codes), bytes.Repeat([]byte{0x3C}, n*p.Scale), make([]byte, n*p.Bias)
		check(fmt.Sprint(key), func() { p.Repack(dst, codes, scales, biases) })
		refused(fmt.Sprint(key), func() { p.Repack(dst[1:], codes, scales, biases) })
		refused(fmt.Sprint(key), func() { p.Repack(dst, codes, scales[p.Scale:], biases) })
		refused(fmt.Sprint(key), func() { p.Repack(dst, codes[p.Codes:], scales, biases) })
		if p.Bias > 0 {
			refused(fmt.Sprint(key), func() { p.Repack(dst, codes, scales, nil) })
		}
	}
	for _, c := range []groupKey{{"affine", 6, "BF16"}, {"affine", 8, "F16"}, {"affine", 7, "F16"}, {"affine", 4, "F64"}, {"other", 4, "U8"}} {
		if p, ok := LookupRepack(c.mode, c.bits, 64, c.scale); ok {
			t.Errorf("%v is repacked as %s", c, p.Type)
		}
	}
	if _, ok := LookupRepack("affine", 4, 40, "F16"); ok {
		t.Error("groups of 40 are repacked into blocks of 32")
	}
}
