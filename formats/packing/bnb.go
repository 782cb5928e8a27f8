package packing

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/tensorfs/tensorfs"
)

// State is bitsandbytes's description of a module of 4 bits.
type State struct {
	Shape        []int64 // of the numbers
	Block        int     // numbers with one largest value
	NestedBlock  int     // of these values, if they are codes themselves
	NestedOffset float64
	Float        tensorfs.DType // Unknown where not said
}

// BnB4 returns the numbers of a module of 4 bits, which are a table's values times the
// largest of each block:
//
//	codes     U8: two numbers in a byte, the high nibble first, of all rows without a gap
//	absmax    F32 [blocks], or U8 with what nested values there are
//	values    F32 [16]
//	nested    F32 [blocks of absmax]: absmax = fl(table[code] * nested) + offset
//	table     F32 [256]
//
// nested and table are nil if absmax is F32.
func BnB4(s State, codes, absmax, values, nested, table *tensorfs.Tensor, others ...*tensorfs.Tensor) (*tensorfs.Quant, error) {
	n, ok := tensorfs.Elements(s.Shape)
	if !ok || len(s.Shape) == 0 {
		return nil, fmt.Errorf("shape %v (shape) is not the shape of a tensor", s.Shape)
	}
	if s.Block < 1 || bits.OnesCount(uint(s.Block)) != 1 || s.Block > maxSide {
		return nil, fmt.Errorf("blocksize is %d, and it is a power of two", s.Block)
	}
	have, _ := tensorfs.Elements(codes.Shape)
	if have != n/2+n%2 {
		return nil, wrong(codes, "has %d bytes, and the %d numbers of shape %v take %d", have, n, s.Shape, n/2+n%2)
	}
	blocks := up(n, int64(s.Block))
	need := []struct {
		t *tensorfs.Tensor
		d tensorfs.DType
		n int64
	}{{absmax, tensorfs.F32, blocks}, {values, tensorfs.F32, 16}}
	if nested != nil || table != nil {
		if nested == nil || table == nil {
			return nil, fmt.Errorf("it has one of nested_absmax and nested_quant_map, and needs both")
		}
		if s.NestedBlock < 1 || bits.OnesCount(uint(s.NestedBlock)) != 1 || s.NestedBlock > maxSide {
			return nil, fmt.Errorf("nested_blocksize is %d, and it is a power of two", s.NestedBlock)
		}
		need[0].d = tensorfs.U8
		need = append(need, need[1], need[1])
		need[2].t, need[2].n = nested, up(blocks, int64(s.NestedBlock))
		need[3].t, need[3].n = table, 256
	}
	for _, x := range need {
		if x.t.DType != x.d {
			return nil, wrong(x.t, "is %s, and not %s", x.t.DType, x.d)
		}
		if have, _ := tensorfs.Elements(x.t.Shape); have != x.n {
			return nil, wrong(x.t, "has shape %v, and its module needs %d values", x.t.Shape, x.n)
		}
	}
	x := &bnb4{block: int64(s.Block), nestedBlock: int64(s.NestedBlock), offset: float32(s.NestedOffset), codes: own(codes), absmax: own(absmax), values: own(values)}
	if nested != nil {
		x.nested, x.table = own(nested), own(table)
	}
	all := append([]*tensorfs.Tensor{absmax, values, nested, table}, others...)
	return &tensorfs.Quant{Mode: "bitsandbytes", Bits: 4, GroupSize: s.Block, Shape: s.Shape, Float: s.Float,
		Numbers: numbersOf(x, n, append(all, codes)...), Companions: withoutNil(all)}, nil
}

type bnb4 struct {
	block, nestedBlock int64
	offset             float32
	codes, absmax      *tensorfs.Tensor
	values             *tensorfs.Tensor
	nested, table      *tensorfs.Tensor
}

func (x *bnb4) make(dst []byte, first int64) error {
	var raw [64]byte
	if err := tensorfs.ReadFull(x.values.Data, raw[:], 0); err != nil {
		return err
	}
	var map16 [16]float32
	floats[tensorfs.F32](map16[:], raw[:])
	n := int64(len(dst) / 4)
	end := first + n
	block, last := first/x.block, up(end, x.block)
	buf := sized(int(4 * (last - block)))
	defer buf.free()
	absmax, _ := floatsIn(buf.b, int(last-block))
	if err := x.scales(absmax, block); err != nil {
		return err
	}
	start := first / 2
	src := sized(int(up(end, 2) - start))
	defer src.free()
	if err := tensorfs.ReadFull(x.codes.Data, src.b, start); err != nil {
		return err
	}
	var values [16]uint32
	for i, scale := range absmax {
		for c, v := range map16 {
			values[c] = math.Float32bits(v * scale)
		}
		from := max(first, (block+int64(i))*x.block)
		to := min(end, (block+int64(i)+1)*x.block)
		if from%2 == 1 {
			binary.LittleEndian.PutUint32(dst, values[src.b[from/2-start]&15])
			dst, from = dst[4:], from+1
		}
		for _, b := range src.b[from/2-start:][:(to-from)/2] {
			binary.LittleEndian.PutUint64(dst, uint64(values[b>>4])|uint64(values[b&15])<<32)
			dst = dst[8:]
		}
		if (to-from)%2 == 1 {
			binary.LittleEndian.PutUint32(dst, values[src.b[to/2-start]>>4])
			dst = dst[4:]
		}
	}
	return nil
}

// scales reads the largest values of blocks, from one on.
func (x *bnb4) scales(dst []float32, first int64) error {
	if x.nested == nil {
		buf := sized(4 * len(dst))
		defer buf.free()
		err := tensorfs.ReadFull(x.absmax.Data, buf.b, 4*first)
		if err == nil {
			floats[tensorfs.F32](dst, buf.b)
		}
		return err
	}
	last := first + int64(len(dst)) - 1
	from, to := first/x.nestedBlock, last/x.nestedBlock+1
	count := int(to - from)
	buf := sized(8*256 + 8*count + len(dst))
	defer buf.free()
	all, raw := floatsIn(buf.b, 256+count)
	if err := tensorfs.ReadFull(x.table.Data, raw[:4*256], 0); err != nil {
		return err
	}
	floats[tensorfs.F32](all[:256], raw)
	if err := tensorfs.ReadFull(x.nested.Data, raw[:4*count], 4*from); err != nil {
		return err
	}
	floats[tensorfs.F32](all[256:], raw)
	codes := raw[:len(dst)]
	if err := tensorfs.ReadFull(x.absmax.Data, codes, first); err != nil {
		return err
	}
	for i, c := range codes {
		dst[i] = float32(all[c]*all[256+(first+int64(i))/x.nestedBlock-from]) + x.offset
	}
	return nil
}

// BnB8 returns the numbers of a module of 8 bits: code * scale * (1/127), each product
// rounded to F32.
//
//	codes    I8 [N, K]
//	scales   F32 [N]
func BnB8(codes, scales *tensorfs.Tensor, others ...*tensorfs.Tensor) (*tensorfs.Quant, error) {
	if len(codes.Shape) != 2 || codes.Shape[0] > maxSide || codes.Shape[1] > maxSide {
		return nil, wrong(codes, "has shape %v, but should be a matrix", codes.Shape)
	}
	if scales.DType != tensorfs.F32 {
		return nil, wrong(scales, "is %s, and scales are F32", scales.DType)
	}
	if err := hasShape(scales, codes.Shape[0]); err != nil {
		return nil, err
	}
	all := append([]*tensorfs.Tensor{scales}, others...)
	return &tensorfs.Quant{Mode: "bitsandbytes", Bits: 8, Shape: codes.Shape, Float: FloatOf(scales.DType),
		Numbers: numbersOf(&bnb8{own(codes), own(scales)}, codes.Shape[0]*codes.Shape[1], append(all, codes)...), Companions: withoutNil(all)}, nil
}

type bnb8 struct{ codes, scales *tensorfs.Tensor }

func (x *bnb8) make(dst []byte, first int64) error {
	cols := x.codes.Shape[1]
	n := int64(len(dst) / 4)
	row, last := first/cols, up(first+n, cols)
	buf := sized(int(8*(last-row) + n))
	defer buf.free()
	scales, rest := floatsIn(buf.b, int(last-row))
	raw, codes := rest[:4*(last-row)], rest[4*(last-row):]
	if err := tensorfs.ReadFull(x.scales.Data, raw, 4*row); err != nil {
		return err
	}
	floats[tensorfs.F32](scales, raw)
	if err := tensorfs.ReadFull(x.codes.Data, codes, first); err != nil {
		return err
	}
	for at := first; len(codes) > 0; {
		run := min(cols-at%cols, int64(len(codes)))
		s := scales[at/cols-row]
		for i, c := range codes[:run] {
			putF32(dst[4*i:], float32(float32(int8(c))*s)*float32(1.0/127))
		}
		dst, codes, at = dst[4*run:], codes[run:], at+run
	}
	return nil
}
