package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// specialHalves are scales that arithmetic treats specially; 0x0001 has the effect of a subnormal scale in F32, too.
var specialHalves = []uint16{0, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7C01, 0x7E00, 0xFE00, 0xFFFF}

// randomBlocks fills n blocks with random bytes; in every third one the scales are special.
func randomBlocks(r *rand.Rand, d Decoder, n int) []byte {
	src := make([]byte, n*d.Bytes)
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	for b := 0; b < n; b += 3 {
		for _, f := range d.Fields {
			if f.Width == 2 && f.Count <= 2 {
				for i := range f.Count {
					h := specialHalves[r.IntN(len(specialHalves))]
					binary.LittleEndian.PutUint16(src[b*d.Bytes+f.Offset+2*i:], h)
				}
			}
		}
	}
	return src
}

// expect decodes block by block in plain Go into a slice of its own.
func expect(d Decoder, decode func(dst, src []byte), src []byte) []byte {
	var want []byte
	for block := range slices.Chunk(src, d.Bytes) {
		dst := make([]byte, int(d.To)*d.Elems)
		decode(dst, block)
		want = append(want, dst...)
	}
	return want
}

// TestBlocks decodes any number of blocks at any alignment by every implementation and compares with plain Go, one
// block at a time. Bytes around the output must not change.
func TestBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range slices.Concat(types(), decodersTo(Single)) {
		counts := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33}
		if d.Elems == 1 {
			counts = nil
			for n := range 130 {
				counts = append(counts, n)
			}
		}
		for _, impl := range append(implementationsTo(d.To), dispatched(d.To)) {
			decode := impl.types[d.Name]
			if decode == nil {
				continue
			}
			for i, n := range append(counts, counts...) {
				src := append(make([]byte, i%5), randomBlocks(r, d, n)...)[i%5:]
				want := expect(d, d.Decode, src)
				const guard = 64
				got := bytes.Repeat([]byte{0xA5}, i%3+len(want)+2*guard)
				dst := got[i%3+guard:][:len(want):len(want)]
				decode(dst, src)
				if at := firstDifference(dst, want); at >= 0 {
					size := int(d.To)
					e := at / size
					block := src[e/d.Elems*d.Bytes:][:d.Bytes]
					t.Errorf("%s to %s by %s, %d blocks: element %d of block %d is %x, want %x; block % x",
						d.Name, formats[d.To], impl.name, n, e%d.Elems, e/d.Elems, dst[size*e:][:size], want[size*e:][:size], block)
					break
				}
				clean := bytes.Repeat([]byte{0xA5}, guard)
				if !bytes.HasPrefix(got[i%3:], clean) || !bytes.HasSuffix(got, clean) {
					t.Errorf("%s by %s, %d blocks: writes outside its output", d.Name, impl.name, n)
					break
				}
			}
		}
	}
}

// dispatched is what Lookup returns, as an implementation.
func dispatched(to Float) *implementation {
	impl := &implementation{name: "Lookup", types: map[string]func(dst, src []byte){}}
	for _, t := range types() {
		d, _ := to.Lookup(t.Name)
		impl.types[t.Name] = d.Decode
	}
	return impl
}

// TestComputedNaN holds that no NaN of a block type has a sign or payload, whatever the scales.
func TestComputedNaN(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	seen := false
	for _, d := range types() {
		if d.Elems == 1 {
			continue
		}
		for _, impl := range implementations() {
			decode := impl.types[d.Name]
			if decode == nil {
				continue
			}
			dst := make([]byte, 2*d.Elems*300)
			decode(dst, randomBlocks(r, d, 300))
			for i := 0; i < len(dst); i += 2 {
				if h := binary.LittleEndian.Uint16(dst[i:]); h&0x7FFF > 0x7C00 {
					seen = true
					if h != 0x7E00 {
						t.Fatalf("%s by %s: NaN %#04x", d.Name, impl.name, h)
					}
				}
			}
		}
	}
	if !seen {
		t.Error("no NaN came out at all")
	}
}

func TestTypes(t *testing.T) {
	names := map[string]bool{}
	for _, d := range types() {
		if names[d.Name] || d.Elems <= 0 || d.Bytes <= 0 || d.Decode == nil {
			t.Errorf("%s: bad or double entry", d.Name)
		}
		names[d.Name] = true
		end := 0
		for _, f := range d.Fields {
			if f.Offset < end || f.Count <= 0 || !slices.Contains([]int{2, 4, 8}, f.Width) {
				t.Errorf("%s: bad field %+v", d.Name, f)
			}
			end = f.Offset + f.Width*f.Count
		}
		if end > d.Bytes {
			t.Errorf("%s: fields end at %d of %d", d.Name, end, d.Bytes)
		}
	}
	for _, impl := range implementations() {
		for name := range impl.types {
			if !names[name] {
				t.Errorf("%s has a decoder for unknown type %q", impl.name, name)
			}
		}
		for key := range impl.groups {
			if goGroups()[key] == nil {
				t.Errorf("%s has a decoder for unknown groups %v", impl.name, key)
			}
		}
	}
	if _, ok := Lookup("Q4_2"); ok {
		t.Error("Lookup knows Q4_2")
	}
}

func TestSwap(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"F32", "\x01\x02\x03\x04\x05\x06\x07\x08", "\x04\x03\x02\x01\x08\x07\x06\x05"},
		{"F64", "\x01\x02\x03\x04\x05\x06\x07\x08", "\x08\x07\x06\x05\x04\x03\x02\x01"},
		{"BF16", "\x01\x02\x03\x04", "\x02\x01\x04\x03"},
		{"F8_E4M3", "\x01\x02", "\x01\x02"},
		{"Q5_1", "\x01\x02\x03\x04\x05\x06\x07\x08abcdefghijklmnop", "\x02\x01\x04\x03\x08\x07\x06\x05abcdefghijklmnop"},
	} {
		d, _ := Lookup(c.name)
		b := []byte(c.in)
		d.Swap(b)
		if string(b) != c.want {
			t.Errorf("%s: %q, want %q", c.name, b, c.want)
		}
	}
	for _, d := range types() {
		b := make([]byte, 3*d.Bytes)
		for i := range b {
			b[i] = byte(i*7 + i>>8)
		}
		once := bytes.Clone(b)
		d.Swap(once)
		twice := bytes.Clone(once)
		d.Swap(twice)
		if !bytes.Equal(b, twice) || bytes.Equal(b, once) != (d.Fields == nil) {
			t.Errorf("%s: swapping twice is not the identity, or once is", d.Name)
		}
	}
}

// TestLengths holds that lengths which do not fit are refused before anything is written.
func TestLengths(t *testing.T) {
	refused := func(what string, f func()) {
		t.Helper()
		defer func() {
			if r := recover(); !strings.HasPrefix(fmt.Sprint(r), "kernel: ") { // a fault comes too late
				t.Errorf("%s: accepted: %v", what, r)
			}
		}()
		f()
	}
	for _, d := range dispatchedDecoders() {
		for _, n := range [][2]int{{2*d.Elems - 1, d.Bytes}, {2*d.Elems + 2, d.Bytes}, {2 * d.Elems, 0}, {0, d.Bytes}, {2 * d.Elems, 2 * d.Bytes}} {
			refused(fmt.Sprint(d.Name, n), func() { d.Decode(make([]byte, n[0]), make([]byte, n[1])) })
		}
		if d.Bytes > 1 {
			refused(d.Name+" part of a block", func() { d.Decode(make([]byte, 2*d.Elems), make([]byte, d.Bytes+1)) })
			refused(d.Name+" swapping a part", func() { d.Swap(make([]byte, d.Bytes+1)) })
		}
	}
	g, _ := LookupGroup("affine", 4, 32, "F16")
	for _, n := range [][4]int{{64, 15, 2, 2}, {63, 16, 2, 2}, {64, 16, 1, 2}, {64, 16, 2, 0}, {64, 16, 4, 4}, {0, 16, 2, 2}, {64, 17, 2, 2}, {64, 16, 4, 2}, {64, 16, 2, 4}} {
		refused(fmt.Sprint("group ", n), func() {
			g.Decode(make([]byte, n[0]), make([]byte, n[1]), make([]byte, n[2]), make([]byte, n[3]), 1)
		})
	}
	i2s, _ := I2S("128", 128)
	refused("I2_S", func() { i2s.Decode(make([]byte, 254), make([]byte, 32), 1) })
	_, f, _ := Deinterleave("Q4_0_4_4", 32)
	refused("Q4_0_4_4", func() { f(make([]byte, 72), make([]byte, 71)) })
	refused("one and a half groups of Q4_0_4_4", func() { f(make([]byte, 108), make([]byte, 108)) })
	refused("scaled F8_E4M3", func() { decoders()["F8_E4M3"].Scaled(make([]byte, 3), make([]byte, 1), 1) })
}

func dispatchedDecoders() (all []Decoder) {
	for _, t := range types() {
		d, _ := Lookup(t.Name)
		all = append(all, d)
	}
	return all
}

func TestNoAllocation(t *testing.T) {
	check := func(name string, f func()) {
		if n := testing.AllocsPerRun(10, f); n != 0 {
			t.Errorf("%s: %v allocations per call", name, n)
		}
	}
	for _, d := range dispatchedDecoders() {
		src, dst := make([]byte, 4*d.Bytes), make([]byte, 8*d.Elems)
		check(d.Name, func() { d.Decode(dst, src) })
		single, wide := singles()[d.Name], make([]byte, 16*d.Elems)
		check(d.Name+" to F32", func() { single.Decode(wide, src) })
		check(d.Name+" swap", func() { d.Swap(src) })
	}
	for key := range goGroups() {
		g := lookupGroup(t, key, defaultGroup(key.mode))
		dst, codes, scales, biases := make([]byte, 2*g.Elems), make([]byte, g.Codes), make([]byte, g.Scale), make([]byte, g.Bias)
		check(fmt.Sprint(key), func() { g.Decode(dst, codes, scales, biases, 1) })
		single, wide := lookupGroupTo(t, Single, key, g.Elems), make([]byte, 4*g.Elems)
		check(fmt.Sprint(key, " to F32"), func() { single.Decode(wide, codes, scales, biases, 1) })
	}
	for _, layout := range []string{"128", "64", "rows4", "trinity"} {
		i2s, _ := I2S(layout, 128)
		src, dst := make([]byte, i2s.Bytes), make([]byte, 2*i2s.Elems)
		check("I2_S "+layout, func() { i2s.Decode(dst, src, 1) })
		single, _ := Single.I2S(layout, 128)
		wide := make([]byte, 2*len(dst))
		check("I2_S to F32 "+layout, func() { single.Decode(wide, src, 1) })
	}
	rows, f, _ := Deinterleave("Q4_0_8_8", 64)
	a, b := make([]byte, rows*36), make([]byte, rows*36)
	check("Q4_0_8_8", func() { f(a, b) })
	check("scaled F8_E4M3", func() { decoders()["F8_E4M3"].Scaled(a, b[:len(a)/2], 1) })
}

// FuzzDecoders compares every implementation with plain Go, block by block, on the fuzzer's blocks.
func FuzzDecoders(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for i, d := range types() {
		f.Add(byte(i), randomBlocks(r, d, 9))
	}
	f.Fuzz(func(t *testing.T, which byte, src []byte) {
		d := types()[int(which)%len(types())]
		src = src[:len(src)/d.Bytes*d.Bytes]
		for _, d := range []Decoder{d, decodersTo(Single)[int(which)%len(types())]} {
			want := expect(d, d.Decode, src)
			for _, impl := range append(implementationsTo(d.To), dispatched(d.To)) {
				if decode := impl.types[d.Name]; decode != nil {
					dst := make([]byte, len(want))
					decode(dst, src)
					if at := firstDifference(dst, want); at >= 0 {
						size := int(d.To)
						at := at / size * size
						t.Fatalf("%s to %s by %s: element %d is %x, want %x", d.Name, formats[d.To], impl.name, at/size, dst[at:][:size], want[at:][:size])
					}
				}
			}
		}
	})
}
