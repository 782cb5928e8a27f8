package views

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// f16 shows every tensor whose numbers are known as IEEE half, row-major: the
// reference's F32 value rounded to nearest even.
func f16(ts []tensorfs.Tensor, opts Options) ([]tensorfs.Tensor, []Absent) {
	var out []tensorfs.Tensor
	var absent []Absent
	for i := range ts {
		t := &ts[i]
		h, reason := half(t, opts)
		if reason != "" {
			absent = append(absent, Absent{t.Name, reason})
			continue
		}
		out = append(out, h)
	}
	return out, absent
}

// half returns t as IEEE half, or why that is not possible.
func half(t *tensorfs.Tensor, opts Options) (h tensorfs.Tensor, reason string) {
	if reason := wanting(t); reason != "" {
		return h, reason
	}
	h = tensorfs.Tensor{Name: weightName(t), Source: t.Source, DType: tensorfs.F16, Shape: t.Shape}
	if t.Quant != nil {
		h.Shape = t.Quant.Shape
	}
	if t.DType == tensorfs.F16 && !t.BigEndian && t.Quant == nil {
		h.Data = t.Data
		return h, ""
	}
	c, err := codecOf(t, opts)
	if err != nil {
		return h, err.Error()
	}
	h.Data = &convert{c}
	return h, ""
}

// wanting says why a tensor has no numbers to show, "" where it has.
func wanting(t *tensorfs.Tensor) string {
	switch {
	case t.Owner != "":
		return "a companion of " + t.Owner + ", which already contains it"
	case t.Opaque != "":
		return t.Opaque
	case t.Quant == nil && t.DType.Kind() == tensorfs.KindInteger:
		return t.DType.String() + " holds integers, which half cannot hold exactly; see raw/"
	}
	return ""
}

// weightName is the name of the module's weight in the views that join codes
// and scales.
func weightName(t *tensorfs.Tensor) string {
	if t.Quant != nil && t.Quant.Weight != "" {
		return t.Quant.Weight
	}
	return t.Name
}

// codecOf returns how t becomes IEEE half.
func codecOf(t *tensorfs.Tensor, opts Options) (codec, error) {
	switch {
	case t.Quant != nil && t.Quant.Mode == "fp8":
		return fp8Codec(t)
	case t.Quant != nil:
		return groupCodec(t)
	case t.DType == tensorfs.I2_S:
		return i2sCodec(t, opts)
	}
	if rows, repack, ok := kernel.Deinterleave(t.DType.String(), int(t.Cols())); ok {
		return interleavedCodec(t, rows, repack)
	}
	return blockCodec(t)
}

// noDecoder says that a type has no decoder.
func noDecoder(t *tensorfs.Tensor) error {
	return fmt.Errorf("%s cannot be decoded from the file alone; see raw/", t.DType)
}

// blockCodec decodes a type whose blocks stand on their own.
func blockCodec(t *tensorfs.Tensor) (codec, error) {
	d, ok := kernel.Lookup(t.DType.String())
	if !ok {
		return codec{}, noDecoder(t)
	}
	c := codec{
		streams: []stream{{t.Data, int64(d.Bytes)}},
		elems:   int64(d.Elems),
		blocks:  t.Data.Size() / int64(d.Bytes),
		decode:  func(dst []byte, _ int64, in *inputs) { d.Decode(dst, in[0]) },
	}
	if t.BigEndian && len(d.Fields) > 0 {
		c.decode = func(dst []byte, _ int64, in *inputs) {
			p := scratch.Get().(*[]byte)
			defer scratch.Put(p)
			*p = append((*p)[:0], in[0]...)
			d.Swap(*p)
			d.Decode(dst, *p)
		}
	}
	return c, nil
}

// interleavedCodec decodes the removed Q4_0 variants, which mix the bytes of
// some rows: one block here is a group of rows.
func interleavedCodec(t *tensorfs.Tensor, rows int, repack func(dst, src []byte)) (codec, error) {
	if t.BigEndian {
		return codec{}, fmt.Errorf("%s in a big-endian file cannot be put in order; see raw/", t.DType)
	}
	plain, ok := kernel.Lookup("Q4_0")
	stored, fits := t.DType.Size([]int64{int64(rows), t.Cols()})
	if !ok || !fits || stored == 0 || t.Data.Size()%stored != 0 {
		return codec{}, fmt.Errorf("%s with rows that are no multiple of %d cannot be put in order; see raw/", t.DType, rows)
	}
	return codec{
		streams: []stream{{t.Data, stored}},
		elems:   int64(rows) * t.Cols(),
		blocks:  t.Data.Size() / stored,
		decode: func(dst []byte, _ int64, in *inputs) {
			p := scratch.Get().(*[]byte)
			defer scratch.Put(p)
			out := len(dst) / (len(in[0]) / int(stored))
			for src := in[0]; len(src) > 0; src, dst = src[stored:], dst[out:] {
				*p = slices.Grow((*p)[:0], int(stored))[:stored]
				repack(*p, src[:stored])
				plain.Decode(dst[:out], *p)
			}
		},
	}, nil
}

// i2sCodec decodes BitNet's I2_S: codes, then 32 bytes of which the first four
// are the tensor's F32 scale. Without these 32 bytes the codes are Trinity's.
func i2sCodec(t *tensorfs.Tensor, opts Options) (codec, error) {
	n, _ := tensorfs.Elements(t.Shape)
	layout := opts.I2S
	scaled := t.Data.Size() == n/4+32
	switch {
	case layout == "" && scaled:
		layout = "128"
	case layout == "":
		layout = "trinity"
	case layout != "trinity" && !scaled:
		return codec{}, fmt.Errorf("I2_S without a scale has Trinity's order, not %q; see raw/", layout)
	}
	d, ok := kernel.I2S(layout, int(t.Cols()))
	if !ok || n%int64(d.Elems) != 0 || n%4 != 0 || t.Data.Size() < n/4 || layout != "trinity" && t.Cols()%128 != 0 {
		return codec{}, fmt.Errorf("I2_S of shape %v does not divide into blocks of the order %q; see raw/", t.Shape, layout)
	}
	c := codec{
		streams: []stream{{slice(t.Data, 0, n/4), int64(d.Bytes)}},
		elems:   int64(d.Elems),
		blocks:  n / int64(d.Elems),
		decode:  func(dst []byte, _ int64, in *inputs) { d.Decode(dst, in[0], 1) },
	}
	if layout != "trinity" {
		c.streams = append(c.streams, stream{slice(t.Data, n/4, 4), 0})
		c.decode = func(dst []byte, _ int64, in *inputs) { d.Decode(dst, in[0], float32At(in[1], 0, t.BigEndian)) }
	}
	return c, nil
}

// groupCodec decodes codes with scales (and biases) in tensors of their own.
func groupCodec(t *tensorfs.Tensor) (codec, error) {
	q := t.Quant
	g, ok := kernel.LookupGroup(q.Mode, q.Bits, q.GroupSize, q.Scales.DType.String())
	if !ok {
		return codec{}, fmt.Errorf("%s with %d bits, groups of %d and %s scales is not supported; see raw/", q.Mode, q.Bits, q.GroupSize, q.Scales.DType)
	}
	n, _ := tensorfs.Elements(q.Shape)
	c := codec{
		streams: []stream{{t.Data, int64(g.Codes)}, {q.Scales.Data, int64(g.Scale)}},
		elems:   int64(g.Elems),
		blocks:  n / int64(g.Elems),
		decode:  func(dst []byte, _ int64, in *inputs) { g.Decode(dst, in[0], in[1], in[2], 1) },
	}
	switch {
	case g.Bias > 0:
		c.streams = append(c.streams, stream{q.Biases.Data, int64(g.Bias)})
	case q.Global != nil:
		return c, globalFactor(&c, t, g)
	}
	return c, nil
}

// globalFactor makes c multiply by one factor for the whole tensor, or by one
// for each index of the leading dimension.
func globalFactor(c *codec, t *tensorfs.Tensor, g kernel.Group) error {
	q := t.Quant
	n, _ := tensorfs.Elements(q.Global.Shape)
	if q.Global.DType != tensorfs.F32 || n != 1 && (len(q.Shape) == 0 || n != q.Shape[0]) {
		return fmt.Errorf("the global scale is %s of shape %v: neither one factor nor one per leading index; see raw/", q.Global.DType, q.Global.Shape)
	}
	each := c.blocks
	if n > 0 {
		each = c.blocks / n
	}
	c.streams = append(c.streams, stream{q.Global.Data, 0})
	out := 2 * int64(g.Elems)
	c.decode = func(dst []byte, first int64, in *inputs) {
		for at := int64(0); len(dst) > 0; {
			run := min(int64(len(dst))/out, each-(first+at)%each)
			g.Decode(dst[:run*out], in[0][at*int64(g.Codes):(at+run)*int64(g.Codes)],
				in[1][at*int64(g.Scale):(at+run)*int64(g.Scale)], nil, float32At(in[2], (first+at)/each, false))
			dst, at = dst[run*out:], at+run
		}
	}
	return nil
}

// fp8Codec decodes 8-bit floats that have one scale, or one per block of rows
// and columns. A block here is a row.
func fp8Codec(t *tensorfs.Tensor) (codec, error) {
	decode, ok := map[tensorfs.DType]func(dst, src []byte, scale float32){
		tensorfs.F8_E4M3: kernel.ScaledF8,
		tensorfs.F8_E5M2: kernel.ScaledF8E5M2,
	}[t.DType]
	q := t.Quant
	scaleAt, known := scaleReaders[q.Scales.DType]
	if !ok || !known {
		return codec{}, fmt.Errorf("%s with %s scales is not supported; see raw/", t.DType, q.Scales.DType)
	}
	n, _ := tensorfs.Elements(t.Shape)
	cols := t.Cols()
	rowsPer, colsPer := int64(q.Block[0]), int64(q.Block[1])
	if rowsPer <= 0 || colsPer <= 0 { // one scale for all
		rowsPer, colsPer = max(n, 1), max(cols, 1)
	}
	if n == 0 {
		return codec{elems: 1, decode: func([]byte, int64, *inputs) {}}, nil
	}
	perRow := (cols + colsPer - 1) / colsPer
	rows := int64(1)
	if len(t.Shape) > 1 {
		rows = t.Shape[len(t.Shape)-2]
	}
	perMatrix := (rows + rowsPer - 1) / rowsPer * perRow
	have, _ := tensorfs.Elements(q.Scales.Shape)
	if want := perMatrix * (n / cols / rows); have != want && !(have == 1 && q.Block[0] == 0) {
		return codec{}, fmt.Errorf("%d scales of blocks of %d x %d where shape %v needs %d; see raw/", have, rowsPer, colsPer, t.Shape, want)
	}
	return codec{
		streams: []stream{{t.Data, cols}, {q.Scales.Data, 0}},
		elems:   cols,
		blocks:  n / cols,
		decode: func(dst []byte, first int64, in *inputs) {
			for src := in[0]; len(src) > 0; first++ {
				at := int64(0)
				if have > 1 {
					at = first/rows*perMatrix + first%rows/rowsPer*perRow
				}
				for col := int64(0); col < cols; col += colsPer {
					n := min(colsPer, cols-col)
					decode(dst[:2*n], src[:n], scaleAt(in[1], at))
					src, dst = src[n:], dst[2*n:]
					if have > 1 {
						at++
					}
				}
			}
		},
	}, nil
}
