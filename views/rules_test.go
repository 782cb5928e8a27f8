package views

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// describe makes a model of lines NAME TYPE SHAPE [OPAQUE]; each tensor is in a
// file of its own: f1, f2 and so on. Beside stored types TYPE is
// affine:BITS:GROUP:SCALES, mxfp4, mxfp8, nvfp4, nvfp4:global or fp8, whose
// companions become tensors too, and big:TYPE for big-endian ones.
func describe(t testing.TB, lines string) *tensorfs.Model {
	t.Helper()
	files := 0
	data := func(b []byte) tensorfs.Data {
		files++
		return mapped(t, fmt.Sprint("f", files), b)
	}
	m := tensorfs.Model{Format: "test", Path: "/m", Architecture: "llama", Layout: "gguf"}
	for i, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) < 3 {
			t.Fatalf("line %q", line)
		}
		name, shape := f[0], shapeOf(t, f[2])
		seed := uint64(i + 1)
		n, _ := tensorfs.Elements(shape)
		kind := strings.Split(f[1], ":")
		var x tensorfs.Tensor
		switch kind[0] {
		case "affine":
			bits, _ := strconv.Atoi(kind[1])
			group, _ := strconv.Atoi(kind[2])
			x = affine(data, seed, bits, group, typeOf(t, kind[3]), shape).t
		case "mxfp4", "mxfp8", "nvfp4":
			var global []int64
			if len(kind) > 1 {
				global = []int64{}
			}
			x = mx(data, seed, kind[0], shape, global).t
		case "fp8":
			x = fp8(data, tensorfs.F8_E4M3, tensorfs.F32, [2]int{}, shape, []int64{1}).t
		case "I2_S":
			x = tensorfs.Tensor{DType: tensorfs.I2_S, Shape: shape, Data: data(random(seed, int(n/4+32)))}
		default:
			x = tensorfs.Tensor{Shape: shape, BigEndian: kind[0] == "big"}
			x.DType = typeOf(t, kind[len(kind)-1])
			size, ok := x.DType.Size(shape)
			if !ok {
				size = n
			}
			x.Data = data(random(seed, int(size)))
		}
		x.Name, x.Source = name, "src:"+name
		x.Opaque = strings.Join(f[3:], " ")
		if q := x.Quant; q != nil {
			stem := strings.TrimSuffix(name, ".weight")
			for _, c := range []struct {
				role string
				t    *tensorfs.Tensor
			}{{"scales", q.Scales}, {"biases", q.Biases}, {"global_scale", q.Global}} {
				if c.t != nil {
					c.t.Name, c.t.Source, c.t.Owner = stem+"."+c.role, "src:"+stem+"."+c.role, name
					m.Tensors = append(m.Tensors, *c.t)
				}
			}
		}
		m.Tensors = append(m.Tensors, x)
	}
	model, err := tensorfs.NewModel(m)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func typeOf(t testing.TB, name string) tensorfs.DType {
	for d := tensorfs.Unknown; d <= tensorfs.F8_E5M2FNUZ; d++ {
		if d.String() == name {
			return d
		}
	}
	t.Fatalf("type %q", name)
	return 0
}

func shapeOf(t testing.TB, s string) (shape []int64) {
	if s == "-" {
		return nil
	}
	for d := range strings.SplitSeq(s, "x") {
		n, err := strconv.ParseInt(d, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		shape = append(shape, n)
	}
	return shape
}

// summary is a view in the form of the tables below: a line per tensor, absent tensors after a
// minus.
func summary(b Built) []string {
	var out []string
	for _, x := range list(b.Tensors) {
		shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(x.Shape), " ", "x"), "[]")
		if shape == "" {
			shape = "-"
		}
		line := fmt.Sprintf("%s %s %s", x.Name, typeName(&x), shape)
		for _, s := range x.Parts {
			line += fmt.Sprintf(" %s:%s@%d+%d", s.Name, s.DType, s.Offset, s.Bytes)
		}
		out = append(out, line)
	}
	for i := range b.Absent.Len() {
		out = append(out, "- "+b.Absent.Name(i)+" "+b.Absent.Reason(i))
	}
	return out
}

// view builds one view of a model.
func view(t testing.TB, m *tensorfs.Model, name string, opts Options) Built {
	t.Helper()
	for _, b := range Build(m, opts) {
		if b.Name == name {
			checkBuilt(t, b)
			return b
		}
	}
	t.Fatalf("no view %s", name)
	return Built{}
}

// checkBuilt holds what is true of every view: names in order, unique and fit
// for files; sizes that agree; sections that cover the data; one clear sentence
// for each reason.
func checkBuilt(t testing.TB, b Built) {
	t.Helper()
	for i := range b.Tensors.Len() {
		x := b.Tensors.At(i)
		if x.Name != b.Tensors.Name(i) || !tensorfs.ValidName(x.Name) || i > 0 && x.Name <= b.Tensors.Name(i-1) {
			t.Errorf("%s: tensor %d is called %q and %q", b.Name, i, x.Name, b.Tensors.Name(i))
		}
		if at, ok := Find(b.Tensors, x.Name); !ok || at != i {
			t.Errorf("%s: %s is found at %d, %v", b.Name, x.Name, at, ok)
		}
		size, _ := x.DType.Size(x.Shape)
		switch {
		case x.DType.Whole(), x.Quant != nil && b.Name != "raw":
		case strings.HasPrefix(b.Name, "npy"):
			if size += npyData; size == npyData {
				size = npyShort
			}
			fallthrough
		default:
			if x.Data.Size() != size {
				t.Errorf("%s: %s has %d bytes, %v of %v has %d", b.Name, x.Name, x.Data.Size(), x.DType, x.Shape, size)
			}
		}
		end := int64(0)
		for _, s := range x.Parts {
			if s.Offset != end || s.Bytes < 0 {
				t.Errorf("%s: sections of %s are %+v", b.Name, x.Name, x.Parts)
			}
			end += s.Bytes
		}
		if x.Parts != nil && end != x.Data.Size() || (x.Parts != nil) != (b.Name == "packed" || b.Name == "fused") {
			t.Errorf("%s: sections of %s are %+v of %d bytes", b.Name, x.Name, x.Parts, x.Data.Size())
		}
	}
	for i := range b.Absent.Len() {
		name, reason := b.Absent.Name(i), b.Absent.Reason(i)
		if _, ok := Find(b.Tensors, name); ok || i > 0 && name <= b.Absent.Name(i-1) {
			t.Errorf("%s: %s is absent, but not once", b.Name, name)
		}
		if reason == "" || strings.ContainsAny(reason, "\n\x00") || strings.HasSuffix(reason, ".") {
			t.Errorf("%s: %s is absent: %q", b.Name, name, reason)
		}
		if lost := !strings.HasPrefix(reason, "the model has no ") && !strings.HasPrefix(reason, "a companion of "); b.Absent.Lost(i) != lost {
			t.Errorf("%s: %s is lost: %v: %q", b.Name, name, b.Absent.Lost(i), reason)
		}
	}
}

// checkSummary compares, line by line; a line of want that ends in "..." is a
// beginning.
func checkSummary(t *testing.T, got []string, want string) {
	t.Helper()
	var lines []string
	for l := range strings.SplitSeq(strings.TrimSpace(want), "\n") {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	same := len(got) == len(lines)
	for i := 0; same && i < len(got); i++ {
		if begin, part := strings.CutSuffix(lines[i], "..."); part {
			same = strings.HasPrefix(got[i], begin)
		} else {
			same = got[i] == lines[i]
		}
	}
	if !same {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

func TestPacked(t *testing.T) {
	m := describe(t, `
		a.f32 F32 3
		b.f16 F16 2x2
		c.bf16 BF16 -
		d.f64 F64 2
		e.i8 I8 2
		f.i64 I64 2
		g.bool BOOL 2
		h.q4k Q4_K 2x256
		i.q8 big:Q8_0 2x32
		j.f32 big:F32 2
		k.i2s I2_S 1x128
		l.ik IQ4_K 1x256 a type of another program
		m.tl1 TL1 64 tiles are not known
		n.opaque F16 2 its numbers are not known
		o.repacked Q4_0_4_4 4x32
		p.repacked Q4_0_4_4 3x32 its rows do not divide
		q.f8 F8_E4M3 4
		r.e8m0 F8_E8M0 4
		s.c64 C64 1
		t.unknown UNKNOWN 5 nobody knows
		u.weight affine:4:64:F16 2x128
		v.weight affine:3:32:BF16 2x64
		w.weight affine:8:32:F32 3x2x32
		x.weight mxfp4 2x64
		y.weight nvfp4:global 2x32
		z.weight fp8 2x3`)
	checkSummary(t, summary(view(t, m, "packed", Options{})), `
		a.f32 F16 3 weights:F16@0+6
		b.f16 F16 2x2 weights:F16@0+8
		c.bf16 F16 - weights:F16@0+2
		h.q4k Q4_K 2x256 weights:Q4_K@0+288
		j.f32 F16 2 weights:F16@0+4
		k.i2s I2_S 1x128 weights:I2_S@0+64
		l.ik IQ4_K 1x256 weights:IQ4_K@0+144
		o.repacked Q4_0_4_4 4x32 weights:Q4_0_4_4@0+72
		u.weight affine of 4 bits in groups of 64 2x128 weights:U32@0+128 scales:F16@128+8 biases:F16@136+8
		v.weight affine of 3 bits in groups of 32 2x64 weights:U32@0+48 scales:F16@48+8 biases:F16@56+8
		w.weight affine of 8 bits in groups of 32 3x2x32 weights:U32@0+192 scales:F16@192+12 biases:F16@204+12
		x.weight mxfp4 of 4 bits in groups of 32 2x64 weights:U32@0+64 scales:U8@64+4
		y.weight nvfp4 of 4 bits in groups of 16 2x32 weights:U32@0+32 scales:U8@32+4
		- d.f64 no kernel takes F64; see raw/
		- e.i8 no kernel takes I8; see raw/
		- f.i64 no kernel takes I64; see raw/
		- g.bool no kernel takes BOOL; see raw/
		- i.q8 Q8_0 blocks of a big-endian file are not accepted by kernels; see raw/ and f16/
		- m.tl1 tiles are not known
		- n.opaque its numbers are not known
		- p.repacked its rows do not divide
		- q.f8 no kernel takes F8_E4M3; see raw/
		- r.e8m0 no kernel takes F8_E8M0; see raw/
		- s.c64 no kernel takes C64; see raw/
		- t.unknown nobody knows
		- u.biases a companion of u.weight and not a tensor of its own; see raw/
		- u.scales a companion of u.weight and not a tensor of its own; see raw/
		- v.biases a companion of v.weight and not a tensor of its own; see raw/
		- v.scales a companion of v.weight and not a tensor of its own; see raw/
		- w.biases a companion of w.weight and not a tensor of its own; see raw/
		- w.scales a companion of w.weight and not a tensor of its own; see raw/
		- x.scales a companion of x.weight and not a tensor of its own; see raw/
		- y.global_scale a companion of y.weight and not a tensor of its own; see raw/
		- y.scales a companion of y.weight and not a tensor of its own; see raw/
		- z.scales a companion of z.weight and not a tensor of its own; see raw/
		- z.weight 8-bit floats with scales beside them are not a layout that a kernel takes; see raw/ and f16/`)

	// Sections hold the bytes of their parts; scales of 16 bits pass unchanged.
	for _, x := range list(view(t, m, "packed", Options{}).Tensors) {
		stored, got := m.Tensor(x.Name), content(t, x.Data)
		var want []byte
		switch q := stored.Quant; {
		case q == nil && x.DType == tensorfs.F16:
			h, _ := half(stored, Options{})
			want = content(t, h.Data)
		case q == nil:
			want = content(t, stored.Data)
		default:
			want = content(t, stored.Data)
			for _, c := range []*tensorfs.Tensor{q.Scales, q.Biases} {
				if c != nil && c.DType == tensorfs.U8 {
					want = append(want, content(t, c.Data)...)
				} else if c != nil {
					want = append(want, halves(floatsOf(t, c))...)
				}
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", x.Name, got, want)
		}
		unchanged := stored.Quant == nil && stored.DType == x.DType && !stored.BigEndian || x.Name == "u.weight" || stored.Quant != nil && stored.Quant.Biases == nil
		if got := tensorfs.Extents(x.Data) != nil; got != unchanged {
			t.Errorf("%s is unchanged in the file: %v", x.Name, got)
		}
	}
}

// floatsOf reads a tensor of floats.
func floatsOf(t *testing.T, x *tensorfs.Tensor) []float32 {
	b := content(t, x.Data)
	n, _ := tensorfs.Elements(x.Shape)
	k, _ := kernel.Lookup(x.DType.String())
	v := make([]float32, n)
	for i := range v {
		v[i] = k.Number(b[i*k.Bytes:])
	}
	return v
}

func TestF16Reasons(t *testing.T) {
	m := describe(t, `
		a.i8 I8 2
		b.u64 U64 2
		c.bool BOOL 2
		d.tl2 TL2 64 tiles are not known
		e.opaque Q4_K 256 its numbers are not known
		f.foreign IQ4_K 1x256
		g.f6 F6_E2M3 4
		h.c64 C64 2
		i.repacked Q4_0_4_4 3x32
		j.repacked Q4_0_4_4 2x2x32
		k.repacked Q4_0_8_8 32
		l.repacked big:Q4_0_4_4 4x32
		m.i2s I2_S 4x64
		n.weight affine:4:64:F16 2x128
		o.long Q4_0_8_8 8x2097152
		p.f64 F64 2`)
	for layout, want := range map[string]string{
		"":        `I2_S of shape [4 64] does not divide into blocks of the order "128"; see raw/`,
		"64":      `I2_S of shape [4 64] does not divide into blocks of the order "64"; see raw/`,
		"rows4":   `I2_S of shape [4 64] does not divide into blocks of the order "rows4"; see raw/`,
		"trinity": "",
	} {
		lines := summary(view(t, m, "f16", Options{I2S: layout}))
		if want == "" {
			want = "m.i2s F16 4x64\n"
			lines = lines[:1]
			checkSummary(t, lines, want)
			continue
		}
		checkSummary(t, lines, `
		n.weight F16 2x128
		p.f64 F16 2
		- a.i8 I8 holds integers, which are not converted; see raw/
		- b.u64 U64 holds integers, which are not converted; see raw/
		- c.bool BOOL holds integers, which are not converted; see raw/
		- d.tl2 tiles are not known
		- e.opaque its numbers are not known
		- f.foreign tensorfs cannot decode IQ4_K; see raw/
		- g.f6 tensorfs cannot decode F6_E2M3; see raw/
		- h.c64 tensorfs cannot decode C64; see raw/
		- i.repacked Q4_0_4_4 with rows that are not a multiple of 4 cannot be put in order; see raw/
		- j.repacked Q4_0_4_4 with rows that are not a multiple of 4 cannot be put in order; see raw/
		- k.repacked Q4_0_8_8 with rows that are not a multiple of 8 cannot be put in order; see raw/
		- l.repacked Q4_0_4_4 in a big-endian file cannot be put in order; see raw/
		- m.i2s `+want+`
		- n.biases a companion of n.weight and not a tensor of its own; see raw/
		- n.scales a companion of n.weight and not a tensor of its own; see raw/
		- o.long Q4_0_8_8 mixes the bytes of several rows, and the rows of shape [8 2097152] are too long for that; see raw/`)
	}
}

// TestModulesThatDoNotFit holds that parts which contradict each other are left
// out with a reason, in f16/ and in packed/.
func TestModulesThatDoNotFit(t *testing.T) {
	of := func(d tensorfs.DType, shape ...int64) *tensorfs.Tensor {
		size, _ := d.Size(shape)
		return &tensorfs.Tensor{DType: d, Shape: shape, Data: plain(make([]byte, size))}
	}
	f16, u8, f32 := tensorfs.F16, tensorfs.U8, tensorfs.F32
	quant := func(q tensorfs.Quant) *tensorfs.Quant { return &q }
	big := of(f16, 2, 2)
	big.BigEndian = true
	for _, test := range []struct {
		name  string
		codes *tensorfs.Tensor
		quant *tensorfs.Quant
		want  string // "" where f16 takes it
	}{
		{"good", of(tensorfs.U32, 2, 8), quant(tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 32, Shape: []int64{2, 64}, Scales: of(f16, 2, 2), Biases: of(f16, 2, 2)}), ""},
		{"no scales", of(tensorfs.U32, 2, 8), quant(tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 32, Shape: []int64{2, 64}, Biases: of(f16, 2, 2)}), "affine needs scales, but has none; see raw/"},
		{"no biases", of(tensorfs.U32, 2, 8), quant(tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 32, Shape: []int64{2, 64}, Scales: of(f16, 2, 2)}), "affine needs biases of the type of its scales; see raw/"},
		{"biases of another type", of(tensorfs.U32, 2, 8), quant(tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 32, Shape: []int64{2, 64}, Scales: of(f16, 2, 2), Biases: of(f32, 2, 2)}), "affine needs biases of the type of its scales; see raw/"},
		{"integer scales", of(tensorfs.U32, 2, 8), quant(tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 32, Shape: []int64{2, 64}, Scales: of(u8, 2, 2), Biases: of(u8, 2, 2)}), "affine with 4 bits, groups of 32 and U8 scales is not supported; see raw/"},
		{"big-endian scales", of(tensorfs.U32, 2, 8), quant(tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 32, Shape: []int64{2, 64}, Scales: big, Biases: of(f16, 2, 2)}), "affine in a big-endian file is not supported; see raw/"},
		{"7 bits", of(tensorfs.U32, 2, 14), quant(tensorfs.Quant{Mode: "affine", Bits: 7, GroupSize: 32, Shape: []int64{2, 64}, Scales: of(f16, 2, 2), Biases: of(f16, 2, 2)}), "affine with 7 bits, groups of 32 and F16 scales is not supported; see raw/"},
		{"unknown mode", of(tensorfs.U32, 2, 8), quant(tensorfs.Quant{Mode: "magic", Bits: 4, GroupSize: 32, Shape: []int64{2, 64}, Scales: of(f16, 2, 2)}), "magic with 4 bits, groups of 32 and F16 scales is not supported; see raw/"},
		{"few scales", of(tensorfs.U32, 2, 8), quant(tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 32, Shape: []int64{2, 64}, Scales: of(f16, 2, 1), Biases: of(f16, 2, 2)}), "it has 4 bytes, but 4 blocks of U32 need 8; see raw/"},
		{"few codes", of(tensorfs.U32, 2, 4), quant(tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 32, Shape: []int64{2, 64}, Scales: of(f16, 2, 2), Biases: of(f16, 2, 2)}), "it has 32 bytes, but 4 blocks of U32 need 64; see raw/"},
		{"ragged groups", of(tensorfs.U32, 2, 6), quant(tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 32, Shape: []int64{2, 48}, Scales: of(f16, 2, 2), Biases: of(f16, 2, 2)}), "rows of shape [2 48] do not divide into groups of 32; see raw/"},
		{"no shape", of(tensorfs.U32, 4), quant(tensorfs.Quant{Mode: "mxfp4", Bits: 4, GroupSize: 32, Scales: of(u8, 1)}), "rows of shape [] do not divide into groups of 32; see raw/"},
		{"mxfp4 with biases", of(tensorfs.U32, 2, 8), quant(tensorfs.Quant{Mode: "mxfp4", Bits: 4, GroupSize: 32, Shape: []int64{2, 64}, Scales: of(u8, 2, 2), Biases: of(u8, 2, 2)}), "mxfp4 has only scales, but there is more beside it; see raw/"},
		{"affine with global scale", of(tensorfs.U32, 2, 8), quant(tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 32, Shape: []int64{2, 64}, Scales: of(f16, 2, 2), Biases: of(f16, 2, 2), Global: of(f32)}), "affine has only scales, but there is more beside it; see raw/"},
		{"global scale of halves", of(tensorfs.U32, 2, 8), quant(tensorfs.Quant{Mode: "nvfp4", Bits: 4, GroupSize: 16, Shape: []int64{2, 64}, Scales: of(u8, 2, 4), Global: of(f16)}), "the global scale is F16 of shape []: neither one factor nor one per leading index; see raw/"},
		{"three global scales", of(tensorfs.U32, 2, 8), quant(tensorfs.Quant{Mode: "nvfp4", Bits: 4, GroupSize: 16, Shape: []int64{2, 64}, Scales: of(u8, 2, 4), Global: of(f32, 3)}), "the global scale is F32 of shape [3]: neither one factor nor one per leading index; see raw/"},
		{"no global scales", of(tensorfs.U32, 2, 8), quant(tensorfs.Quant{Mode: "nvfp4", Bits: 4, GroupSize: 16, Shape: []int64{2, 64}, Scales: of(u8, 2, 4), Global: of(f32, 0)}), "the global scale is F32 of shape [0]: neither one factor nor one per leading index; see raw/"},
		{"overflow", of(tensorfs.U32, 2, 8), quant(tensorfs.Quant{Mode: "affine", Bits: 4, GroupSize: 32, Shape: []int64{1 << 40, 1 << 40}, Scales: of(f16, 2, 2), Biases: of(f16, 2, 2)}), "shape [1099511627776 1099511627776] takes more bytes as F16 than any file has; see raw/"},
		{"fp8", of(tensorfs.F8_E4M3, 4, 4), quant(tensorfs.Quant{Mode: "fp8", Bits: 8, Shape: []int64{4, 4}, Scales: of(f32)}), ""},
		{"fp8 without scales", of(tensorfs.F8_E4M3, 4, 4), quant(tensorfs.Quant{Mode: "fp8", Bits: 8, Shape: []int64{4, 4}}), "fp8 needs scales, but has none; see raw/"},
		{"fp8 with U8 scales", of(tensorfs.F8_E4M3, 4, 4), quant(tensorfs.Quant{Mode: "fp8", Bits: 8, Shape: []int64{4, 4}, Scales: of(u8)}), "F8_E4M3 with U8 scales is not supported; see raw/"},
		{"fp8 of integers", of(u8, 4, 4), quant(tensorfs.Quant{Mode: "fp8", Bits: 8, Shape: []int64{4, 4}, Scales: of(f32)}), "U8 with F32 scales is not supported; see raw/"},
		{"fp8 of another shape", of(tensorfs.F8_E4M3, 4, 4), quant(tensorfs.Quant{Mode: "fp8", Bits: 8, Shape: []int64{16}, Scales: of(f32)}), "F8_E4M3 with F32 scales is not supported; see raw/"},
		{"fp8 with two scales", of(tensorfs.F8_E4M3, 4, 4), quant(tensorfs.Quant{Mode: "fp8", Bits: 8, Shape: []int64{4, 4}, Scales: of(f32, 2)}), "it has 2 scales instead of one; see raw/"},
		{"fp8 with few blocks", of(tensorfs.F8_E4M3, 4, 4), quant(tensorfs.Quant{Mode: "fp8", Bits: 8, Block: [2]int{3, 3}, Shape: []int64{4, 4}, Scales: of(f32, 3)}), "it has 3 scales of blocks of 3 x 3, but shape [4 4] needs 4; see raw/"},
		{"fp8 with blocks of no columns", of(tensorfs.F8_E4M3, 4, 4), quant(tensorfs.Quant{Mode: "fp8", Bits: 8, Block: [2]int{3, 0}, Shape: []int64{4, 4}, Scales: of(f32, 2)}), "blocks of 3 x 0 do not exist; see raw/"},
		{"fp8 with blocks of negative rows", of(tensorfs.F8_E4M3, 4, 4), quant(tensorfs.Quant{Mode: "fp8", Bits: 8, Block: [2]int{-1, 4}, Shape: []int64{4, 4}, Scales: of(f32, 2)}), "blocks of -1 x 4 do not exist; see raw/"},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := *test.codes
			x.Name, x.Quant = "x", test.quant
			h, reason := half(&x, Options{})
			if reason != test.want {
				t.Errorf("f16: %q, want %q", reason, test.want)
			}
			if reason == "" {
				content(t, h.Data)
			}
			if p, reason := pack(&x, Options{}); (reason == "") != (test.want == "" && test.quant.Mode != "fp8") {
				t.Errorf("packed: %q", reason)
			} else if reason == "" {
				content(t, p.Data)
			}
		})
	}
	// The fused view relies on the packed one, whose factor is in raw/.
	if _, reason := pack(&tensorfs.Tensor{DType: f16, Opaque: "unknown"}, Options{}); reason != "unknown" {
		t.Error(reason)
	}
}

func TestNpy(t *testing.T) {
	long := strings.Repeat("n", 252)
	m := describe(t, `
		a F32 -
		b BF16 7
		c Q8_0 2x3x32
		d F16 5x0
		e I8 4
		f.weight affine:4:32:F16 2x64
		`+strings.Repeat("x", 251)+` F16 2
		`+long+` F16 2
		g F16 1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x3
		h F16 1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x3`)
	for _, test := range []struct{ files, numbers, descr string }{{"npy", "f16", "'<f2'"}, {"npy-f32", "f32", "'<f4'"}} {
		chosen, err := Choose([]string{test.files, test.numbers})
		if err != nil {
			t.Fatal(err)
		}
		b := view(t, m, test.files, Options{Views: chosen})
		checkSummary(t, summary(Built{Absent: b.Absent, Tensors: stored(nil)}), `
			- e.npy I8 holds integers, which are not converted; see raw/
			- f.biases.npy a companion of f.weight and not a tensor of its own; see raw/
			- f.scales.npy a companion of f.weight and not a tensor of its own; see raw/
			- h.npy a NumPy array has at most 32 dimensions, not 33; see `+test.numbers+`/
			- `+long+`.npy with .npy its name is longer than the 255 bytes of a file name; see `+test.numbers+`/`)
		numbers := view(t, m, test.numbers, Options{Views: chosen}).Tensors
		for _, x := range list(b.Tensors) {
			i, ok := Find(numbers, strings.TrimSuffix(x.Name, ".npy"))
			if !ok {
				t.Fatalf("%s/ has no %s", test.numbers, x.Name)
			}
			d := numbers.At(i)
			shape, data := parseNpy(t, content(t, x.Data), test.descr)
			if !slices.Equal(shape, d.Shape) || !bytes.Equal(data, content(t, d.Data)) {
				t.Errorf("%s is %v of %d bytes, want %v", x.Name, shape, len(data), d.Shape)
			}
		}
		i, _ := Find(b.Tensors, "b.npy")
		d := b.Tensors.At(i).Data
		checkData(t, tensorfs.Section(d, 4000, d.Size()-4000), content(t, d)[4000:])
	}
	shape := make([]int64, 32)
	for i := range shape {
		shape[i] = 1<<63 - 1
	}
	if n := len(npyHeader("<f2", shape, npyData)); n > npyData-1 {
		t.Errorf("the longest header has %d bytes", n)
	}
}

// TestChoose holds that views come in one order, each once, and that only chosen views are made.
func TestChoose(t *testing.T) {
	m := describe(t, "a F32 4")
	for _, test := range []struct{ names, want string }{
		{"default", "raw packed f16 bf16 f32 fused fused-f16 npy"},
		{"npy f16", "f16 npy"},
		{"npy", "npy"},
		{"fused-f16 npy-f32 raw raw", "raw fused-f16 npy-f32"},
		{"npy-f32 default npy", "raw packed f16 bf16 f32 fused fused-f16 npy npy-f32"},
		{"", ""},
	} {
		chosen, err := Choose(strings.Fields(test.names))
		if err != nil {
			t.Error(err)
		}
		var got []string
		for _, b := range Build(m, Options{Views: chosen}) {
			checkBuilt(t, b)
			got = append(got, b.Name)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%q gives %v, want %s", test.names, got, test.want)
		}
	}
	if n := len(Build(m, Options{})); n != 8 {
		t.Errorf("%d views without a choice", n)
	}
	want := `"f64" is not a view; the views are raw, packed, f16, bf16, f32, fused, fused-f16, npy, npy-f32; default means all views that need not be named`
	if _, err := Choose([]string{"f16", "f64"}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestWiderAbsent holds that f32/ leaves out what f16/ does, and what no file has
// room for.
func TestWiderAbsent(t *testing.T) {
	x := tensorfs.Tensor{Name: "x", DType: tensorfs.F16, Shape: []int64{1 << 59}, Data: zero{1 << 60}}
	m := &tensorfs.Model{Tensors: []tensorfs.Tensor{x}}
	for name, want := range map[string]string{
		"f16":  "x F16 576460752303423488",
		"bf16": "x BF16 576460752303423488",
		"f32":  "- x shape [576460752303423488] takes more bytes as F32 than any file has; see raw/",
	} {
		checkSummary(t, summary(view(t, m, name, Options{})), want)
	}
}

// parseNpy reads an .npy file by NumPy's format specification, and insists that data begin on a
// page, and that every page has data.
func parseNpy(t *testing.T, b []byte, descr string) (shape []int64, data []byte) {
	t.Helper()
	if len(b) < 10 || string(b[:6]) != "\x93NUMPY" || b[6] != 1 || b[7] != 0 {
		t.Fatalf("begins with %q", b[:min(len(b), 10)])
	}
	n := int(binary.LittleEndian.Uint16(b[8:]))
	header, data := string(b[10:10+n]), b[10+n:]
	if (10+n)%4096 != 0 && len(data) > 0 || len(b) == 4096 || !strings.HasSuffix(header, " \n") {
		t.Fatalf("%d bytes of header, ending in %q", n, header[len(header)-2:])
	}
	dict, ok := strings.CutPrefix(strings.TrimSpace(header), "{")
	dict, ok2 := strings.CutSuffix(dict, "}")
	if !ok || !ok2 {
		t.Fatalf("header %q", header)
	}
	got := map[string]string{}
	for dict = strings.TrimSpace(dict); dict != ""; dict = strings.TrimSpace(dict) {
		var key, value string
		if key, dict, ok = strings.Cut(dict, ":"); !ok {
			t.Fatalf("no value after %q", key)
		}
		end := ","
		if dict = strings.TrimSpace(dict); dict[0] == '(' {
			end = "),"
		}
		if value, dict, ok = strings.Cut(dict, end); !ok {
			t.Fatalf("no comma after %q", value)
		}
		got[key] = value
	}
	if len(got) != 3 || got["'descr'"] != descr || got["'fortran_order'"] != "False" || got["'shape'"] == "" {
		t.Fatalf("header %v", got)
	}
	tuple := strings.TrimPrefix(got["'shape'"], "(")
	dims := strings.Split(tuple, ",")
	if len(dims) == 1 && strings.TrimSpace(dims[0]) != "" {
		t.Fatalf("(%s) is a number and no tuple", tuple)
	}
	for i, d := range dims {
		if d = strings.TrimSpace(d); d == "" && i == len(dims)-1 {
			break
		}
		n, err := strconv.ParseInt(d, 10, 64)
		if err != nil {
			t.Fatalf("(%s): %v", tuple, err)
		}
		shape = append(shape, n)
	}
	return shape, data
}

// TestWeightNames holds that modules which are stored under another name have
// their weight's in the views that join codes and scales, and in groups.
func TestWeightNames(t *testing.T) {
	m := describe(t, `
		layers.0.ffn.gate.blocks mxfp4 2x64
		layers.0.ffn.up.blocks mxfp4 2x64
		layers.1.ffn.up.blocks mxfp4 2x64`)
	for i := range m.Tensors {
		if x := &m.Tensors[i]; x.Quant != nil {
			x.Quant.Weight = strings.TrimSuffix(x.Name, "blocks") + "weight"
			if strings.HasPrefix(x.Name, "layers.1.") {
				x.Quant.Scales = nil
			}
		}
	}
	mx := " mxfp4 of 4 bits in groups of 32 "
	for name, want := range map[string]string{
		"packed": `
			layers.0.ffn.gate.weight` + mx + `2x64 weights:U32@0+64 scales:U8@64+4
			layers.0.ffn.up.weight` + mx + `2x64 weights:U32@0+64 scales:U8@64+4
			- layers.0.ffn.gate.blocks.scales a companion of layers.0.ffn.gate.blocks and...
			- layers.0.ffn.up.blocks.scales a companion of layers.0.ffn.up.blocks and...
			- layers.1.ffn.up.blocks.scales a companion of layers.1.ffn.up.blocks and...
			- layers.1.ffn.up.weight mxfp4 needs scales, but has none; see raw/`,
		"npy": `
			layers.0.ffn.gate.weight.npy F16 2x64
			layers.0.ffn.up.weight.npy F16 2x64
			- layers.0.ffn.gate.blocks.scales.npy a companion...
			- layers.0.ffn.up.blocks.scales.npy a companion...
			- layers.1.ffn.up.blocks.scales.npy a companion...
			- layers.1.ffn.up.weight.npy mxfp4 needs scales, but has none; see raw/`,
		"fused": `
			layers.0.ffn.gate_up.weight` + mx + `4x64 weights:U32@0+128 scales:U8@128+8
			- layers.1.ffn.gate_up.weight the model has no layers.1.ffn.gate.weight`,
		"fused-f16": `
			layers.0.ffn.gate_up.weight F16 4x64
			- layers.1.ffn.gate_up.weight the model has no layers.1.ffn.gate.weight`,
	} {
		checkSummary(t, summary(view(t, m, name, Options{})), want)
	}
}

// TestTernaryWithoutScale holds that nothing but Trinity's order is read into
// codes without a scale.
func TestTernaryWithoutScale(t *testing.T) {
	x := tensorfs.Tensor{DType: tensorfs.I2_S, Shape: []int64{1, 128}, Data: plain(make([]byte, 32))}
	for layout, want := range map[string]string{
		"": "", "trinity": "",
		"128":   `I2_S without a scale has Trinity's order, not "128"; see raw/`,
		"rows4": `I2_S without a scale has Trinity's order, not "rows4"; see raw/`,
	} {
		if _, reason := half(&x, Options{I2S: layout}); reason != want {
			t.Errorf("%q: %q, want %q", layout, reason, want)
		}
	}
	for _, size := range []int{31, 33, 65} {
		x.Data = plain(make([]byte, size))
		if _, reason := half(&x, Options{}); reason == "" {
			t.Errorf("%d bytes are taken for 128 codes", size)
		}
	}
}

// TestManyScales holds that no read asks for more scales than fit in memory.
func TestManyScales(t *testing.T) {
	for cols, ok := range map[int64]bool{maxScales: true, maxScales + 1: false} {
		scales := tensorfs.Tensor{DType: tensorfs.BF16, Shape: []int64{2, cols}, Data: zero{4 * cols}}
		x := tensorfs.Tensor{DType: tensorfs.F8_E4M3, Shape: []int64{2, cols}, Data: zero{2 * cols}}
		x.Quant = &tensorfs.Quant{Mode: "fp8", Bits: 8, Block: [2]int{1, 1}, Shape: x.Shape, Scales: &scales}
		h, reason := half(&x, Options{})
		if (reason == "") != ok {
			t.Errorf("rows of %d scales: %q", cols, reason)
		}
		if reason == "" {
			if n, err := h.Data.ReadAt(make([]byte, 100), 2*cols-50); n != 100 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
	}
}
