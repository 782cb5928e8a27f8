package views

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// table reads tensors from fuzzing input.
type table struct{ in []byte }

func (f *table) byte() byte {
	if len(f.in) == 0 {
		return 0
	}
	b := f.in[0]
	f.in = f.in[1:]
	return b
}

// dim returns a dimension: mostly small, sometimes anything.
func (f *table) dim() int64 {
	switch b := f.byte(); {
	case b < 200:
		return int64(b % 9)
	case b < 240:
		return int64(b-199) * 32
	case b < 250:
		return 1 << (b - 200)
	default:
		var v [8]byte
		for i := range v {
			v[i] = f.byte()
		}
		return int64(binary.LittleEndian.Uint64(v[:]) >> 1)
	}
}

func (f *table) shape() []int64 {
	shape := make([]int64, f.byte()%5)
	for i := range shape {
		shape[i] = f.dim()
	}
	return shape
}

// tensor returns a tensor of any type and shape with data of the right size.
func (f *table) tensor(name string) tensorfs.Tensor {
	t := tensorfs.Tensor{Name: name, Source: name, DType: tensorfs.DType(f.byte()) % (tensorfs.F8_E5M2FNUZ + 1), Shape: f.shape()}
	size, ok := t.DType.Size(t.Shape)
	if !ok {
		size = int64(f.byte()) * 4
		if n, ok := tensorfs.Elements(t.Shape); ok && f.byte()%2 == 0 && n < 1<<40 {
			size = n/4 + 32*int64(f.byte()%2) // I2_S
		}
	}
	t.Data = zero{size}
	flags := f.byte()
	t.BigEndian = flags&1 > 0
	if flags&6 == 6 {
		t.Opaque = "because"
	}
	if flags&24 == 24 {
		t.Owner = "another"
	}
	return t
}

// companion returns nil or a tensor that may or may not fit.
func (f *table) companion() *tensorfs.Tensor {
	if f.byte()%4 == 0 {
		return nil
	}
	t := f.tensor("companion")
	return &t
}

func (f *table) quant(t *tensorfs.Tensor) {
	q := &tensorfs.Quant{Mode: []string{"affine", "mxfp4", "mxfp8", "nvfp4", "fp8", "other"}[f.byte()%6], Bits: int(f.byte() % 10), GroupSize: int(f.byte())}
	if f.byte()%8 == 0 {
		q.GroupSize = int(f.dim())
	}
	q.Block = [2]int{int(f.dim()), int(f.dim())}
	q.Scales, q.Biases, q.Global = f.companion(), f.companion(), f.companion()
	q.Shape = f.shape()
	if f.byte()%4 > 0 { // make it fit, or nearly
		if q.Mode == "affine" {
			q.Bits, q.GroupSize = []int{2, 3, 4, 5, 6, 8}[q.Bits%6], 32
		}
		q.Bits, q.GroupSize = max(q.Bits, 1), max(q.GroupSize, 1)
		if q.Mode != "affine" && q.Mode != "fp8" {
			bits := map[string][2]int{"mxfp4": {4, 32}, "mxfp8": {8, 32}, "nvfp4": {4, 16}, "other": {4, 32}}[q.Mode]
			q.Bits, q.GroupSize = bits[0], bits[1]
		}
		if n := len(t.Shape); n > 0 && t.Shape[n-1] < 1<<40 && q.Mode != "fp8" {
			q.Shape = append(append([]int64(nil), t.Shape[:n-1]...), t.Shape[n-1]*32/int64(q.Bits))
			scales := append([]int64(nil), q.Shape...)
			scales[n-1] /= int64(q.GroupSize)
			for _, c := range []*tensorfs.Tensor{q.Scales, q.Biases} {
				if c != nil {
					c.Shape = scales
					size, _ := c.DType.Size(scales)
					c.Data = zero{size}
				}
			}
		} else {
			q.Shape = t.Shape
		}
	}
	t.Quant = q
	if f.byte()%4 == 0 {
		q.Weight = t.Name + "w"
	}
}

// FuzzBuild makes the views of any table of tensors and reads them.
func FuzzBuild(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1}, 100))
	for seed := range uint64(20) {
		f.Add(random(seed, 60+int(seed)*20))
	}
	names := []string{
		"layers.0.attention.q.weight", "layers.0.attention.k.weight", "layers.0.attention.v.weight", "layers.0.ffn.gate.weight",
		"layers.0.ffn.up.weight", "layers.0.ffn.experts.gate.weight", "layers.0.ffn.experts.up.weight", "layers.0.ffn.experts.1.gate.bias",
		"layers.0.ffn.experts.1.up.bias", "layers.0.ffn.gate_up.weight", "enc.layers.0.ffn.gate.weight", "x.layers.1.", "layers..", "norm.weight",
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		x := &table{in: in}
		m := tensorfs.Model{Path: "m"}
		for _, name := range names {
			if len(x.in) == 0 {
				break
			}
			y := x.tensor(name)
			if x.byte()%2 == 0 {
				x.quant(&y)
			} else if n := len(m.Tensors); n > 0 && x.byte()%2 == 0 { // the same again, so that groups occur
				y = m.Tensors[n-1]
				y.Name, y.Source = name, name
				if y.Quant != nil && y.Quant.Weight != "" {
					q := *y.Quant
					q.Weight = name + "w"
					y.Quant = &q
				}
			}
			m.Tensors = append(m.Tensors, y)
		}
		model, err := tensorfs.NewModel(m)
		if err != nil {
			return
		}
		opts := Options{I2S: []string{"", "128", "64", "rows4", "trinity"}[x.byte()%5]}
		built := Build(model, opts)
		for _, b := range built {
			checkBuilt(t, b)
			for i := range b.Tensors.Len() {
				checkRead(t, b.Name, b.Tensors.At(i))
			}
		}
		if d := Index(model, built); !json.Valid(content(t, d)) {
			t.Error("index.json is not JSON")
		}
	})
}

// checkRead reads all of a small tensor, and the ends of a large one.
func checkRead(t *testing.T, view string, x tensorfs.Tensor) {
	t.Helper()
	size := x.Data.Size()
	for _, r := range [][2]int64{{0, 1 << 12}, {size/2 - 5, 700}, {size - 1<<12, 1 << 12}, {size - 1, 1}} {
		off := max(r[0], 0)
		p := make([]byte, r[1])
		n, err := x.Data.ReadAt(p, off)
		if want := min(r[1], size-off); int64(n) != want || err != nil && err != io.EOF {
			t.Errorf("%s/%s of %v %v, %d bytes: ReadAt(%d, %d) = %d, %v", view, x.Name, x.DType, x.Shape, size, r[1], off, n, err)
		}
	}
	tensorfs.Extents(x.Data)
}
