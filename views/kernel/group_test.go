package kernel

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// readSafetensors reads dtypes and data of a well-formed safetensors file.
func readSafetensors(t testing.TB, path string) (dtypes map[string]string, data map[string][]byte) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 8 + int(binary.LittleEndian.Uint64(file))
	var header map[string]struct {
		DType   string `json:"dtype"`
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(file[8:n], &header); err != nil {
		t.Fatal(err)
	}
	dtypes, data = map[string]string{}, map[string][]byte{}
	for name, h := range header {
		dtypes[name], data[name] = h.DType, file[n:][h.Offsets[0]:h.Offsets[1]]
	}
	return dtypes, data
}

// defaultGroup is a group size that every decoder of a mode has.
func defaultGroup(mode string) int {
	if mode == "affine" {
		return 64
	}
	return fixedGroup[mode]
}

func lookupGroup(t testing.TB, key groupKey, size int) Group {
	t.Helper()
	return lookupGroupTo(t, Half, key, size)
}

func lookupGroupTo(t testing.TB, to Float, key groupKey, size int) Group {
	t.Helper()
	g, ok := to.LookupGroup(key.mode, key.bits, size, key.scale)
	if !ok {
		t.Fatalf("no decoder for %v in groups of %d", key, size)
	}
	return g
}

// groupDecoders returns the decoders of all implementations for a group, and what LookupGroup gives.
func groupDecoders(g Group, key groupKey) map[string]func(dst, codes, scales, biases []byte, factor float32) {
	all := map[string]func(dst, codes, scales, biases []byte, factor float32){"Lookup": g.Decode}
	for _, impl := range implementationsTo(g.To) {
		if f := impl.groups[key]; f != nil && (impl.name == "go" || g.Elems%32 == 0 || g.Mode == "nvfp4") {
			all[impl.name] = func(dst, codes, scales, biases []byte, factor float32) {
				f(dst, codes, scales, biases, factor, g.Elems)
			}
		}
	}
	return all
}

// TestGoldenGroups decodes what MLX quantised, and its code tables, and compares with MLX's F32 values rounded.
func TestGoldenGroups(t *testing.T) {
	for to, name := range formats {
		t.Run(name, func(t *testing.T) { testGoldenGroups(t, to, readSums(t, "../../testdata/mlx/"+name+".sha256")) })
	}
}

func testGoldenGroups(t *testing.T, to Float, sums map[string]string) {
	cases := 0
	for _, file := range []string{"quant-cases", "code-tables"} {
		dtypes, data := readSafetensors(t, "../../testdata/mlx/"+file+".safetensors")
		for name := range dtypes {
			name, ok := strings.CutSuffix(name, ".weight")
			if !ok {
				continue
			}
			cases++
			key, size := groupKey{scale: dtypes[name+".scales"]}, 0
			if file == "quant-cases" {
				mode, rest, _ := strings.Cut(name, "_")
				key.mode = mode
				if _, err := fmt.Sscanf(rest, "b%d_g%d", &key.bits, &size); err != nil {
					t.Fatal(name, err)
				}
			} else {
				key.mode = strings.Split(name, "_")[1]
				key.bits = map[string]int{"mxfp4": 4, "mxfp8": 8, "nvfp4": 4}[key.mode]
				size = fixedGroup[key.mode]
			}
			g := lookupGroupTo(t, to, key, size)
			codes := data[name+".weight"]
			for impl, decode := range groupDecoders(g, key) {
				dst := make([]byte, len(codes)/g.Codes*g.Elems*int(to))
				decode(dst, codes, data[name+".scales"], data[name+".biases"], 1)
				if sum := sha256.Sum256(dst); hex.EncodeToString(sum[:]) != sums[name] {
					t.Errorf("%s by %s: sum differs", name, impl)
				}
			}
		}
	}
	if cases != len(sums) {
		t.Errorf("%d cases, %d sums", cases, len(sums))
	}
}

// TestAffineBitStream decodes single codes: every code at every place, all other bits set to its complement.
func TestAffineBitStream(t *testing.T) {
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		key := groupKey{"affine", bits, "F16"}
		g := lookupGroup(t, key, 32)
		one, zero := []byte{0, 0x3C}, []byte{0, 0}
		for impl, decode := range groupDecoders(g, key) {
			for place := range 32 {
				for code := range 1 << bits {
					codes := make([]byte, g.Codes)
					for i := range 32 * bits {
						bit := ^code >> (i % bits) & 1
						if i/bits == place {
							bit = code >> (i % bits) & 1
						}
						codes[i/8] |= byte(bit << (i % 8))
					}
					dst := make([]byte, 64)
					decode(dst, codes, one, zero, 1)
					got := widen(binary.LittleEndian.Uint16(dst[2*place:]))
					other := widen(binary.LittleEndian.Uint16(dst[2*((place+1)%32):]))
					if got != float32(code) || other != float32(^code&(1<<bits-1)) {
						t.Fatalf("%d bits by %s: code %d at %d decodes to %v, beside it %v", bits, impl, code, place, got, other)
					}
				}
			}
		}
	}
}

// TestAffineRounding holds that product and sum are rounded separately: fused they would give another half.
func TestAffineRounding(t *testing.T) {
	key := groupKey{"affine", 8, "F32"}
	g := lookupGroup(t, key, 32)
	s := math.Float32frombits(0x3F80_0001) // 1 + 2^-23: times 255 is rounded, and the bias shows what is lost
	product := s * 255
	b := -product
	codes := bytes.Repeat([]byte{255}, 32)
	scale := binary.LittleEndian.AppendUint32(nil, math.Float32bits(s))
	bias := binary.LittleEndian.AppendUint32(nil, math.Float32bits(b))
	if fused := math.FMA(float64(s), 255, float64(b)); fused == 0 {
		t.Fatal("the example does not tell fused from separate")
	}
	for impl, decode := range groupDecoders(g, key) {
		dst := bytes.Repeat([]byte{0xFF}, 64)
		decode(dst, codes, scale, bias, 1)
		if !bytes.Equal(dst, make([]byte, 64)) {
			t.Errorf("by %s: %x, want zeros", impl, dst[:2])
		}
	}
}

func TestNVFP4Factor(t *testing.T) {
	key := groupKey{"nvfp4", 4, "U8"}
	g := lookupGroup(t, key, 16)
	codes := []byte{0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE}
	for _, factor := range []float32{1, 0.1, 1.0 / 3, 2688, -7e-5, 1e30, float32(math.Inf(1))} {
		for scale := range 256 {
			want := make([]float32, 16)
			for i := range want {
				sign := float32(math.Copysign(1, float64(7-i)))
				x := sign * [8]float32{0, .5, 1, 1.5, 2, 3, 4, 6}[i%8] * float8Value(scale)
				want[i] = x * factor
			}
			wantHalves := make([]byte, 32)
			round(wantHalves, want)
			for impl, decode := range groupDecoders(g, key) {
				dst := make([]byte, 32)
				decode(dst, codes, []byte{byte(scale)}, nil, factor)
				if !bytes.Equal(dst, wantHalves) {
					t.Fatalf("by %s, scale %#x, factor %v: % x, want % x", impl, scale, factor, dst, wantHalves)
				}
			}
		}
	}
}

// float8Value is the E4M3 value written out as the format's definition, 480 for code 0x7F.
func float8Value(c int) float32 {
	x := float64(c&7) / 512
	if e := c >> 3 & 15; e > 0 {
		x = (1 + float64(c&7)/8) * math.Pow(2, float64(e-7))
	}
	return float32(math.Copysign(x, float64(127-c)))
}

func TestLookupGroup(t *testing.T) {
	for _, c := range []struct {
		mode        string
		bits, group int
		scale       string
		ok          bool
	}{
		{"affine", 4, 64, "BF16", true}, {"affine", 3, 8, "F32", true}, {"affine", 6, 40, "F16", true}, {"affine", 4, maxGroup, "F16", true},
		{"affine", 7, 64, "BF16", false}, {"affine", 1, 64, "BF16", false}, {"affine", 4, 0, "BF16", false},
		{"affine", 4, -64, "BF16", false}, {"affine", 4, 12, "BF16", false}, {"affine", 4, 64, "U8", false},
		{"affine", 4, maxGroup + 64, "BF16", false}, {"affine", 4, math.MaxInt &^ 63, "BF16", false}, {"affine", -4, 64, "BF16", false}, {"", 4, 64, "BF16", false},
		{"mxfp4", 4, 32, "U8", true}, {"mxfp4", 4, 64, "U8", false}, {"mxfp4", 8, 32, "U8", false},
		{"mxfp8", 8, 32, "U8", true}, {"mxfp8", 8, 16, "U8", false}, {"nvfp4", 4, 16, "U8", true}, {"nvfp4", 4, 32, "U8", false},
	} {
		g, ok := LookupGroup(c.mode, c.bits, c.group, c.scale)
		if ok != c.ok {
			t.Errorf("%+v: %v", c, ok)
		}
		if ok && (g.Mode != c.mode || g.Bits != c.bits || g.Elems != c.group || g.Codes*8 != c.bits*c.group || (g.Bias > 0) != (c.mode == "affine")) {
			t.Errorf("%+v: %+v", c, g)
		}
	}
}

// FuzzGroups compares every implementation with plain Go, group by group. shape picks the key and the group size.
func FuzzGroups(f *testing.F) {
	var keys []groupKey
	for _, scale := range []string{"F16", "BF16", "F32"} {
		for _, bits := range []int{2, 3, 4, 5, 6, 8} {
			keys = append(keys, groupKey{"affine", bits, scale})
		}
	}
	keys = append(keys, groupKey{"mxfp4", 4, "U8"}, groupKey{"mxfp8", 8, "U8"}, groupKey{"nvfp4", 4, "U8"})
	sizes := []int{64, 32, 128, 96, 8, 16, 40, 256}
	r := rand.New(rand.NewPCG(7, 8))
	for i := range len(keys) * len(sizes) {
		src := make([]byte, 2048+i)
		for j := range src {
			src[j] = byte(r.Uint32())
		}
		f.Add(uint16(i), src, float32(1))
		f.Add(uint16(i), src, r.Float32())
	}
	f.Fuzz(func(t *testing.T, shape uint16, src []byte, factor float32) {
		for to := range formats {
			fuzzGroups(t, to, keys, sizes, shape, src, factor)
		}
	})
}

func fuzzGroups(t *testing.T, to Float, keys []groupKey, sizes []int, shape uint16, src []byte, factor float32) {
	key := keys[int(shape)%len(keys)]
	size := fixedGroup[key.mode]
	if size == 0 {
		size = sizes[int(shape)/len(keys)%len(sizes)]
	}
	g, plain, out := lookupGroupTo(t, to, key, size), plain(to).groups[key], int(to)*size
	n := len(src) / (g.Codes + g.Scale + g.Bias)
	codes, scales, biases := src[:n*g.Codes], src[n*g.Codes:][:n*g.Scale], src[n*(g.Codes+g.Scale):][:n*g.Bias]
	want := make([]byte, n*out)
	for i := range n {
		plain(want[i*out:][:out], codes[i*g.Codes:][:g.Codes], scales[i*g.Scale:][:g.Scale],
			biases[i*g.Bias:][:g.Bias], factor, g.Elems)
	}
	const guard = 64
	for impl, decode := range groupDecoders(g, key) {
		got := bytes.Repeat([]byte{0xA5}, len(want)+2*guard)
		dst := got[guard:][:len(want):len(want)]
		decode(dst, codes, scales, biases, factor)
		if at := firstDifference(dst, want); at >= 0 {
			t.Fatalf("%v in groups of %d by %s: byte %d is %x, want %x", key, size, impl, at, dst[at], want[at])
		}
		if clean := bytes.Repeat([]byte{0xA5}, guard); !bytes.HasPrefix(got, clean) || !bytes.HasSuffix(got, clean) {
			t.Fatalf("%v in groups of %d by %s: writes outside its output", key, size, impl)
		}
	}
}
