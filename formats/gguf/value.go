package gguf

import (
	"encoding/binary"
	"iter"
	"math"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// valueType is the number that GGUF gives a type of metadata.
type valueType uint32

const (
	typeString valueType = 8
	typeArray  valueType = 9
	numTypes   valueType = 13
)

// scalars holds the size and the decoder of every fixed-size value type.
var scalars = [numTypes]struct {
	size   int
	decode func(o binary.ByteOrder, b []byte) any
}{
	0:  {1, func(_ binary.ByteOrder, b []byte) any { return b[0] }},
	1:  {1, func(_ binary.ByteOrder, b []byte) any { return int8(b[0]) }},
	2:  {2, func(o binary.ByteOrder, b []byte) any { return o.Uint16(b) }},
	3:  {2, func(o binary.ByteOrder, b []byte) any { return int16(o.Uint16(b)) }},
	4:  {4, func(o binary.ByteOrder, b []byte) any { return o.Uint32(b) }},
	5:  {4, func(o binary.ByteOrder, b []byte) any { return int32(o.Uint32(b)) }},
	6:  {4, func(o binary.ByteOrder, b []byte) any { return math.Float32frombits(o.Uint32(b)) }},
	7:  {1, func(_ binary.ByteOrder, b []byte) any { return b[0] != 0 }},
	10: {8, func(o binary.ByteOrder, b []byte) any { return o.Uint64(b) }},
	11: {8, func(o binary.ByteOrder, b []byte) any { return int64(o.Uint64(b)) }},
	12: {8, func(o binary.ByteOrder, b []byte) any { return math.Float64frombits(o.Uint64(b)) }},
}

// maxNesting is how many levels of arrays a value may have. Deeper nesting exists
// only to exhaust a stack.
const maxNesting = 16

// value reads a value of type t, which is nested in depth arrays.
func (c *cursor) value(t valueType, depth int) any {
	switch {
	case t == typeString:
		return c.text(maxHeader)
	case t == typeArray:
		return c.array(depth + 1)
	case t >= numTypes:
		c.fail(c.pos, "value type %d is not known", t)
		return nil
	}
	s := &scalars[t]
	b := c.next(s.size)
	if b == nil {
		return nil
	}
	if c.big {
		return s.decode(binary.BigEndian, b)
	}
	return s.decode(binary.LittleEndian, b)
}

// array is a metadata array. It was walked when the file was opened; its
// elements are decoded when they are read.
type array struct {
	file     source.File
	elem     valueType
	n        int64
	pos, end int64 // of the elements in the file
	depth    int
	big      bool
	narrow   bool

	// change makes each element another one, by it and the element of beside at its place;
	// nil changes none.
	change func(v, beside any) any
	beside *array
}

var _ tensorfs.Array = (*array)(nil)

// array reads an array at nesting level depth, and skips over its elements.
func (c *cursor) array(depth int) *array {
	a := &array{file: c.file, depth: depth, big: c.big, narrow: c.narrow}
	a.elem, a.n = c.arrayHead(depth)
	a.pos = c.pos
	c.skipElements(a.elem, a.n, depth)
	a.end = c.pos
	return a
}

// arrayHead reads the header before the elements of an array.
func (c *cursor) arrayHead(depth int) (elem valueType, n int64) {
	if depth > maxNesting {
		c.fail(c.pos, "arrays are nested more than %d deep", maxNesting)
		return 0, 0
	}
	at := c.pos
	elem = valueType(c.u32())
	if elem >= numTypes {
		c.fail(at, "element type %d is not known", elem)
		return 0, 0
	}
	return elem, c.count("array elements", c.leastSize(elem))
}

// skipElements skips over n elements of an array. Only elements that have their
// own lengths are visited one by one.
func (c *cursor) skipElements(elem valueType, n int64, depth int) {
	switch elem {
	case typeString:
		c.skipTexts(n)
	case typeArray:
		for ; n > 0 && c.err == nil; n-- {
			inner, m := c.arrayHead(depth + 1)
			c.skipElements(inner, m, depth+1)
		}
	default:
		c.skip(uint64(n) * c.leastSize(elem)) // no overflow: count has compared it
	}
}

// leastSize returns the minimum size of a value of type t, in bytes.
func (c *cursor) leastSize(t valueType) uint64 {
	switch {
	case t == typeString:
		return c.lengthSize()
	case t == typeArray:
		return 4 + c.lengthSize()
	}
	return uint64(scalars[t].size)
}

// Len returns the number of elements.
func (a *array) Len() int { return int(a.n) }

// Values returns the elements. They end early if the file has changed.
func (a *array) Values() iter.Seq[any] {
	if a.change != nil {
		return a.changed()
	}
	return func(yield func(any) bool) {
		c := newCursor(a.file, a.pos, a.end)
		c.big, c.narrow = a.big, a.narrow
		for range a.n {
			v := c.value(a.elem, a.depth)
			if c.err != nil || !yield(v) {
				return
			}
		}
	}
}

// changed returns the elements as change makes them.
func (a *array) changed() iter.Seq[any] {
	stored := *a
	stored.change = nil
	return func(yield func(any) bool) {
		next, stop := iter.Pull(a.beside.Values())
		defer stop()
		for v := range stored.Values() {
			beside, ok := next()
			if !ok || !yield(a.change(v, beside)) {
				return
			}
		}
	}
}

// same reports whether two values of different files are equal: integers by
// value whatever their width, floats by their bits, arrays by elements.
func same(a, b any) bool {
	if x, ok := a.(*array); ok {
		y, ok := b.(*array)
		return ok && sameArrays(x, y)
	}
	if x, ok := integer(a); ok {
		y, ok := integer(b)
		return ok && x == y
	}
	switch x := a.(type) {
	case float32:
		y, ok := b.(float32)
		return ok && math.Float32bits(x) == math.Float32bits(y)
	case float64:
		y, ok := b.(float64)
		return ok && math.Float64bits(x) == math.Float64bits(y)
	}
	_, isArray := b.(*array)
	return !isArray && a == b
}

func sameArrays(x, y *array) bool {
	if x.elem != y.elem || x.n != y.n {
		return false
	}
	next, stop := iter.Pull(y.Values())
	defer stop()
	n := int64(0)
	for v := range x.Values() {
		w, ok := next()
		if !ok || !same(v, w) {
			return false
		}
		n++
	}
	return n == x.n
}

// integer returns a value of any integer type that fits an int64. Larger numbers are never counts.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case uint8:
		return int64(v), true
	case int8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(v), v <= math.MaxInt64
	}
	return 0, false
}
