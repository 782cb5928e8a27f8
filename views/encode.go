package views

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// Encode returns the numbers of t as the stored type to, rows of whole blocks, or
// why that is not possible. Nothing is read before the result is.
//
//	F32               the reference's value itself
//	F16, BF16         that value, rounded to nearest even
//	Q4_0 to Q8_0,     that value, quantised as ggml does on x86, without an importance
//	Q2_K to Q6_K,     matrix: the bytes that llama-quantize writes
//	IQ4_NL, IQ4_XS,
//	MXFP4, TQ1_0,
//	TQ2_0, IQ3_S,
//	IQ3_XXS, IQ2_S,
//	IQ1_M
//	Q4_1, Q5_1,       of a module quantised by MLX with as many bits: its codes and
//	MXFP4, NVFP4      scales in another order; see [Exact]
//
// Any other type is possible only if t has it already. If to is a type of the last
// two lines and [Exact] names another one, a read fails when it meets numbers that
// to cannot hold.
func Encode(t *tensorfs.Tensor, to tensorfs.DType) (tensorfs.Data, error) {
	return Options{}.Encode(t, to)
}

// Encode is [Encode] for a model that is read as the options say.
func (o Options) Encode(t *tensorfs.Tensor, to tensorfs.DType) (tensorfs.Data, error) {
	shape := t.Numbers()
	size, ok := to.Size(shape)
	switch perBlock, _ := to.Block(); {
	case t.Owner != "":
		return nil, errors.New(companionOf(t.Owner))
	case t.Opaque != "":
		return nil, errors.New(t.Opaque)
	case t.Quant == nil && t.DType.Kind() == tensorfs.KindInteger && t.DType != to:
		return nil, fmt.Errorf("%s holds integers, which are not converted; see raw/", t.DType)
	case !ok && perBlock == 1:
		return nil, errors.New(tooLong(t, to))
	case !ok:
		return nil, fmt.Errorf("shape %v is not rows of whole blocks of %s; see raw/", shape, to)
	case size == 0:
		return tensorfs.Bytes(nil), nil
	}
	d, err := o.encode(t, to)
	if err != nil {
		return nil, err
	}
	if d.Size() != size {
		return nil, fmt.Errorf("%s of shape %v holds other numbers than shape %v; see raw/", t.DType, t.Shape, shape)
	}
	return d, nil
}

// Importance weighs the columns of a matrix for quantising: it returns the n values from
// first on, of all columns of the first matrix of a tensor, then of the next.
type Importance func(first, n int64) ([]float32, error)

// Weighted is [Encode] by an importance matrix, as ggml quantises with one: nil is as
// without. Types that pay no regard to it are as without, too. IQ1_S, IQ2_XXS and IQ2_XS are
// possible only with one.
func Weighted(t *tensorfs.Tensor, to tensorfs.DType, by Importance) (tensorfs.Data, error) {
	return Options{by: by}.Encode(t, to)
}

// Quantises reports whether any numbers become a type of blocks of ggml's without an importance
// matrix.
func Quantises(to tensorfs.DType) bool {
	e, _ := kernel.LookupEncoder(to.String())
	return e.Encode != nil && to.Kind() == tensorfs.KindBlock
}

// encode is Encode for a tensor that is not empty.
func (o Options) encode(t *tensorfs.Tensor, to tensorfs.DType) (tensorfs.Data, error) {
	if t.DType == to && !t.BigEndian && t.Quant == nil {
		return t.Data, nil
	}
	if to.Kind() == tensorfs.KindBlock {
		if same, best, exact, err := sameExact(t); err != nil {
			return nil, err
		} else if exact && best == to {
			return o.encode(same, to)
		}
	}
	c, err := o.encoding(t, to)
	if err != nil {
		return nil, err
	}
	return &convert{c}, nil
}

// encoding returns how t becomes a type that it does not have.
func (o Options) encoding(t *tensorfs.Tensor, to tensorfs.DType) (codec, error) {
	switch {
	case to == tensorfs.F32:
		return codecOf(t, o, kernel.Single)
	case to == tensorfs.F16:
		return codecOf(t, o, kernel.Half)
	case to == tensorfs.BF16 && t.DType == to && t.Quant == nil: // big-endian
		return swappedCodec(t)
	}
	e, encoded := kernel.LookupEncoder(to.String())
	if e.Weigh != nil && o.by != nil {
		return weightedCodec(t, o, e)
	}
	if encoded && e.Encode == nil {
		return codec{}, fmt.Errorf("%s is made only by an importance matrix that has values of the tensor", to)
	}
	if e, ok := kernel.LookupEncoderFrom(to.String(), t.DType.String()); ok && t.Quant == nil && !t.BigEndian {
		return directCodec(t, e)
	}
	c, p, ok, err := repackCodec(t)
	switch {
	case err != nil:
		return codec{}, err
	case ok && p.Type == to.String() && to == tensorfs.BF16:
		return roundingCodec(t, c, e)
	case ok && p.Type == to.String():
		return c, nil
	case encoded:
		return encoderCodec(t, o, e)
	}
	return codec{}, fmt.Errorf("%s cannot be converted to %s; ask for F16 or F32", encodingOf(t), to)
}

// swappedCodec gives big-endian numbers as little-endian ones of the same type:
// with all their bits, which the F32 of a signalling NaN does not keep.
func swappedCodec(t *tensorfs.Tensor) (codec, error) {
	c, err := blockCodec(t, kernel.Half)
	d, ok := kernel.Lookup(t.DType.String())
	if err != nil || !ok {
		return c, err
	}
	c.bytes = int64(d.Bytes)
	c.decode = func(dst []byte, _ int64, in inputs) error {
		copy(dst, in[0])
		d.Swap(dst)
		return nil
	}
	return c, c.check(t)
}

// directCodec encodes numbers as they are stored.
func directCodec(t *tensorfs.Tensor, e kernel.Encoder) (codec, error) {
	c := codec{
		streams: []stream{blocksOf(t.Data, int64(e.In))},
		elems:   int64(e.Elems),
		bytes:   int64(e.Bytes),
		blocks:  t.Data.Size() / int64(e.In),
		decode: func(dst []byte, _ int64, in inputs) error {
			e.Encode(dst, in[0])
			return nil
		},
	}
	return c, c.check(t)
}

// encodingOf names the encoding of t's numbers.
func encodingOf(t *tensorfs.Tensor) string {
	if q := t.Quant; q != nil {
		return fmt.Sprintf("%s with %d bits in groups of %d", q.Mode, q.Bits, q.GroupSize)
	}
	return t.DType.String()
}

// grouped returns c with per blocks taken as one.
func (c codec) grouped(per int64) (codec, error) {
	if c.blocks%per != 0 {
		return codec{}, fmt.Errorf("%d blocks are not groups of %d; see raw/", c.blocks, per)
	}
	if per == 1 {
		return c, nil
	}
	g := c
	g.elems, g.bytes, g.blocks = c.elems*per, c.bytes*per, c.blocks/per
	g.decode = func(dst []byte, first int64, in inputs) error { return c.decode(dst, first*per, in) }
	g.streams = slices.Clone(c.streams)
	for i, s := range c.streams {
		g.streams[i].span = func(first, n int64) (int64, int64) { return s.span(first*per, n*per) }
	}
	return g, nil
}

// maxFloats is how many numbers lie between the decoding and the encoding of a
// type, little enough for the CPU's nearest cache.
const maxFloats = 4096

// weightedCodec encodes rows of the F32 that t decodes to, by the importance of their columns.
func weightedCodec(t *tensorfs.Tensor, opts Options, e kernel.Encoder) (codec, error) {
	shape := t.Numbers()
	columns, rows := shape[len(shape)-1], int64(1) // of a matrix
	if len(shape) > 1 {
		rows = shape[len(shape)-2]
	}
	c, err := codecOf(t, opts, kernel.Single)
	if err != nil {
		return c, err
	}
	if columns > maxElems || columns%c.elems != 0 {
		return codec{}, fmt.Errorf("rows of %d numbers are not quantised by an importance matrix; see raw/", columns)
	}
	if c, err = c.grouped(columns / c.elems); err != nil {
		return codec{}, err
	}
	out := c
	out.bytes = columns / int64(e.Elems) * int64(e.Bytes)
	out.decode = func(dst []byte, first int64, in inputs) error {
		p := scratch.Get().(*[]byte)
		defer scratch.Put(p)
		step := max(maxFloats/columns, 1)
		for at, end := first, first+int64(len(dst))/out.bytes; at < end; {
			matrix := at / rows
			weights, err := opts.by(matrix*columns, columns)
			if err != nil {
				return err
			}
			for last := min((matrix+1)*rows, end); at < last; {
				n := min(step, last-at)
				*p = slices.Grow((*p)[:0], int(n*c.bytes))[:n*c.bytes]
				if err := c.decode(*p, at, c.part(in, first, at, n)); err != nil {
					return err
				}
				e.Weigh(dst[:n*out.bytes], *p, weights)
				dst, at = dst[n*out.bytes:], at+n
			}
		}
		return nil
	}
	return out, nil
}

// encoderCodec encodes the F32 that t decodes to.
func encoderCodec(t *tensorfs.Tensor, opts Options, e kernel.Encoder) (codec, error) {
	c, err := codecOf(t, opts, kernel.Single)
	if err != nil {
		return c, err
	}
	elems := lcm(c.elems, int64(e.Elems))
	if elems > maxElems {
		return codec{}, fmt.Errorf("blocks of %d numbers are too long for %s; see raw/", c.elems, e.Name)
	}
	if c, err = c.grouped(elems / c.elems); err != nil {
		return codec{}, err
	}
	out := c
	out.bytes = c.elems / int64(e.Elems) * int64(e.Bytes)
	step := max(maxFloats/c.elems, 1)
	out.decode = func(dst []byte, first int64, in inputs) error {
		p := scratch.Get().(*[]byte)
		defer scratch.Put(p)
		end := first + int64(len(dst))/out.bytes
		for at := first; at < end; at += step {
			n := min(step, end-at)
			*p = slices.Grow((*p)[:0], int(n*c.bytes))[:n*c.bytes]
			if err := c.decode(*p, at, c.part(in, first, at, n)); err != nil {
				return err
			}
			e.Encode(dst[:n*out.bytes], *p)
			dst = dst[n*out.bytes:]
		}
		return nil
	}
	return out, nil
}

// repackCodec puts the codes of a module quantised as MLX does into blocks of a type of
// ggml. It is false if no type fits.
func repackCodec(t *tensorfs.Tensor) (c codec, p kernel.Repack, ok bool, err error) {
	q := t.Quant
	if q == nil || q.Mode == "fp8" || q.Numbers != nil {
		return c, p, false, nil
	}
	if c, err = codecOf(t, Options{}, kernel.Half); err != nil {
		return c, p, false, err
	}
	p, ok = kernel.LookupRepack(q.Mode, q.Bits, q.GroupSize, scaleType(q))
	if per := int64(p.Elems) / c.elems; !ok || q.Global != nil || c.blocks%per != 0 || t.Numbers()[len(q.Shape)-1]%int64(p.Elems) != 0 {
		return c, p, false, nil
	} else if c, err = c.grouped(per); err != nil {
		return c, p, false, err
	}
	c.bytes = int64(p.Bytes)
	c.decode = func(dst []byte, first int64, in inputs) error {
		if n := p.Repack(dst, in[0], in[1], in[2]); n < len(dst)/p.Bytes {
			at := first + int64(n)
			return inexact{at, fmt.Errorf("%s cannot hold the %d numbers from %d on; ask for F16", p.Type, p.Elems, at*int64(p.Elems))}
		}
		return nil
	}
	return c, p, true, nil
}

// inexact is the error for a block that a repacking cannot hold.
type inexact struct {
	block int64
	error
}

// roundingCodec is the repacking c if that is exact, and e otherwise.
func roundingCodec(t *tensorfs.Tensor, c codec, e kernel.Encoder) (codec, error) {
	other, err := encoderCodec(t, Options{}, e)
	if err != nil {
		return c, err
	}
	if other, err = other.grouped(c.elems / other.elems); err != nil {
		return c, err
	}
	both := c
	both.decode = func(dst []byte, first int64, in inputs) error {
		for end := first + int64(len(dst))/c.bytes; first < end; {
			err := c.decode(dst, first, in)
			not, ok := err.(inexact)
			if !ok {
				return err
			}
			skip := (not.block - first) * c.bytes
			one := c.part(in, first, not.block, 1)
			if err := other.decode(dst[skip:][:c.bytes], not.block, one); err != nil {
				return err
			}
			dst = dst[skip+c.bytes:]
			if not.block+1 < end {
				in = c.part(in, first, not.block+1, end-not.block-1)
			}
			first = not.block + 1
		}
		return nil
	}
	return both, nil
}

// lcm returns the smallest multiple of both.
func lcm(a, b int64) int64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
