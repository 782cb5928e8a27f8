package views

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// maxStreams is how many inputs a conversion has at most: codes, scales, and
// biases or a global factor.
const maxStreams = 3

// stream is one input of a conversion.
type stream struct {
	data tensorfs.Data
	// span returns the bytes of data that the blocks [first, first+n) need. It never
	// goes backwards, and all blocks together need all of data.
	span func(first, n int64) (off, size int64)
}

// blocksOf is a stream of blocks of so many bytes, back to back.
func blocksOf(d tensorfs.Data, bytes int64) stream {
	return stream{d, func(first, n int64) (int64, int64) { return first * bytes, n * bytes }}
}

// allOf is a stream that every block needs in full.
func allOf(d tensorfs.Data) stream {
	return stream{d, func(int64, int64) (int64, int64) { return 0, d.Size() }}
}

// inputs are the bytes of each stream that belong to a run of blocks.
type inputs [maxStreams][]byte

// codec turns runs of blocks into another type.
type codec struct {
	streams []stream
	elems   int64 // per block
	bytes   int64 // that a block becomes
	blocks  int64
	// decode writes len(dst)/bytes blocks, beginning with the block number first. The
	// streams hold exactly the span of these blocks. An error means that the type cannot
	// hold one of them.
	decode func(dst []byte, first int64, in inputs) error
}

// part returns the inputs of the n blocks from first on, out of the inputs of a run
// of blocks that starts at from.
func (c *codec) part(in inputs, from, first, n int64) (out inputs) {
	for i, s := range c.streams {
		start, _ := s.span(from, n)
		off, size := s.span(first, n)
		out[i] = in[i][off-start:][:size]
	}
	return out
}

// maxElems bounds the numbers of a block, and maxOut what it becomes, because the
// ragged ends of a read are decoded through a buffer of that size. Only types that
// mix whole rows come near it.
const (
	maxElems = 1 << 23
	maxOut   = 4 * maxElems
)

// check returns an error unless the streams hold the bytes that the blocks need.
func (c *codec) check(t *tensorfs.Tensor) error {
	if c.elems > maxElems || c.bytes > maxOut {
		return fmt.Errorf("%s mixes the bytes of several rows, and the rows of shape %v are too long for that; see raw/", t.DType, t.Shape)
	}
	for _, s := range c.streams {
		if off, n := s.span(0, c.blocks); off != 0 || n != s.data.Size() {
			return fmt.Errorf("it has %d bytes, but %d blocks of %s need %d; see raw/", s.data.Size(), c.blocks, t.DType, n)
		}
	}
	return nil
}

// codecOf returns how t, which is not empty, becomes floats.
func codecOf(t *tensorfs.Tensor, opts Options, to kernel.Float) (c codec, err error) {
	switch {
	case t.Quant != nil && t.Quant.Numbers != nil:
		c, err = blockCodec(&tensorfs.Tensor{DType: tensorfs.F32, Shape: t.Quant.Shape, Data: t.Quant.Numbers}, to)
	case t.Quant != nil && t.Quant.Mode == "fp8":
		c, err = fp8Codec(t, to)
	case t.Quant != nil:
		c, err = groupCodec(t, to)
	case t.DType == tensorfs.I2_S:
		c, err = i2sCodec(t, opts, to)
	default:
		if rows, repack, ok := kernel.Deinterleave(t.DType.String(), int(t.Cols())); ok {
			c, err = interleavedCodec(t, int64(rows), repack, to)
		} else {
			c, err = blockCodec(t, to)
		}
	}
	c.bytes = int64(to) * c.elems
	if err == nil {
		err = c.check(t)
	}
	return c, err
}

// blockCodec decodes a type whose blocks are self-contained.
func blockCodec(t *tensorfs.Tensor, to kernel.Float) (codec, error) {
	d, ok := to.Lookup(t.DType.String())
	if !ok {
		return codec{}, fmt.Errorf("tensorfs cannot decode %s; see raw/", t.DType)
	}
	c := codec{
		streams: []stream{blocksOf(t.Data, int64(d.Bytes))},
		elems:   int64(d.Elems),
		blocks:  t.Data.Size() / int64(d.Bytes),
		decode: func(dst []byte, _ int64, in inputs) error {
			d.Decode(dst, in[0])
			return nil
		},
	}
	if t.BigEndian && len(d.Fields) > 0 {
		c.decode = func(dst []byte, _ int64, in inputs) error {
			p := scratch.Get().(*[]byte)
			defer scratch.Put(p)
			*p = append((*p)[:0], in[0]...)
			d.Swap(*p)
			d.Decode(dst, *p)
			return nil
		}
	}
	return c, nil
}

// interleavedCodec decodes the removed Q4_0 variants, which mix the bytes of
// some rows: one block here is a group of rows.
func interleavedCodec(t *tensorfs.Tensor, rows int64, repack func(dst, src []byte), to kernel.Float) (codec, error) {
	if t.BigEndian {
		return codec{}, fmt.Errorf("%s in a big-endian file cannot be put in order; see raw/", t.DType)
	}
	plain, ok := to.Lookup("Q4_0")
	stored, fits := t.DType.Size([]int64{rows, t.Cols()})
	if !ok || !fits || !t.WholeRowGroups() {
		return codec{}, fmt.Errorf("%s with rows that are not a multiple of %d cannot be put in order; see raw/", t.DType, rows)
	}
	return codec{
		streams: []stream{blocksOf(t.Data, stored)},
		elems:   rows * t.Cols(),
		blocks:  t.Data.Size() / stored,
		decode: func(dst []byte, _ int64, in inputs) error {
			p := scratch.Get().(*[]byte)
			defer scratch.Put(p)
			out := len(dst) / (len(in[0]) / int(stored))
			for src := in[0]; len(src) > 0; src, dst = src[stored:], dst[out:] {
				*p = slices.Grow((*p)[:0], int(stored))[:stored]
				repack(*p, src[:stored])
				plain.Decode(dst[:out], *p)
			}
			return nil
		},
	}, nil
}

// i2sCodec decodes BitNet's I2_S: codes, then 32 bytes that begin with the tensor's F32
// scale. Without these 32 bytes the codes are in Trinity's order.
func i2sCodec(t *tensorfs.Tensor, opts Options, to kernel.Float) (codec, error) {
	n, _ := tensorfs.Elements(t.Shape)
	scaled := t.Data.Size() == n/4+32
	layout := opts.I2S
	switch {
	case layout == "" && scaled:
		layout = "128"
	case layout == "":
		layout = "trinity"
	case layout != "trinity" && !scaled:
		return codec{}, fmt.Errorf("I2_S without a scale has Trinity's order, not %q; see raw/", layout)
	}
	d, ok := to.I2S(layout, int(t.Cols()))
	if !ok || n%int64(d.Elems) != 0 || layout != "trinity" && t.Cols()%128 != 0 {
		return codec{}, fmt.Errorf("I2_S of shape %v does not divide into blocks of the order %q; see raw/", t.Shape, layout)
	}
	codes := t.Data
	if scaled {
		codes = tensorfs.Section(t.Data, 0, n/4)
	}
	c := codec{
		streams: []stream{blocksOf(codes, int64(d.Bytes))},
		elems:   int64(d.Elems),
		blocks:  n / int64(d.Elems),
		decode: func(dst []byte, _ int64, in inputs) error {
			d.Decode(dst, in[0], 1)
			return nil
		},
	}
	if layout != "trinity" {
		c.streams = append(c.streams, allOf(tensorfs.Section(t.Data, n/4, 4)))
		c.decode = func(dst []byte, _ int64, in inputs) error {
			d.Decode(dst, in[0], float32At(in[1], 0, t.BigEndian))
			return nil
		}
	}
	return c, nil
}
