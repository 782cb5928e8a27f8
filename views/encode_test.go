package views

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// encoded returns all numbers of a type at once, by its kernel.
func encoded(to tensorfs.DType, singles []byte) []byte {
	e, _ := kernel.LookupEncoder(to.String())
	b := make([]byte, len(singles)/4/e.Elems*e.Bytes)
	e.Encode(b, singles)
	return b
}

// singles returns the numbers of t by one call of its kernel, if it has one.
func singles(t testing.TB, x *tensorfs.Tensor) []byte {
	t.Helper()
	n, _ := tensorfs.Elements(x.Numbers())
	b, q := make([]byte, 4*n), x.Quant
	if q == nil {
		d, ok := kernel.Single.Lookup(x.DType.String())
		if !ok {
			return nil
		}
		stored := content(t, x.Data)
		if x.BigEndian {
			d.Swap(stored)
		}
		d.Decode(b, stored)
		return b
	}
	g, ok := kernel.Single.LookupGroup(q.Mode, q.Bits, q.GroupSize, q.Scales.DType.String())
	if !ok || q.Global != nil {
		return nil
	}
	var biases []byte
	if q.Biases != nil {
		biases = content(t, q.Biases.Data)
	}
	g.Decode(b, content(t, x.Data), content(t, q.Scales.Data), biases, 1)
	return b
}

// TestEncode reads tensors of every kind as every type they can have, at every offset.
func TestEncode(t *testing.T) {
	kinds := map[string]func(testing.TB, []byte) tensorfs.Data{
		"mapped": func(t testing.TB, b []byte) tensorfs.Data { return mapped(t, "file", b) },
		"composed": func(t testing.TB, b []byte) tensorfs.Data {
			cut := int64(len(b) / 3)
			whole := mapped(t, "file", b)
			return tensorfs.Concat(tensorfs.Section(whole, 0, cut), tensorfs.Section(whole, cut, int64(len(b))-cut))
		},
	}
	wide := func(d tensorfs.DType, data func([]byte) tensorfs.Data, bigEndian bool) tensorfs.Tensor {
		b, _ := floats(7, d, 2*32)
		if bigEndian {
			k, _ := kernel.Lookup(d.String())
			k.Swap(b)
		}
		return tensorfs.Tensor{DType: d, Shape: []int64{2, 32}, Data: data(b), BigEndian: bigEndian}
	}
	for kind, stored := range kinds {
		data := func(b []byte) tensorfs.Data { return stored(t, b) }
		cases := conversions(data)
		for _, d := range []tensorfs.DType{tensorfs.F32, tensorfs.F16, tensorfs.BF16} {
			for _, big := range []bool{false, true} {
				cases = append(cases, conversion{fmt.Sprint(d, " wide ", big), wide(d, data, big), Options{}, nil})
			}
		}
		extreme := mx(data, 4, "mxfp8", []int64{2, 128}, nil)
		extreme.name, extreme.want = "mxfp8 extreme", nil // some scales make numbers that BF16 does not have
		extreme.t.Quant.Scales.Data = data([]byte{255, 0, 100, 9, 12, 1, 255, 2})
		cases = append(cases, extreme)
		for i, c := range cases {
			if c.opts.I2S != "" || kind == "composed" && i%4 > 0 {
				continue
			}
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				f, err := Encode(&c.t, tensorfs.F32)
				if err != nil {
					t.Fatal(err)
				}
				all := content(t, f)
				if h, err := Encode(&c.t, tensorfs.F16); err != nil {
					t.Error(err)
				} else if c.want != nil && c.t.DType != tensorfs.F16 && !bytes.Equal(content(t, h), c.want) {
					t.Error("as F16 it is not what f16/ shows")
				}
				if want := singles(t, &c.t); want != nil && !bytes.Equal(want, all) {
					t.Error("as F32 it is not what the kernel decodes")
				}
				rounded := halvesOf(all)
				if c.want != nil && c.t.DType != tensorfs.F16 && !bytes.Equal(rounded, c.want) {
					t.Error("F32 does not round to what f16/ shows")
				}
				if c.want == nil || i%9 == 0 {
					checkData(t, f, all)
				}
				for _, to := range []tensorfs.DType{tensorfs.BF16, tensorfs.Q8_0, tensorfs.Q4_0} {
					d, err := Encode(&c.t, to)
					if _, ok := to.Size(c.t.Numbers()); !ok {
						if err == nil || !strings.Contains(err.Error(), to.String()) {
							t.Errorf("%s of shape %v: %v", to, c.t.Numbers(), err)
						}
						continue
					}
					if err != nil {
						t.Errorf("%s: %v", to, err)
						continue
					}
					want := encoded(to, all)
					if c.t.DType == to && !c.t.BigEndian {
						want = content(t, c.t.Data)
					} else if c.t.DType == to && to == tensorfs.BF16 {
						want = content(t, c.t.Data)
						k, _ := kernel.Lookup("BF16")
						k.Swap(want)
					}
					if got := content(t, d); !bytes.Equal(got, want) {
						t.Errorf("%s: other bytes", to)
					} else if i%11 == 0 || c.want == nil {
						checkData(t, d, want)
					}
				}
			})
		}
	}
}

// halvesOf rounds F32 as the kernels do.
func halvesOf(singles []byte) []byte {
	d, _ := kernel.Lookup("F32")
	b := make([]byte, len(singles)/2)
	d.Decode(b, singles)
	return b
}

// triple returns an affine module whose scales and biases are halves but for what change does to them.
func triple(data func([]byte) tensorfs.Data, bits, group int, d tensorfs.DType, shape []int64, change func(codes, scales, biases []byte)) tensorfs.Tensor {
	n, _ := tensorfs.Elements(shape)
	codes := random(uint64(bits*group), int(n)*bits/8)
	r := rand.New(rand.NewPCG(uint64(group), 5))
	numbers := func() (b []byte) {
		for range int(n) / group {
			h := float32(r.IntN(2001)-1000) / 1024
			bits := math.Float32bits(h)
			switch d {
			case tensorfs.F32:
				b = binary.LittleEndian.AppendUint32(b, bits&^0x1FFF)
			case tensorfs.BF16:
				b = binary.LittleEndian.AppendUint16(b, uint16(bits>>16))
			case tensorfs.F16:
				b = append(b, halves([]float32{h})...)
			}
		}
		return b
	}
	scales, biases := numbers(), numbers()
	if change != nil {
		change(codes, scales, biases)
	}
	inner := slices.Clone(shape)
	inner[len(inner)-1] /= int64(group)
	words := slices.Clone(shape)
	words[len(words)-1] = words[len(words)-1] * int64(bits) / 32
	return tensorfs.Tensor{DType: tensorfs.U32, Shape: words, Data: data(codes), Quant: &tensorfs.Quant{
		Mode: "affine", Bits: bits, GroupSize: group, Shape: shape,
		Scales: &tensorfs.Tensor{DType: d, Shape: inner, Data: data(scales)}, Biases: &tensorfs.Tensor{DType: d, Shape: inner, Data: data(biases)},
	}}
}

// TestEncodeExact repacks modules: every offset, and the same numbers when decoded again.
func TestEncodeExact(t *testing.T) {
	data := func(b []byte) tensorfs.Data { return mapped(t, "file", b) }
	var cases []tensorfs.Tensor
	for _, bits := range []int{2, 3, 4, 5} {
		for i, group := range []int{32, 64, 128, 96} {
			d := []tensorfs.DType{tensorfs.BF16, tensorfs.F16, tensorfs.F32}[(i+bits)%3]
			cases = append(cases, triple(data, bits, group, d, []int64{1, int64(2 * group)}, nil))
		}
	}
	nvfp4 := mx(data, 5, "nvfp4", []int64{3, 128}, nil).t
	scales := content(t, nvfp4.Quant.Scales.Data)
	for i := range scales {
		scales[i] &= 0x7F
	}
	nvfp4.Quant.Scales.Data = data(scales)
	cases = append(cases, nvfp4, triple(data, 4, 64, tensorfs.BF16, []int64{2, 2, 64}, nil),
		mx(data, 3, "mxfp4", []int64{3, 2, 32}, nil).t, mx(data, 4, "mxfp8", []int64{3, 64}, nil).t)
	for _, x := range cases {
		to, exact, err := Exact(&x)
		name := fmt.Sprintf("%s %d bits, groups of %d, %s scales, as %s", x.Quant.Mode, x.Quant.Bits, x.Quant.GroupSize, x.Quant.Scales.DType, to)
		if err != nil || !exact {
			t.Errorf("%s: %v, %v", name, exact, err)
			continue
		}
		d, err := Encode(&x, to)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		stored := content(t, d)
		checkData(t, d, stored)
		again := tensorfs.Tensor{DType: to, Shape: x.Quant.Shape, Data: plain(stored)}
		want, got := singles(t, &x), singles(t, &again)
		for i := 0; i < len(want); i += 4 {
			a, b := math.Float32frombits(binary.LittleEndian.Uint32(want[i:])), math.Float32frombits(binary.LittleEndian.Uint32(got[i:]))
			if a != b {
				t.Fatalf("%s: number %d is %v, want %v", name, i/4, b, a)
			}
		}
	}
}

// TestExact holds the conditions of each type.
func TestExact(t *testing.T) {
	put16 := func(at int, v uint16) func(_, s, _ []byte) {
		return func(_, s, _ []byte) { binary.LittleEndian.PutUint16(s[2*at:], v) }
	}
	zero := func(group int, then func(_, s, b []byte)) func(c, s, b []byte) {
		return func(c, s, b []byte) { clear(c[group*32:][:32]); then(c, s, b) }
	}
	shape := []int64{40, 128} // 80 groups of 64, of 32 bytes at 4 bits
	mod := func(change func(c, s, b []byte)) tensorfs.Tensor {
		return triple(plain, 4, 64, tensorfs.BF16, shape, change)
	}
	mode := func(name string, shape []int64, scale func(s []byte), codes byte) tensorfs.Tensor {
		x := mx(plain, 9, name, shape, nil).t
		s := content(t, x.Quant.Scales.Data)
		for i := range s {
			if name == "nvfp4" {
				s[i] &= 0x7F
			}
		}
		scale(s)
		x.Quant.Scales.Data = plain(s)
		x.Data = plain(bytes.Repeat([]byte{codes}, int(x.Data.Size())))
		return x
	}
	is := func(v byte) func(s []byte) { return func(s []byte) { s[3] = v } }
	global := mx(plain, 9, "nvfp4", []int64{3, 64}, []int64{1}).t
	f16 := triple(plain, 4, 64, tensorfs.F16, shape, put16(3, 1))
	f32 := triple(plain, 4, 64, tensorfs.F32, shape, func(_, s, _ []byte) { binary.LittleEndian.PutUint32(s[4:], math.Float32bits(0.1)) })
	for name, c := range map[string]struct {
		x    tensorfs.Tensor
		want tensorfs.DType
	}{
		"not decided: F16":                    {mod(nil), tensorfs.Q4_1},
		"a scale below":                       {mod(put16(79, 0x3301)), tensorfs.F16},
		"2^-18":                               {mod(put16(79, 0x3680)), tensorfs.Q4_1},
		"a scale above":                       {mod(put16(0, 0x4780)), tensorfs.F16},
		"an infinite scale":                   {mod(put16(0, 0x7F80)), tensorfs.Q4_1},
		"a bias below":                        {mod(func(_, _, b []byte) { binary.LittleEndian.PutUint16(b[2*40:], 0x3301) }), tensorfs.F16},
		"a scale of zeros":                    {mod(zero(5, put16(5, 0x33D7))), tensorfs.Q4_1},
		"a scale of other zeros":              {mod(zero(6, put16(5, 0x33D7))), tensorfs.F16},
		"zeros with a bias":                   {mod(zero(5, func(_, _, b []byte) { binary.LittleEndian.PutUint16(b[10:], 0x33D7) })), tensorfs.F16},
		"all zeros":                           {mod(func(c, s, _ []byte) { clear(c); copy(s, bytes.Repeat([]byte{0xD7, 0x33}, 80)) }), tensorfs.Q4_1},
		"all zeros but one":                   {mod(func(c, s, _ []byte) { clear(c); c[70*32+31] = 0x10; copy(s, bytes.Repeat([]byte{0xD7, 0x33}, 80)) }), tensorfs.F16},
		"a subnormal half":                    {f16, tensorfs.Q4_1},
		"F32":                                 {f32, tensorfs.F16},
		"2 bits":                              {triple(plain, 2, 64, tensorfs.F32, shape, nil), tensorfs.Q4_1},
		"3 bits":                              {triple(plain, 3, 32, tensorfs.F32, shape, nil), tensorfs.Q4_1},
		"5 bits":                              {triple(plain, 5, 32, tensorfs.BF16, shape, nil), tensorfs.Q5_1},
		"6 bits":                              {triple(plain, 6, 32, tensorfs.BF16, shape, nil), tensorfs.F16},
		"8 bits":                              {triple(plain, 8, 32, tensorfs.BF16, shape, nil), tensorfs.F16},
		"groups of 8":                         {triple(plain, 4, 8, tensorfs.BF16, shape, nil), tensorfs.F16},
		"groups of 40":                        {triple(plain, 4, 40, tensorfs.F16, []int64{3, 160}, nil), tensorfs.F16},
		"mxfp4":                               {mode("mxfp4", []int64{5, 64}, is(0xFE), 0x12), tensorfs.MXFP4},
		"mxfp4 infinite":                      {mode("mxfp4", []int64{5, 64}, is(0xFF), 0x12), tensorfs.F16},
		"mxfp8":                               {mode("mxfp8", []int64{5, 64}, is(10), 1), tensorfs.BF16},
		"mxfp8 infinite":                      {mode("mxfp8", []int64{5, 64}, is(0xFF), 1), tensorfs.F32},
		"mxfp8 subnormal":                     {mode("mxfp8", []int64{5, 64}, is(9), 0x81), tensorfs.F32},
		"mxfp8 tiny scale, not a tiny number": {mode("mxfp8", []int64{5, 64}, is(9), 2), tensorfs.BF16},
		"mxfp8 zeros":                         {mode("mxfp8", []int64{5, 64}, is(0), 0x80), tensorfs.BF16},
		"nvfp4":                               {mode("nvfp4", []int64{5, 64}, is(0x7E), 0x12), tensorfs.NVFP4},
		"nvfp4 NaN":                           {mode("nvfp4", []int64{5, 64}, is(0x7F), 0x12), tensorfs.F16},
		"nvfp4 negative":                      {mode("nvfp4", []int64{5, 64}, is(0x81), 0x12), tensorfs.F16},
		"nvfp4 short rows":                    {mode("nvfp4", []int64{4, 32}, func([]byte) {}, 0x12), tensorfs.F16},
		"nvfp4 with a factor":                 {global, tensorfs.F16},
		"fp8":                                 {fp8(plain, tensorfs.F8_E4M3, tensorfs.F32, [2]int{2, 3}, []int64{4, 6}, []int64{2, 2}).t, tensorfs.F32},
		"plain":                               {tensorfs.Tensor{DType: tensorfs.BF16, Shape: []int64{1}, Data: plain([]byte{1, 2})}, tensorfs.BF16},
		"a plain float of 8 bits":             {tensorfs.Tensor{DType: tensorfs.F8_E4M3, Shape: []int64{1}, Data: plain([]byte{1})}, tensorfs.BF16},
	} {
		to, exact, err := Exact(&c.x)
		if to != c.want || exact != (to != tensorfs.F16) || err != nil {
			t.Errorf("%s: %s, %v, %v; want %s", name, to, exact, err, c.want)
			continue
		}
		d, err := Encode(&c.x, to)
		if err != nil {
			t.Errorf("%s as %s: %v", name, to, err)
			continue
		}
		content(t, d)
	}
}

// TestPlain holds which 8-bit and packed floats BF16 can represent exactly, and that it does.
func TestPlain(t *testing.T) {
	e4, e5 := tensorfs.F8_E4M3, tensorfs.F8_E5M2
	x := func(d, scales tensorfs.DType, float tensorfs.DType, bits ...uint32) tensorfs.Tensor {
		codes := make([]byte, 256)
		for i := range codes {
			codes[i] = byte(i)
		}
		s := make([]byte, 0, 8)
		for _, b := range bits {
			switch scales {
			case tensorfs.F32:
				s = binary.LittleEndian.AppendUint32(s, b)
			case tensorfs.F8_E8M0:
				s = append(s, byte(b))
			default:
				s = binary.LittleEndian.AppendUint16(s, uint16(b))
			}
		}
		q := &tensorfs.Quant{Mode: "fp8", Bits: 8, Shape: []int64{8, 32}, Block: [2]int{4, 32}, Float: float,
			Scales: &tensorfs.Tensor{DType: scales, Shape: []int64{2, 1}, Data: plain(s), Owner: "w"}}
		return tensorfs.Tensor{Name: "w", DType: d, Shape: []int64{8, 32}, Data: plain(codes), Quant: q}
	}
	for name, c := range map[string]struct {
		x     tensorfs.Tensor
		to    tensorfs.DType
		exact bool
	}{
		"powers of two":    {x(e4, tensorfs.F32, tensorfs.BF16, 0x3f800000, 0x3c000000), tensorfs.BF16, true},
		"E8M0":             {x(e4, tensorfs.F8_E8M0, tensorfs.BF16, 127, 100), tensorfs.BF16, true},
		"E8M0 of F8_E5M2":  {x(e5, tensorfs.F8_E8M0, tensorfs.BF16, 10, 200), tensorfs.BF16, true},
		"very small E8M0":  {x(e5, tensorfs.F8_E8M0, tensorfs.BF16, 127, 9), tensorfs.BF16, false},
		"powers in BF16":   {x(e4, tensorfs.BF16, tensorfs.BF16, 0x3f80, 0xbc00), tensorfs.BF16, true},
		"another scale":    {x(e4, tensorfs.F32, tensorfs.BF16, 0x3f800000, 0x3c000001), tensorfs.BF16, false},
		"not decided: F16": {x(e4, tensorfs.F16, tensorfs.F16, 0x3c00, 0x3c00), tensorfs.F16, false},
		"a model in F32":   {x(e4, tensorfs.F32, tensorfs.F32, 0x3f800000, 0x3c000001), tensorfs.F32, true},
		"nothing said":     {x(e4, tensorfs.F32, tensorfs.Unknown, 0x3f800000, 0x3c000001), tensorfs.F32, true},
		"not decided: NaN": {x(e4, tensorfs.F32, tensorfs.BF16, 0x3f800000, 0x7fc00000), tensorfs.BF16, false},
	} {
		to, exact, err := Plain(&c.x)
		if to != c.to || exact != c.exact || err != nil {
			t.Errorf("%s: %s, %v, %v; want %s, %v", name, to, exact, err, c.to, c.exact)
			continue
		}
		a, err := Encode(&c.x, to)
		if err != nil {
			t.Fatal(err)
		}
		stored := tensorfs.Tensor{DType: to, Shape: c.x.Shape, Data: a}
		x, err1 := Encode(&stored, tensorfs.F32)
		y, err2 := Encode(&c.x, tensorfs.F32)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if got, want := content(t, x), content(t, y); bytes.Equal(got, want) != exact && !strings.HasPrefix(name, "not decided") {
			t.Errorf("%s: exact is %v", name, exact)
		}
	}
}

// TestEncodeInexact holds that a read fails instead of giving other numbers, only at the offsets of these
// numbers.
func TestEncodeInexact(t *testing.T) {
	x := triple(plain, 4, 64, tensorfs.BF16, []int64{4, 128}, func(_, s, _ []byte) { binary.LittleEndian.PutUint16(s[2*5:], 0x3301) })
	d, err := Encode(&x, tensorfs.Q4_1)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := d.ReadAt(make([]byte, 200), 0); n != 200 || err != nil {
		t.Errorf("%d bytes before it: %v", n, err)
	}
	for _, r := range [][2]int64{{200, 40}, {201, 1}, {150, 100}, {0, d.Size()}, {239, 20}} {
		if _, err := d.ReadAt(make([]byte, r[1]), r[0]); err == nil || !strings.Contains(err.Error(), "Q4_1 cannot hold the 64 numbers from 320 on") {
			t.Errorf("%d bytes at %d: %v", r[1], r[0], err)
		}
	}
	if n, err := d.ReadAt(make([]byte, 80), 240); n != 80 || err != nil {
		t.Errorf("%d bytes after it: %v", n, err)
	}
}

// TestEncodeRefuses holds that an impossible encoding is an error with the reason.
func TestEncodeRefuses(t *testing.T) {
	b := func(n int) tensorfs.Data { return plain(make([]byte, n)) }
	good := triple(plain, 4, 64, tensorfs.BF16, []int64{4, 128}, nil)
	with := func(change func(x *tensorfs.Tensor, q *tensorfs.Quant)) tensorfs.Tensor {
		x, q := good, *good.Quant
		x.Quant = &q
		change(&x, &q)
		return x
	}
	for _, c := range []struct {
		x   tensorfs.Tensor
		to  tensorfs.DType
		err string
	}{
		{tensorfs.Tensor{DType: tensorfs.I32, Shape: []int64{2, 32}, Data: b(256)}, tensorfs.F32, "I32 holds integers"},
		{tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{2, 33}, Data: b(264)}, tensorfs.Q8_0, "not rows of whole blocks of Q8_0"},
		{tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{2, 32}, Data: b(256)}, tensorfs.NVFP4, "not rows of whole blocks of NVFP4"},
		{tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{2, 256}, Data: b(2048)}, tensorfs.IQ1_S, "IQ1_S is made only by an importance matrix"},
		{tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{2, 256}, Data: b(2048)}, tensorfs.Q2_0, "F32 cannot be converted to Q2_0"},
		{tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{2, 32}, Data: b(256)}, tensorfs.Unknown, "UNKNOWN"},
		{tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{2, 32}, Data: b(255)}, tensorfs.F32, "holds other numbers"},
		{tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{2, 32}, Data: b(128)}, tensorfs.Q8_0, "holds other numbers"},
		{tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{2, 32}, Data: b(128), Opaque: "nobody knows"}, tensorfs.F32, "nobody knows"},
		{tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{2, 32}, Data: b(256), Owner: "w"}, tensorfs.F32, "companion of w"},
		{tensorfs.Tensor{DType: tensorfs.IQ2_KS, Shape: []int64{1, 256}, Data: b(72)}, tensorfs.F32, "tensorfs cannot decode IQ2_KS"},
		{good, tensorfs.NVFP4, "affine with 4 bits in groups of 64 cannot be converted to NVFP4"},
		{good, tensorfs.Q1_0, "cannot be converted to Q1_0"},
		{with(func(x *tensorfs.Tensor, _ *tensorfs.Quant) { x.Data = b(7) }), tensorfs.Q4_1, "need"},
		{with(func(_ *tensorfs.Tensor, q *tensorfs.Quant) { q.Scales = nil }), tensorfs.Q4_1, "needs scales"},
		{with(func(_ *tensorfs.Tensor, q *tensorfs.Quant) { q.Biases = nil }), tensorfs.F32, "needs biases"},
		{with(func(_ *tensorfs.Tensor, q *tensorfs.Quant) { q.Shape = []int64{4, 64} }), tensorfs.Q4_1, "need"},
		{with(func(_ *tensorfs.Tensor, q *tensorfs.Quant) { q.Shape = nil }), tensorfs.F32, "do not divide"},
		{with(func(_ *tensorfs.Tensor, q *tensorfs.Quant) { q.Bits = 7 }), tensorfs.BF16, "not supported"},
	} {
		d, err := Encode(&c.x, c.to)
		if err == nil || d != nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s of %v to %s: %v, want %q", c.x.DType, c.x.Numbers(), c.to, err, c.err)
		}
		if c.x.Quant != nil && !strings.Contains(err.Error(), "cannot be converted to") {
			if _, _, err := Exact(&c.x); err == nil {
				t.Errorf("%+v has an exact type", c.x.Quant)
			}
		}
	}
	if _, _, err := Exact(&tensorfs.Tensor{DType: tensorfs.U8, Shape: []int64{1}, Data: b(1)}); err == nil {
		t.Error("U8 is a type of ggml")
	}
}

// TestEncodeBroken holds that errors of any stream come out of Exact and reads.
func TestEncodeBroken(t *testing.T) {
	for i := range 3 {
		x := triple(plain, 4, 64, tensorfs.BF16, []int64{4, 128}, func(c, s, _ []byte) {
			clear(c)
			copy(s, bytes.Repeat([]byte{0xD7, 0x33}, 8))
		})
		for k, d := range []*tensorfs.Data{&x.Data, &x.Quant.Scales.Data, &x.Quant.Biases.Data} {
			if k == i {
				*d = datatest.Broken{Data: *d, At: (*d).Size() - 1}
			}
		}
		if _, _, err := Exact(&x); !errors.Is(err, datatest.ErrBroken) {
			t.Errorf("stream %d: %v", i, err)
		}
		for _, to := range []tensorfs.DType{tensorfs.Q4_1, tensorfs.F32, tensorfs.Q8_0, tensorfs.BF16} {
			d, err := Encode(&x, to)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.ReadAt(make([]byte, d.Size()), 0); !errors.Is(err, datatest.ErrBroken) {
				t.Errorf("stream %d as %s: %v", i, to, err)
			}
			if n, err := d.ReadAt(make([]byte, 5), 3); n != 5 || err != nil {
				t.Errorf("stream %d as %s: %d bytes before it, %v", i, to, n, err)
			}
		}
	}
}

// TestEncodeEmpty holds that no numbers are no bytes.
func TestEncodeEmpty(t *testing.T) {
	for _, to := range []tensorfs.DType{tensorfs.F32, tensorfs.Q8_0, tensorfs.Q4_1} {
		d, err := Encode(&tensorfs.Tensor{DType: tensorfs.BF16, Shape: []int64{0, 32}, Data: plain(nil)}, to)
		if err != nil || d.Size() != 0 {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// TestEncodeSame holds that tensors that have the type already are not copied.
func TestEncodeSame(t *testing.T) {
	d := mapped(t, "file", make([]byte, 68))
	got, err := Encode(&tensorfs.Tensor{DType: tensorfs.Q8_0, Shape: []int64{2, 32}, Data: d}, tensorfs.Q8_0)
	if err != nil || got != tensorfs.Data(d) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestEncodeRuns reads more than is converted at once.
func TestEncodeRuns(t *testing.T) {
	b, _ := floats(3, tensorfs.BF16, 1000*4096)
	x := tensorfs.Tensor{DType: tensorfs.BF16, Shape: []int64{1000, 4096}, Data: plain(b)}
	f, err := Encode(&x, tensorfs.F32)
	if err != nil {
		t.Fatal(err)
	}
	all := content(t, f)
	for _, to := range []tensorfs.DType{tensorfs.Q8_0, tensorfs.Q4_0, tensorfs.F32} {
		d, err := Encode(&x, to)
		if err != nil {
			t.Fatal(err)
		}
		want := all
		if to != tensorfs.F32 {
			want = encoded(to, all)
		}
		for _, r := range [][2]int{{0, len(want)}, {1, len(want) - 1}, {12345, 1 << 20}, {maxRun - 1, 2}, {maxRun, 2000}} {
			p := make([]byte, min(r[1], len(want)-r[0]))
			if n, err := d.ReadAt(p, int64(r[0])); n != len(p) || err != nil {
				t.Errorf("%s: ReadAt(%d, %d) = %d, %v", to, r[1], r[0], n, err)
			} else if !bytes.Equal(p, want[r[0]:][:n]) {
				t.Errorf("%s: other bytes in %d at %d", to, r[1], r[0])
			}
		}
	}
}

// FuzzEncode makes every type of any tensor, and reads what that gives.
func FuzzEncode(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(random(seed, 60+int(seed)*3))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		x := &table{in: in}
		y := x.tensor("w")
		if x.byte()%2 == 0 {
			x.quant(&y)
		}
		for to := range tensorfs.DTypes() {
			d, err := Encode(&y, to)
			if (d == nil) != (err != nil) {
				t.Fatalf("%s: %v, %v", to, d, err)
			}
			if err != nil {
				continue
			}
			if size, ok := to.Size(y.Numbers()); !ok || d.Size() != size {
				t.Errorf("%v to %s: %d bytes, want %d", y.Numbers(), to, d.Size(), size)
			}
			checkRead(t, to.String(), tensorfs.Tensor{Name: "w", DType: to, Shape: y.Numbers(), Data: d})
		}
		if n, ok := tensorfs.Elements(y.Numbers()); ok && n < 1<<20 {
			to, _, err := Exact(&y)
			if err != nil {
				return
			}
			if _, ok := to.Size(y.Numbers()); !ok && y.Quant != nil {
				t.Errorf("%v has no rows of %s", y.Numbers(), to)
			}
		}
	})
}
