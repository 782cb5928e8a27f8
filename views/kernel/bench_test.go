package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// A benchmark step is one read of 1 MiB of a mounted file: fresh source bytes, an output buffer that is used again.
const (
	benchOut  = 1 << 20 // bytes of halves per step
	benchRing = 32      // steps until source bytes come again
)

// decodeAims are the speeds to reach, as shares of memcpy's speed for the same halves. Types whose speed does not
// matter have none.
var decodeAims = map[string]float64{
	"F32": 0.95, "BF16": 0.85,
	"Q8_0": 0.8, "Q4_0": 0.75, "Q4_1": 0.75, "Q5_0": 0.7, "Q5_1": 0.7,
	"Q4_K": 0.9, "Q5_K": 0.8, "Q6_K": 0.7, "Q3_K": 0.5, "Q2_K": 0.6,
	"IQ4_NL": 0.7, "IQ4_XS": 0.7, "MXFP4": 0.7, "NVFP4": 0.6,
	"IQ2_XXS": 0.3, "IQ2_XS": 0.3, "IQ2_S": 0.3, "IQ3_XXS": 0.3, "IQ3_S": 0.3,
	"IQ1_S": 0.5, "IQ1_M": 0.5, "TQ1_0": 0.8, "TQ2_0": 0.8,
}

// BenchmarkDecode reports for every type and implementation
//
//	GB/s         of halves
//	of:memcpy    speed as a share of that of copying the same halves from an equally fresh source, in turn with decoding
//	>=of:memcpy  what that share is to be
func BenchmarkDecode(b *testing.B) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, d := range types() {
		blocks := benchOut / 2 / d.Elems
		src := make([]byte, benchRing*blocks*d.Bytes)
		benchBlocks(r, d, src)
		for _, impl := range implementations() {
			if decode := impl.types[d.Name]; decode != nil {
				measure(b, d.Name, impl, func(dst []byte, step int) { decode(dst, src[step*blocks*d.Bytes:][:blocks*d.Bytes]) })
			}
		}
	}
	benchGroups(b)
	benchI2S(b)
	benchScaledF8(b)
}

// benchGroups measures separate streams of codes, scales and biases.
func benchGroups(b *testing.B) {
	r := rand.New(rand.NewPCG(13, 14))
	var keys []groupKey
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		keys = append(keys, groupKey{"affine", bits, "BF16"})
	}
	keys = append(keys, groupKey{"affine", 4, "F16"}, groupKey{"affine", 4, "F32"},
		groupKey{"mxfp4", 4, "U8"}, groupKey{"mxfp8", 8, "U8"}, groupKey{"nvfp4", 4, "U8"})
	for _, key := range keys {
		g := lookupGroup(b, key, defaultGroup(key.mode))
		n := benchOut / 2 / g.Elems
		codes, scales, biases := randomBytes(r, benchRing*n*g.Codes), make([]byte, benchRing*n*g.Scale), make([]byte, benchRing*n*g.Bias)
		if key.mode == "affine" {
			benchFloats(r, key.scale, scales)
			benchFloats(r, key.scale, biases)
		} else {
			for i := range scales {
				scales[i] = byte(120 + r.IntN(8)) // near 1 as E8M0, large but finite as E4M3
			}
		}
		all := groupDecoders(g, key)
		for _, impl := range implementations() {
			if decode := all[impl.name]; decode != nil {
				measure(b, fmt.Sprintf("%s-%d-%s", key.mode, key.bits, key.scale), impl, func(dst []byte, step int) {
					decode(dst, codes[step*n*g.Codes:][:n*g.Codes], scales[step*n*g.Scale:][:n*g.Scale], biases[step*n*g.Bias:][:n*g.Bias], 1)
				})
			}
		}
	}
}

// benchI2S and benchScaledF8 measure the decoders that take one scale for many elements.
func benchI2S(b *testing.B) {
	src := randomBytes(rand.New(rand.NewPCG(15, 16)), benchRing*benchOut/8)
	for _, n := range []int{32, 16, 4096} {
		for _, impl := range implementations() {
			if impl.picks != nil {
				measure(b, fmt.Sprintf("I2_S-%d", n), impl, func(dst []byte, step int) {
					impl.picks(dst, src[step*benchOut/8:][:benchOut/8], n, [4]uint16{1, 2, 3, 4})
				})
			}
		}
	}
	measure(b, "I2_S-trinity", plain(Half), func(dst []byte, step int) { Half.trinity()(dst, src[step*benchOut/8:][:benchOut/8], 1) })
}

func benchScaledF8(b *testing.B) {
	src := randomBytes(rand.New(rand.NewPCG(17, 18)), benchRing*benchOut/2)
	for i, c := range src {
		src[i] = c &^ 0x40 // no NaN
	}
	for _, run := range []int{128, 4096} { // a scale per 128 columns, and per row
		for _, impl := range implementations() {
			if decode := impl.scaled["F8_E4M3"]; decode != nil {
				measure(b, fmt.Sprintf("F8_E4M3-scale-per-%d", run), impl, func(dst []byte, step int) {
					for at := 0; at < benchOut; at += 2 * run {
						decode(dst[at:][:2*run], src[(step*benchOut+at)/2:][:run], 0.01)
					}
				})
			}
		}
	}
}

// benchHalves returns what memcpy copies.
var benchHalves = sync.OnceValue(func() []byte { return randomBytes(rand.New(rand.NewPCG(19, 20)), benchRing*benchOut) })

// measure times decode and memcpy in turn and reports medians, so that a busy machine shows less.
func measure(b *testing.B, name string, impl *implementation, decode func(dst []byte, step int)) {
	b.Run(name+"/"+impl.name, func(b *testing.B) {
		dst := make([]byte, benchOut)
		halves := benchHalves()
		var decodes, copies [1024]time.Duration
		b.ReportAllocs()
		steps := 0
		for b.Loop() {
			step := steps % benchRing
			start := time.Now()
			decode(dst, step)
			middle := time.Now()
			copy(dst, halves[step*benchOut:][:benchOut])
			decodes[steps%len(decodes)], copies[steps%len(copies)] = middle.Sub(start), time.Since(middle)
			steps++
		}
		median := func(times []time.Duration) float64 {
			times = times[:min(steps, len(times))]
			slices.Sort(times)
			return float64(times[len(times)/2])
		}
		ns := median(decodes[:])
		b.ReportMetric(ns, "ns/op")
		b.ReportMetric(benchOut/ns, "GB/s")
		b.ReportMetric(median(copies[:])/ns, "of:memcpy")
		if aim := decodeAims[name]; aim > 0 {
			b.ReportMetric(aim, ">=of:memcpy")
		}
	})
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// benchFloats fills b with numbers as weights and scales are: neither tiny nor infinite.
func benchFloats(r *rand.Rand, dtype string, b []byte) {
	for len(b) > 0 {
		x := math.Float32bits(float32(r.NormFloat64()) / 16)
		switch dtype {
		case "F64":
			binary.LittleEndian.PutUint64(b, math.Float64bits(r.NormFloat64()/16))
			b = b[8:]
		case "F32":
			binary.LittleEndian.PutUint32(b, x)
			b = b[4:]
		case "BF16":
			binary.LittleEndian.PutUint16(b, uint16(x>>16))
			b = b[2:]
		case "F16":
			binary.LittleEndian.PutUint16(b, half(x))
			b = b[2:]
		}
	}
}

// benchBlocks fills src with blocks whose scales are ordinary numbers.
func benchBlocks(r *rand.Rand, d Decoder, src []byte) {
	if d.Elems == 1 && d.Bytes > 1 {
		benchFloats(r, d.Name, src)
		return
	}
	copy(src, randomBytes(r, len(src)))
	for block := range slices.Chunk(src, d.Bytes) {
		switch {
		case d.Name == "IQ1_M": // d is spread over the upper nibbles
			block[55] = 0x20 | block[55]&15
		case d.Name == "MXFP4":
			block[0] = byte(120 + r.IntN(8))
		case d.Name == "NVFP4":
			for i := range 4 {
				block[i] = byte(0x20 + r.IntN(32))
			}
		case len(d.Fields) > 0: // the scale comes first; a second number is the minimum, more than two are codes
			f := d.Fields[0]
			n := f.Count
			if n > 2 {
				n = 1
			}
			benchFloats(r, map[int]string{2: "F16", 4: "F32"}[f.Width], block[f.Offset:][:f.Width*n])
		}
	}
}
