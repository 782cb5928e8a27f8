package views

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
	"github.com/tensorfs/tensorfs/views/kernel"
	"github.com/x448/float16"
)

// conversion is a tensor and what it is as half, computed as a whole.
type conversion struct {
	name string
	t    tensorfs.Tensor
	opts Options
	want []byte
}

// conversions returns tensors for every codec. data makes their Data.
func conversions(data func(b []byte) tensorfs.Data) (cs []conversion) {
	for _, add := range []func(func([]byte) tensorfs.Data) []conversion{
		blockCases, interleavedCases, i2sCases, affineCases, mxCases, fp8Cases,
	} {
		cs = append(cs, add(data)...)
	}
	return cs
}

// decodable are the types whose blocks are self-contained.
func decodable() (ds []tensorfs.DType) {
	for d := range tensorfs.DTypes() {
		if _, ok := kernel.Lookup(d.String()); ok {
			ds = append(ds, d)
		}
	}
	return ds
}

// blockCases compare with one call of the decoder, in both byte orders.
func blockCases(data func([]byte) tensorfs.Data) (cs []conversion) {
	for _, d := range decodable() {
		k, _ := kernel.Lookup(d.String())
		blocks := 3
		if k.Elems == 1 {
			blocks = 37
		}
		stored := random(uint64(d), blocks*k.Bytes)
		want := make([]byte, 2*blocks*k.Elems)
		k.Decode(want, stored)
		shape := []int64{1, int64(blocks * k.Elems)}
		cs = append(cs, conversion{d.String(), tensorfs.Tensor{DType: d, Shape: shape, Data: data(stored)}, Options{}, want})

		swapped := slices.Clone(stored)
		for at := 0; at < len(swapped); at += k.Bytes {
			for _, f := range k.Fields {
				for i := range f.Count {
					slices.Reverse(swapped[at+f.Offset+i*f.Width:][:f.Width])
				}
			}
		}
		cs = append(cs, conversion{d.String() + " big-endian", tensorfs.Tensor{DType: d, Shape: shape, Data: data(swapped), BigEndian: true}, Options{}, want})
	}
	return cs
}

// interleavedCases decode by the drawing in kernel.Deinterleave.
func interleavedCases(data func([]byte) tensorfs.Data) (cs []conversion) {
	for _, c := range []struct {
		d           tensorfs.DType
		rows, chunk int
		shape       []int64
	}{
		{tensorfs.Q4_0_4_4, 4, 4, []int64{8, 64}},
		{tensorfs.Q4_0_4_8, 4, 8, []int64{4, 96}},
		{tensorfs.Q4_0_8_8, 8, 8, []int64{2, 8, 32}},
	} {
		n, _ := tensorfs.Elements(c.shape)
		cols := int(c.shape[len(c.shape)-1])
		stored := random(uint64(c.d), int(n)/32*18)
		want := make([]float32, n)
		group := c.rows * cols / 32 * 18
		for i := range want {
			row, col := i/cols, i%cols
			at := row/c.rows*group + col/32*18*c.rows
			r, j := row%c.rows, col%16
			binary.LittleEndian.PutUint16(stored[at+2*r:], float16.Fromfloat32(float32(r)+0.5).Bits())
			code := stored[at+2*c.rows+j/c.chunk*c.chunk*c.rows+r*c.chunk+j%c.chunk]
			if col%32 >= 16 {
				code >>= 4
			}
			want[i] = (float32(r) + 0.5) * float32(int8(code<<4)>>4)
		}
		cs = append(cs, conversion{fmt.Sprint(c.d, c.shape), tensorfs.Tensor{DType: c.d, Shape: c.shape, Data: data(stored)}, Options{}, halves(want)})
	}
	return cs
}

// i2sCases are the four orders of I2_S.
func i2sCases(data func([]byte) tensorfs.Data) (cs []conversion) {
	ternary := []float32{-1, 0, 1, 0}
	for _, c := range []struct {
		layout, option string
		shape          []int64
		scale          float32 // 0: none stored
		at             func(i, cols int) (byte int, shift int)
	}{
		{"128", "", []int64{3, 128}, 0.7, func(i, _ int) (int, int) { return i/128*32 + i%32, 6 - i%128/32*2 }},
		{"128", "128", []int64{2, 1, 256}, -3e-5, func(i, _ int) (int, int) { return i/128*32 + i%32, 6 - i%128/32*2 }},
		{"64", "64", []int64{2, 128}, 1.25, func(i, _ int) (int, int) { return i/64*16 + i%16, 6 - i%64/16*2 }},
		{"rows4", "rows4", []int64{8, 128}, 2, func(i, cols int) (int, int) { return i/cols/4*cols + i%cols, 6 - i/cols%4*2 }},
		{"trinity", "", []int64{5, 12}, 0, func(i, _ int) (int, int) { return i / 4, i % 4 * 2 }},
		{"trinity", "trinity", []int64{2, 128}, 9, func(i, _ int) (int, int) { return i / 4, i % 4 * 2 }}, // its scale is ignored
	} {
		n, _ := tensorfs.Elements(c.shape)
		stored := random(uint64(n), int(n)/4)
		levels, d := ternary, c.scale
		if c.layout == "trinity" {
			levels, d = []float32{0, 1, -1, 0}, 1
		}
		want := make([]float32, n)
		for i := range want {
			at, shift := c.at(i, int(c.shape[len(c.shape)-1]))
			want[i] = d * levels[stored[at]>>shift&3]
		}
		name := fmt.Sprintf("I2_S %s as %q", c.layout, c.option)
		if c.scale == 0 {
			cs = append(cs, conversion{name, tensorfs.Tensor{DType: tensorfs.I2_S, Shape: c.shape, Data: data(stored)}, Options{I2S: c.option}, halves(want)})
			continue
		}
		junk := random(7, 28)
		little := append(binary.LittleEndian.AppendUint32(slices.Clone(stored), math.Float32bits(c.scale)), junk...)
		big := append(binary.BigEndian.AppendUint32(slices.Clone(stored), math.Float32bits(c.scale)), junk...)
		cs = append(cs,
			conversion{name, tensorfs.Tensor{DType: tensorfs.I2_S, Shape: c.shape, Data: data(little)}, Options{I2S: c.option}, halves(want)},
			conversion{name + " big-endian", tensorfs.Tensor{DType: tensorfs.I2_S, Shape: c.shape, Data: data(big), BigEndian: true}, Options{I2S: c.option}, halves(want)})
	}
	return cs
}

// codeAt returns code i of a row's little-endian bit stream.
func codeAt(row []byte, bits, i int) (code int) {
	for j := range bits {
		at := i*bits + j
		code |= int(row[at/8]>>(at%8)&1) << j
	}
	return code
}

func affineCases(data func([]byte) tensorfs.Data) (cs []conversion) {
	seed := uint64(100)
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		for _, group := range []int{32, 64, 128} {
			for _, d := range []tensorfs.DType{tensorfs.F16, tensorfs.BF16, tensorfs.F32} {
				seed++
				shape := []int64{3, int64(group)}
				if group == 32 {
					shape = []int64{2, 1, 96}
				}
				cs = append(cs, affine(data, seed, bits, group, d, shape))
			}
		}
	}
	return cs
}

// affine returns a module of random codes, scales and biases.
func affine(data func([]byte) tensorfs.Data, seed uint64, bits, group int, d tensorfs.DType, shape []int64) conversion {
	elems, _ := tensorfs.Elements(shape)
	n, cols := int(elems), int(shape[len(shape)-1])
	codes := random(seed, n*bits/8)
	scaleBytes, scales := floats(seed+1000, d, n/group)
	biasBytes, biases := floats(seed+2000, d, n/group)
	want := make([]float32, n)
	for i := range want {
		row := codes[i/cols*cols*bits/8:]
		want[i] = float32(scales[i/group]*float32(codeAt(row, bits, i%cols))) + biases[i/group]
	}
	lead := shape[:len(shape)-1]
	of := func(d tensorfs.DType, last int, b []byte) tensorfs.Tensor {
		return tensorfs.Tensor{DType: d, Shape: append(slices.Clone(lead), int64(last)), Data: data(b)}
	}
	s, b := of(d, cols/group, scaleBytes), of(d, cols/group, biasBytes)
	t := of(tensorfs.U32, cols*bits/32, codes)
	t.Quant = &tensorfs.Quant{Mode: "affine", Bits: bits, GroupSize: group, Shape: shape, Scales: &s, Biases: &b}
	return conversion{fmt.Sprintf("affine %d/%d %v", bits, group, d), t, Options{}, halves(want)}
}

var e2m1 = []float32{0, .5, 1, 1.5, 2, 3, 4, 6, float32(math.Copysign(0, -1)), -.5, -1, -1.5, -2, -3, -4, -6}

// e4m3 decodes a float of 8 bits that is not NaN.
func e4m3(b byte) float32 {
	m, e := float64(b&7), int(b>>3&15)
	v := math.Ldexp(m, -9)
	if e > 0 {
		v = math.Ldexp(8+m, e-10)
	}
	if b >= 0x80 {
		v = -v
	}
	return float32(v)
}

// without7F returns random bytes without a NaN of E4M3.
func without7F(seed uint64, n int) []byte {
	b := random(seed, n)
	for i := range b {
		if b[i]&0x7f == 0x7f {
			b[i]--
		}
	}
	return b
}

// mx returns a module of 4 or 8 bits with scales of a byte.
func mx(data func([]byte) tensorfs.Data, seed uint64, mode string, shape []int64, global []int64) conversion {
	elems, _ := tensorfs.Elements(shape)
	n, cols := int(elems), int(shape[len(shape)-1])
	bits, group := 4, 32
	switch mode {
	case "mxfp8":
		bits = 8
	case "nvfp4":
		group = 16
	}
	codes, scales := without7F(seed, n*bits/8), without7F(seed+1, n/group)
	if mode != "nvfp4" {
		for i := range scales {
			scales[i] = scales[i]%20 + 117
		}
	}
	var globalBytes []byte
	var factors []float32
	var g *tensorfs.Tensor
	if global != nil {
		count, _ := tensorfs.Elements(global)
		globalBytes, factors = floats(seed+2, tensorfs.F32, int(count))
		g = &tensorfs.Tensor{DType: tensorfs.F32, Shape: global, Data: data(globalBytes)}
	}
	want := make([]float32, n)
	for i := range want {
		code, scale := codeAt(codes, bits, i), scales[i/group]
		switch mode {
		case "mxfp4":
			want[i] = float32(math.Ldexp(float64(e2m1[code]), int(scale)-127))
		case "mxfp8":
			want[i] = float32(math.Ldexp(float64(e4m3(byte(code))), int(scale)-127))
		case "nvfp4":
			want[i] = e2m1[code] * e4m3(scale)
			if g != nil {
				want[i] *= factors[i/(n/len(factors))]
			}
		}
	}
	lead := shape[:len(shape)-1]
	s := tensorfs.Tensor{DType: tensorfs.U8, Shape: append(slices.Clone(lead), int64(cols/group)), Data: data(scales)}
	t := tensorfs.Tensor{DType: tensorfs.U32, Shape: append(slices.Clone(lead), int64(cols*bits/32)), Data: data(codes),
		Quant: &tensorfs.Quant{Mode: mode, Bits: bits, GroupSize: group, Shape: shape, Scales: &s, Global: g}}
	return conversion{fmt.Sprintf("%s %v global %v", mode, shape, global), t, Options{}, halves(want)}
}

func mxCases(data func([]byte) tensorfs.Data) []conversion {
	return []conversion{
		mx(data, 1, "mxfp4", []int64{2, 64}, nil),
		mx(data, 2, "mxfp4", []int64{2, 3, 32}, nil),
		mx(data, 3, "mxfp8", []int64{2, 64}, nil),
		mx(data, 4, "nvfp4", []int64{3, 32}, nil),
		mx(data, 5, "nvfp4", []int64{3, 32}, []int64{}),
		mx(data, 6, "nvfp4", []int64{3, 32}, []int64{1}),
		mx(data, 7, "nvfp4", []int64{3, 32}, []int64{3}),
		mx(data, 8, "nvfp4", []int64{4, 2, 16}, []int64{4}),
		mx(data, 9, "nvfp4", []int64{1, 5, 16}, []int64{1}),
	}
}

// fp8 returns 8-bit floats with scales, one per block of each matrix.
func fp8(data func([]byte) tensorfs.Data, d, scaleType tensorfs.DType, block [2]int, shape, scaleShape []int64) conversion {
	elems, _ := tensorfs.Elements(shape)
	n := int(elems)
	codes := without7F(uint64(n), n)
	if d == tensorfs.F8_E5M2 {
		for i := range codes {
			if codes[i]&0x7c == 0x7c {
				codes[i] ^= 0x40 // no infinity and no NaN
			}
		}
	}
	count, _ := tensorfs.Elements(scaleShape)
	scaleBytes, scales := floats(uint64(n)+3, scaleType, int(count))
	cols, rows := int(shape[len(shape)-1]), 1
	if len(shape) > 1 {
		rows = int(shape[len(shape)-2])
	}
	want := make([]float32, n)
	for i := range want {
		v := e4m3(codes[i])
		if d == tensorfs.F8_E5M2 {
			v = float16.Frombits(uint16(codes[i]) << 8).Float32()
		}
		at := 0
		if block[0] > 0 {
			matrix, row, col := i/cols/rows, i/cols%rows, i%cols
			down, across := (rows+block[0]-1)/block[0], (cols+block[1]-1)/block[1]
			at = (matrix*down+row/block[0])*across + col/block[1]
		}
		want[i] = v * scales[at]
	}
	s := tensorfs.Tensor{DType: scaleType, Shape: scaleShape, Data: data(scaleBytes)}
	t := tensorfs.Tensor{DType: d, Shape: shape, Data: data(codes), Quant: &tensorfs.Quant{Mode: "fp8", Bits: 8, Block: block, Shape: shape, Scales: &s}}
	return conversion{fmt.Sprintf("fp8 %v %v blocks %v scales %v %v", d, shape, block, scaleType, scaleShape), t, Options{}, halves(want)}
}

// sharded returns the conversion of a stack of 8-bit floats as one matrix that has scales for each shard.
func sharded(c conversion) conversion {
	shape, scales := c.t.Shape, *c.t.Quant.Scales
	quant := *c.t.Quant
	quant.Shards, quant.Shape = int(shape[0]), []int64{shape[0] * shape[1], shape[2]}
	scales.Shape = []int64{scales.Shape[0] * scales.Shape[1], scales.Shape[2]}
	quant.Scales, c.t.Shape, c.t.Quant = &scales, quant.Shape, &quant
	c.name = fmt.Sprintf("%s of %d shards", c.name, quant.Shards)
	return c
}

func fp8Cases(data func([]byte) tensorfs.Data) []conversion {
	e4, e5, f32 := tensorfs.F8_E4M3, tensorfs.F8_E5M2, tensorfs.F32
	return []conversion{
		fp8(data, e4, f32, [2]int{}, []int64{5, 7}, []int64{}),
		fp8(data, e5, tensorfs.BF16, [2]int{}, []int64{3, 2, 7}, []int64{1, 1, 1}),
		fp8(data, e4, tensorfs.F16, [2]int{}, []int64{13}, []int64{1}),
		fp8(data, e4, f32, [2]int{2, 3}, []int64{5, 7}, []int64{3, 3}), // ragged below and at the side
		fp8(data, e4, f32, [2]int{2, 3}, []int64{4, 6}, []int64{2, 2}),
		sharded(fp8(data, e4, f32, [2]int{2, 3}, []int64{4, 5, 7}, []int64{4, 3, 3})),
		fp8(data, e5, tensorfs.F16, [2]int{128, 128}, []int64{5, 7}, []int64{1, 1}), // larger than the matrix
		fp8(data, e4, f32, [2]int{1 << 62, 1 << 62}, []int64{5, 7}, []int64{1, 1}),
		fp8(data, e4, tensorfs.BF16, [2]int{1, 7}, []int64{5, 7}, []int64{5, 1}), // per row
		fp8(data, e4, f32, [2]int{1, 1}, []int64{5, 7}, []int64{5, 7}),
		fp8(data, e4, f32, [2]int{2, 3}, []int64{3, 5, 7}, []int64{3, 3, 3}), // stacked experts
		fp8(data, e4, f32, [2]int{5, 7}, []int64{3, 5, 7}, []int64{3, 1, 1}), // one per expert
		fp8(data, e4, f32, [2]int{2, 3}, []int64{7}, []int64{1, 3}),          // one row
		fp8(data, e4, f32, [2]int{3, 2}, []int64{9, 1}, []int64{3, 1}),
		fp8(data, e4, tensorfs.F8_E8M0, [2]int{2, 3}, []int64{5, 7}, []int64{3, 3}),
		fp8(data, e5, tensorfs.F8_E8M0, [2]int{1, 7}, []int64{5, 7}, []int64{5, 1}),
	}
}

// TestConvert reads every kind of tensor at every offset.
func TestConvert(t *testing.T) {
	kinds := map[string]func(testing.TB, []byte) tensorfs.Data{
		"mapped": func(t testing.TB, b []byte) tensorfs.Data { return mapped(t, "file", b) },
		"plain":  func(_ testing.TB, b []byte) tensorfs.Data { return plain(b) },
	}
	for kind, data := range kinds {
		for _, c := range conversions(func(b []byte) tensorfs.Data { return data(t, b) }) {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				h, reason := half(&c.t, c.opts)
				if reason != "" {
					t.Fatal(reason)
				}
				if h.DType != tensorfs.F16 || h.Quant != nil || h.BigEndian {
					t.Errorf("%+v is not F16", h)
				}
				checkData(t, h.Data, c.want)
				checkWide(t, &c, kind == "plain")
			})
		}
	}
}

// checkWide holds that the F32 of a conversion rounds to its halves, and that its BF16 is the
// rounded F32. It reads F32 at every offset if that is wanted.
func checkWide(t *testing.T, c *conversion, offsets bool) {
	t.Helper()
	f, reason := dense(&c.t, c.opts, tensorfs.F32)
	if reason != "" {
		t.Fatal(reason)
	}
	all := content(t, f.Data)
	if plain := c.t.DType == tensorfs.F16 && c.t.Quant == nil; !plain && !bytes.Equal(halvesOf(all), c.want) {
		t.Error("F32 does not round to what f16/ shows")
	}
	if want := singles(t, &c.t); want != nil && !bytes.Equal(all, want) {
		t.Error("F32 is not what the kernel decodes")
	}
	b, reason := dense(&c.t, c.opts, tensorfs.BF16)
	if reason != "" {
		t.Fatal(reason)
	}
	want := roundedBF16(all)
	if c.t.DType == tensorfs.BF16 && c.t.Quant == nil { // with its signalling NaN
		want = content(t, c.t.Data)
		if k, _ := kernel.Lookup("BF16"); c.t.BigEndian {
			k.Swap(want)
		}
	}
	if f.DType != tensorfs.F32 || b.DType != tensorfs.BF16 || f.Quant != nil || b.BigEndian || f.MayOverflow || b.MayOverflow {
		t.Errorf("%+v, %+v", f, b)
	}
	if offsets {
		checkData(t, f.Data, all)
		checkData(t, b.Data, want)
	} else if !bytes.Equal(content(t, b.Data), want) {
		t.Error("BF16 is not F32 rounded")
	}
}

// roundedBF16 rounds F32 to the nearest BF16: of the two around a number the one
// that is nearer, and the even one of those at the same distance.
func roundedBF16(singles []byte) (b []byte) {
	for ; len(singles) > 0; singles = singles[4:] {
		bits := binary.LittleEndian.Uint32(singles)
		below := bits >> 16
		x := math.Abs(float64(math.Float32frombits(bits)))
		at := func(h uint32) float64 { // what would be infinity is one step above the largest number
			if h&0x7FFF == 0x7F80 {
				return 0x1p128
			}
			return math.Abs(float64(math.Float32frombits(h << 16)))
		}
		switch {
		case x != x:
			below |= 0x40
		case math.IsInf(x, 1):
		case at(below+1)-x < x-at(below), at(below+1)-x == x-at(below) && below&1 == 1:
			below++
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(below))
	}
	return b
}

// TestConvertRuns reads more than is converted at once.
func TestConvertRuns(t *testing.T) {
	for _, c := range []conversion{
		affine(plain, 1, 4, 64, tensorfs.BF16, []int64{900, 1024}),
		mx(plain, 2, "nvfp4", []int64{3, 500, 512}, []int64{3}),
		fp8(plain, tensorfs.F8_E4M3, tensorfs.F32, [2]int{128, 128}, []int64{1001, 777}, []int64{8, 7}),
	} {
		h, reason := half(&c.t, c.opts)
		if reason != "" {
			t.Fatal(reason)
		}
		for _, r := range [][2]int{{0, len(c.want)}, {1, len(c.want) - 1}, {12345, 1 << 20}, {maxRun - 1, 2}, {maxRun - 7, 12}, {maxRun, 2000}} {
			p := make([]byte, r[1])
			if n, err := h.Data.ReadAt(p, int64(r[0])); n != min(r[1], len(c.want)-r[0]) || err != nil && err != io.EOF {
				t.Errorf("%s: ReadAt(%d, %d) = %d, %v", c.name, r[1], r[0], n, err)
			} else if !bytes.Equal(p[:n], c.want[r[0]:r[0]+n]) {
				t.Errorf("%s: other bytes in %d at %d", c.name, r[1], r[0])
			}
		}
	}
}

// TestConvertEmpty holds that a tensor without elements is an empty file,
// whatever its type.
func TestConvertEmpty(t *testing.T) {
	types := append(decodable(), tensorfs.Q4_0_4_4, tensorfs.Q4_0_8_8, tensorfs.I2_S)
	for _, d := range types {
		for _, shape := range [][]int64{{0}, {0, 256}, {3, 0}, {1 << 40, 0, 512}} {
			h, reason := half(&tensorfs.Tensor{DType: d, Shape: shape, Data: plain(nil)}, Options{})
			if reason != "" {
				t.Errorf("%v of %v: %s", d, shape, reason)
				continue
			}
			checkData(t, h.Data, nil)
		}
	}
	none := tensorfs.Tensor{DType: tensorfs.F16, Shape: []int64{0, 2}, Data: plain(nil)}
	codes := tensorfs.Tensor{DType: tensorfs.U32, Shape: []int64{0, 8}, Data: plain(nil),
		Quant: &tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 32, Shape: []int64{0, 64}, Scales: &none, Biases: &none}}
	for view, show := range map[string]func(*tensorfs.Tensor, Options) (tensorfs.Tensor, string){"f16": half, "packed": pack} {
		h, reason := show(&codes, Options{})
		if reason != "" {
			t.Fatalf("%s: %s", view, reason)
		}
		checkData(t, h.Data, nil)
	}
}

// TestConvertBroken holds that an error of a source comes out with the bytes in
// front of it.
func TestConvertBroken(t *testing.T) {
	stored, values := floats(1, tensorfs.F32, 3*maxRun/2)
	want := halves(values)
	for _, at := range []int64{0, 1, 100, 2 * maxRun, 2*maxRun + 1, 5 * maxRun} {
		h, _ := half(&tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{3 * maxRun / 2}, Data: datatest.Broken{Data: plain(stored), At: at}}, Options{})
		p := make([]byte, len(want))
		n, err := h.Data.ReadAt(p, 0)
		if err != datatest.ErrBroken || int64(n) > at/2 || n != int(at/2)/maxRun*maxRun || !bytes.Equal(p[:n], want[:n]) {
			t.Errorf("broken at %d: %d, %v", at, n, err)
		}
		if at > 0 {
			if n, err := h.Data.ReadAt(p[:at/4*2], 0); err != nil || !bytes.Equal(p[:n], want[:n]) {
				t.Errorf("broken at %d: %d of %d bytes, %v", at, n, at/4*2, err)
			}
		}
	}
	// Each of a module's sources in turn.
	for broke := range 3 {
		i := -1
		c := affine(func(b []byte) tensorfs.Data {
			if i++; i == (broke+1)%3 { // scales, biases, codes
				return datatest.Broken{Data: plain(b), At: int64(len(b)) / 2}
			}
			return plain(b)
		}, 1, 4, 32, tensorfs.BF16, []int64{4, 64})
		h, reason := half(&c.t, Options{})
		if reason != "" {
			t.Fatal(reason)
		}
		p := make([]byte, len(c.want))
		if n, err := h.Data.ReadAt(p, 0); n != 0 || err != datatest.ErrBroken {
			t.Errorf("source %d broken: %d, %v", broke, n, err)
		}
		if n, err := h.Data.ReadAt(p[:len(p)/2], 0); err != nil || !bytes.Equal(p[:n], c.want[:n]) {
			t.Errorf("source %d broken beyond: %d, %v", broke, n, err)
		}
	}
}

// TestConvertAllocates holds that reading mapped tensors allocates nothing.
func TestConvertAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool forget")
	}
	p := make([]byte, 1<<16)
	for _, c := range conversions(func(b []byte) tensorfs.Data { return mapped(t, "file", b) }) {
		h, reason := half(&c.t, c.opts)
		if reason != "" {
			t.Fatal(reason)
		}
		if n := testing.AllocsPerRun(50, func() {
			for _, r := range [][2]int64{{0, h.Data.Size()}, {3, 9}} {
				if _, err := h.Data.ReadAt(p[:r[1]], r[0]); err != nil {
					t.Fatal(err)
				}
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

// TestConvertConcurrently reads the same Data from several goroutines.
func TestConvertConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for _, c := range conversions(func(b []byte) tensorfs.Data { return mapped(t, "file", b) }) {
		h, reason := half(&c.t, c.opts)
		if reason != "" {
			t.Fatal(reason)
		}
		for g := range 4 {
			wg.Go(func() {
				p := make([]byte, len(c.want))
				for off := g; off < len(c.want); off += 17 {
					n, err := h.Data.ReadAt(p[:min(len(c.want)-off, 70+g)], int64(off))
					if err != nil || !bytes.Equal(p[:n], c.want[off:off+n]) {
						t.Errorf("%s at %d: %v", c.name, off, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}
