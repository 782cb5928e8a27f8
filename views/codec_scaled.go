package views

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// groupCodec decodes codes with scales (and biases) in tensors of their own.
func groupCodec(t *tensorfs.Tensor, to kernel.Float) (codec, error) {
	q := t.Quant
	if err := checkCompanions(t); err != nil {
		return codec{}, err
	}
	g, ok := to.LookupGroup(q.Mode, q.Bits, q.GroupSize, scaleType(q))
	if !ok {
		return codec{}, fmt.Errorf("%s with %d bits, groups of %d and %s scales is not supported; see raw/", q.Mode, q.Bits, q.GroupSize, q.Scales.DType)
	}
	n, _ := tensorfs.Elements(q.Shape)
	if len(q.Shape) == 0 || q.Shape[len(q.Shape)-1]%int64(g.Elems) != 0 {
		return codec{}, fmt.Errorf("rows of shape %v do not divide into groups of %d; see raw/", q.Shape, g.Elems)
	}
	c := codec{
		streams: []stream{blocksOf(t.Data, int64(g.Codes)), blocksOf(q.Scales.Data, int64(g.Scale))},
		elems:   int64(g.Elems),
		blocks:  n / int64(g.Elems),
		decode: func(dst []byte, _ int64, in inputs) error {
			g.Decode(dst, in[0], in[1], in[2], 1)
			return nil
		},
	}
	switch {
	case g.Bias > 0 && (q.Biases == nil || q.Biases.DType != q.Scales.DType):
		return codec{}, fmt.Errorf("%s needs biases of the type of its scales; see raw/", q.Mode)
	case g.Bias > 0:
		c.streams = append(c.streams, blocksOf(q.Biases.Data, int64(g.Bias)))
	case q.Global != nil:
		if err := globalFactor(&c, t, g); err != nil {
			return codec{}, err
		}
	}
	return c, nil
}

// scaleType names the type of a module's scales as kernels do, which have powers of two as bytes.
func scaleType(q *tensorfs.Quant) string {
	if q.Scales.DType == tensorfs.F8_E8M0 && strings.HasPrefix(q.Mode, "mx") {
		return tensorfs.U8.String()
	}
	return q.Scales.DType.String()
}

// checkCompanions returns an error unless t's companions match [tensorfs.Quant].
func checkCompanions(t *tensorfs.Tensor) error {
	q := t.Quant
	if q.Scales == nil {
		return fmt.Errorf("%s needs scales, but has none; see raw/", q.Mode)
	}
	for _, c := range []*tensorfs.Tensor{t, q.Scales, q.Biases, q.Global} {
		if c != nil && c.BigEndian {
			return fmt.Errorf("%s in a big-endian file is not supported; see raw/", q.Mode)
		}
	}
	if q.Biases != nil && q.Mode != "affine" || q.Global != nil && q.Mode != "nvfp4" {
		return fmt.Errorf("%s has only scales, but there is more beside it; see raw/", q.Mode)
	}
	return nil
}

// globalFactor makes c multiply by one factor for the whole tensor, or by one
// for each index of the leading dimension.
func globalFactor(c *codec, t *tensorfs.Tensor, g kernel.Group) error {
	q := t.Quant
	n, _ := tensorfs.Elements(q.Global.Shape)
	if q.Global.DType != tensorfs.F32 || n != 1 && n != q.Shape[0] {
		return fmt.Errorf("the global scale is %s of shape %v: neither one factor nor one per leading index; see raw/", q.Global.DType, q.Global.Shape)
	}
	each := max(c.blocks/max(n, 1), 1) // blocks of one factor; no block without a factor
	c.streams = append(c.streams, stream{q.Global.Data, func(first, n int64) (int64, int64) {
		from, to := first/each, (first+n+each-1)/each
		return 4 * from, 4 * (to - from)
	}})
	out := int64(g.To) * int64(g.Elems)
	c.decode = func(dst []byte, first int64, in inputs) error {
		for at := int64(0); len(dst) > 0; {
			run := min(int64(len(dst))/out, each-(first+at)%each)
			factor := float32At(in[2], (first+at)/each-first/each, false)
			g.Decode(dst[:run*out], in[0][at*int64(g.Codes):(at+run)*int64(g.Codes)],
				in[1][at*int64(g.Scale):(at+run)*int64(g.Scale)], nil, factor)
			dst, at = dst[run*out:], at+run
		}
		return nil
	}
	return nil
}

// maxScales bounds the scales of a row, because a read that crosses the end of a
// row needs all of them at once.
const maxScales = 1 << 22

// fp8Codec decodes 8-bit floats that have one scale, or one per block of rows
// and columns of each matrix, or of each shard of one; blocks at the edges are
// cut off. A block of the codec is one element.
func fp8Codec(t *tensorfs.Tensor, to kernel.Float) (codec, error) {
	q := t.Quant
	if err := checkCompanions(t); err != nil {
		return codec{}, err
	}
	codes, _ := to.Lookup(t.DType.String())
	scale, _ := kernel.Lookup(q.Scales.DType.String())
	decode, width, size := codes.Scaled, int64(scale.Bytes), int64(to)
	if decode == nil || scale.Number == nil || !slices.Equal(q.Shape, t.Shape) {
		return codec{}, fmt.Errorf("%s with %s scales is not supported; see raw/", t.DType, q.Scales.DType)
	}
	n, _ := tensorfs.Elements(t.Shape)
	have, _ := tensorfs.Elements(q.Scales.Shape)
	c := codec{streams: []stream{blocksOf(t.Data, 1)}, elems: 1, blocks: n}
	if q.Block == [2]int{} {
		if have != 1 {
			return codec{}, fmt.Errorf("it has %d scales instead of one; see raw/", have)
		}
		c.streams = append(c.streams, allOf(q.Scales.Data))
		c.decode = func(dst []byte, _ int64, in inputs) error {
			decode(dst, in[0], scale.Number(in[1]))
			return nil
		}
		return c, nil
	}
	cols, rows := t.Cols(), int64(1)
	if len(t.Shape) > 1 {
		rows = t.Shape[len(t.Shape)-2]
	}
	rowsPer, colsPer := int64(q.Block[0]), int64(q.Block[1])
	if rowsPer <= 0 || colsPer <= 0 {
		return codec{}, fmt.Errorf("blocks of %d x %d do not exist; see raw/", rowsPer, colsPer)
	}
	if shards := int64(q.Shards); shards > 1 {
		if len(t.Shape) != 2 || rows%shards != 0 {
			return codec{}, fmt.Errorf("shape %v does not divide into %d shards; see raw/", t.Shape, shards)
		}
		rows /= shards
	}
	perRow := divideUp(cols, colsPer)
	perMatrix := divideUp(rows, rowsPer) * perRow
	if want := n / cols / rows * perMatrix; have != want {
		return codec{}, fmt.Errorf("it has %d scales of blocks of %d x %d, but shape %v needs %d; see raw/", have, rowsPer, colsPer, t.Shape, want)
	}
	if perRow > maxScales {
		return codec{}, fmt.Errorf("rows of %d scales are too long; see raw/", perRow)
	}
	// scalesOf is the number of the first scale of a row.
	scalesOf := func(row int64) int64 { return row/rows*perMatrix + row%rows/rowsPer*perRow }
	c.streams = append(c.streams, stream{q.Scales.Data, func(first, n int64) (int64, int64) {
		from, to := scalesOf(first/cols), scalesOf((first+n-1)/cols)+perRow
		return width * from, width * (to - from)
	}})
	c.decode = func(dst []byte, first int64, in inputs) error {
		base := scalesOf(first / cols)
		for at, src := first, in[0]; len(src) > 0; {
			row, col := at/cols, at%cols
			n := min(cols-col, colsPer-col%colsPer, int64(len(src)))
			decode(dst[:size*n], src[:n], scale.Number(in[1][width*(scalesOf(row)-base+col/colsPer):]))
			src, dst, at = src[n:], dst[size*n:], at+n
		}
		return nil
	}
	return c, nil
}

// divideUp returns a/b, rounded up. Unlike (a+b-1)/b it cannot overflow.
func divideUp(a, b int64) int64 {
	n := a / b
	if a%b > 0 {
		n++
	}
	return n
}
