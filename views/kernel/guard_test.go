//go:build unix

package kernel

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// fenced is memory between two inaccessible pages, as at the ends of a mapped file.
type fenced struct{ all, inside []byte }

func newFenced(t *testing.T, size int) fenced {
	t.Helper()
	page := syscall.Getpagesize()
	size = (size + page - 1) / page * page
	all, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(all); err != nil {
			t.Error(err)
		}
	})
	for _, fence := range [][]byte{all[:page], all[page+size:]} {
		if err := syscall.Mprotect(fence, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return fenced{all, all[page : page+size]}
}

// start and end return n bytes that begin after, or end before, a fence, filled from b.
func (f fenced) start(b []byte) []byte {
	s := f.inside[:len(b):len(b)]
	copy(s, b)
	return s
}

func (f fenced) end(b []byte) []byte {
	s := f.inside[len(f.inside)-len(b):]
	copy(s, b)
	return s
}

// TestFences decodes blocks that touch the end or the beginning of mapped memory: a byte read or written outside
// would crash the test.
func TestFences(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	in, out, in2, in3 := newFenced(t, 1<<16), newFenced(t, 1<<16), newFenced(t, 1<<12), newFenced(t, 1<<12)
	for _, d := range slices.Concat(types(), decodersTo(Single)) {
		for _, impl := range implementationsTo(d.To) {
			decode := impl.types[d.Name]
			if decode == nil {
				continue
			}
			for n := range 40 {
				src, dst := randomBlocks(r, d, n), make([]byte, int(d.To)*n*d.Elems)
				decode(out.end(dst), in.end(src))
				decode(out.start(dst), in.start(src))
			}
		}
	}
	for key := range goGroups() {
		sizes := []int{8, 32, 64, 96, 128}
		if key.mode != "affine" {
			sizes = []int{fixedGroup[key.mode]}
		}
		for _, size := range sizes {
			g := lookupGroup(t, key, size)
			for _, decode := range groupDecoders(g, key) {
				for n := range 20 {
					dst, codes := make([]byte, 2*n*g.Elems), randomBytes(r, n*g.Codes)
					scales, biases := randomBytes(r, n*g.Scale), randomBytes(r, n*g.Bias)
					decode(out.end(dst), in.end(codes), in2.end(scales), in3.end(biases), 1)
					decode(out.start(dst), in.start(codes), in2.start(scales), in3.start(biases), 1)
				}
			}
		}
	}
	for _, impl := range implementations() {
		for key, encode := range impl.encoders {
			for n := range 40 {
				if e, ok := LookupEncoderFrom(key.to, key.from); ok {
					dst, src := make([]byte, n*e.Bytes), randomBytes(r, n*e.In)
					encode(out.end(dst), in.end(src))
					encode(out.start(dst), in.start(src))
				}
			}
		}
		for name, split := range impl.splits {
			for n := range 40 {
				s, _ := LookupSplit(name)
				dst, src := make([]byte, n*s.Elems*s.Bits/8), randomBytes(r, n*s.Bytes)
				split(out.end(dst), in.end(src))
				split(out.start(dst), in.start(src))
			}
		}
		for key := range impl.repacks {
			p, _ := LookupRepack(key.mode, key.bits, defaultGroup(key.mode), key.scale)
			repack := repackers(p, key, defaultGroup(key.mode))[impl.name]
			for n := range 40 {
				dst, codes := make([]byte, n*p.Bytes), randomBytes(r, n*p.Codes)
				scales, biases := make([]byte, n*p.Scale), make([]byte, n*p.Bias)
				repack(out.end(dst), in.end(codes), in2.end(scales), in3.end(biases))
				repack(out.start(dst), in.start(codes), in2.start(scales), in3.start(biases))
			}
		}
	}
	if impl := acceleratedSingle(); impl != nil {
		for n := 1; n < 80; n++ {
			if impl.singlePicks != nil {
				dst, src := make([]byte, 32*n), randomBytes(r, 2*n)
				impl.singlePicks(out.end(dst), in.end(src), n, [4]uint32{1, 2, 3, 4})
				impl.singlePicks(out.start(dst), in.start(src), n, [4]uint32{1, 2, 3, 4})
			}
			for key, decode := range impl.groups {
				size := defaultGroup(key.mode)
				g := lookupGroupTo(t, Single, key, size)
				n := n % 20
				dst, codes := make([]byte, 4*n*g.Elems), randomBytes(r, n*g.Codes)
				scales, biases := randomBytes(r, n*g.Scale), randomBytes(r, n*g.Bias)
				decode(out.end(dst), in.end(codes), in2.end(scales), in3.end(biases), 1, size)
				decode(out.start(dst), in.start(codes), in2.start(scales), in3.start(biases), 1, size)
			}
			for _, decode := range impl.scaled {
				dst, src := make([]byte, 4*n), randomBytes(r, n)
				decode(out.end(dst), in.end(src), 0.5)
				decode(out.start(dst), in.start(src), 0.5)
			}
		}
	}
	for _, impl := range implementations() {
		for n := 1; n < 80; n++ {
			for _, decode := range impl.scaled {
				dst, src := make([]byte, 2*n), randomBytes(r, n)
				decode(out.end(dst), in.end(src), 0.5)
				decode(out.start(dst), in.start(src), 0.5)
			}
			if impl.picks != nil {
				dst, src := make([]byte, 16*n), randomBytes(r, 2*n)
				impl.picks(out.end(dst), in.end(src), n, [4]uint16{1, 2, 3, 4})
				impl.picks(out.start(dst), in.start(src), n, [4]uint16{1, 2, 3, 4})
			}
		}
	}
}

// TestRegisters holds that only kernels for AVX-512 use registers that exist only there: the generator takes such a
// register when it runs out of others, and the assembler accepts it for some instructions. Kernels for AVX-512 use only
// its base part, because detection checks only that.
func TestRegisters(t *testing.T) {
	text, err := os.ReadFile("kernel_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	wide, parts := regexp.MustCompile(`\b(?:[XY](?:1[6-9]|[23][0-9])|Z[0-9]+)\b`), regexp.MustCompile(`\bAVX512(?:[A-EG-Z]\w*|F\w+)`)
	for function := range strings.SplitSeq(string(text), "\n// func ") {
		name, _, _ := strings.Cut(function, "(")
		if r := wide.FindString(function); r != "" && !strings.HasSuffix(name, "AVX512") {
			t.Errorf("%s uses %s", name, r)
		}
		if r := parts.FindString(function); r != "" {
			t.Errorf("%s requires %s", name, r)
		}
	}
}
