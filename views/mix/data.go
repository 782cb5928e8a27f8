package mix

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// mixed is a merged tensor, in the type of the computation.
type mixed struct {
	form
	parts   []tensorfs.Data // of one size
	prepare func() (combine, error)

	mu      sync.Mutex
	combine combine // once prepare has succeeded
}

func (x *mixed) Size() int64 { return x.parts[0].Size() }

var _ views.Computed = (*mixed)(nil)

func (x *mixed) Step() int64 { return run }

// Check asks all inputs.
func (x *mixed) Check() error {
	for _, p := range x.parts {
		if err := tensorfs.Check(p); err != nil {
			return err
		}
	}
	return nil
}

// ready returns what computes the numbers. Readers that come while whole tensors are read
// for it wait for that.
func (x *mixed) ready() (combine, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.combine == nil {
		c, err := x.prepare()
		if err != nil {
			return nil, err
		}
		x.combine = c
	}
	return x.combine, nil
}

// run is how many bytes are computed from one view of the inputs, or read of each of them.
const run = 128 << 10

// ReadAt computes whole numbers directly into p, and numbers that p covers only in part in
// a buffer.
func (x *mixed) ReadAt(p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(x.Size(), p, off)
	if n == 0 {
		return 0, eof
	}
	c, err := x.ready()
	if err != nil {
		return 0, err
	}
	b := pool.Get().(*buffers)
	defer pool.Put(b)
	for done := 0; done < n; {
		skip := (off + int64(done)) % x.bytes
		at := off + int64(done) - skip
		if whole := min(run, int64(n-done)) / x.bytes * x.bytes; skip == 0 && whole > 0 {
			dst := p[done:][:whole]
			if err := b.view(x.parts, at, whole, func(in [][]byte) { c(dst, in, at/x.bytes) }); err != nil {
				return done, err
			}
			done += int(whole)
			continue
		}
		one := b.one[:x.bytes]
		if err := b.view(x.parts, at, x.bytes, func(in [][]byte) { c(one, in, at/x.bytes) }); err != nil {
			return done, err
		}
		done += copy(p[done:n], one[skip:])
	}
	return n, eof
}

// buffers are what a read needs, so that it allocates nothing: of each input what it has at
// a place, or a copy of that.
type buffers struct {
	in     [][]byte
	memory []tensorfs.Memory
	copies [][]byte
	one    [4]byte
}

var pool = sync.Pool{New: func() any { return new(buffers) }}

// view calls f with n bytes of each input, which it only reads.
func (b *buffers) view(parts []tensorfs.Data, off, n int64, f func(in [][]byte)) (err error) {
	for len(b.copies) < len(parts) {
		b.in, b.memory, b.copies = append(b.in, nil), append(b.memory, nil), append(b.copies, nil)
	}
	in, memory := b.in[:len(parts)], b.memory[:len(parts)]
	defer clear(in) // what was viewed may go away
	defer clear(memory)
	for i, p := range parts {
		if in[i], memory[i], err = tensorfs.View(p, off, n, &b.copies[i]); err != nil {
			return err
		}
	}
	return tensorfs.Guard(func() error {
		f(in)
		return nil
	}, memory...)
}

// form is how a type of computation has its numbers.
type form struct {
	bytes  int64
	single func(dst, src []byte) // to F32
	round  kernel.Rounding
	pack   func(dst, src []byte) // from F32, after rounding
}

func formOf(d tensorfs.DType) (f form, err error) {
	name := d.String()
	single, ok := kernel.Single.Lookup(name)
	if f = (form{int64(single.Bytes), single.Decode, kernel.Roundings[name], nil}); !ok || f.round == nil {
		return f, fmt.Errorf("numbers are not computed in %s", d)
	}
	switch d {
	case tensorfs.F32:
		f.pack = func(dst, src []byte) { copy(dst, src) }
	case tensorfs.F16:
		half, _ := kernel.Lookup("F32")
		f.pack = half.Decode
	default:
		e, _ := kernel.LookupEncoder(name)
		f.pack = e.Encode
	}
	return f, nil
}

// steps compute F32 numbers from the inputs' numbers, which they may change. The result is
// rounded afterwards.
type steps func(dst []byte, in [][]byte, first int64)

// chunk is how many bytes of F32 steps get: the chunks of all inputs fit the processor's
// first cache.
const chunk = 8 << 10

// combine makes numbers of the form by steps.
func (f form) combine(s steps) combine {
	return func(dst []byte, in [][]byte, first int64) {
		f.each(in, func(sum []byte, in [][]byte, at int64) {
			s(sum, in, first+at)
			f.round(sum)
			f.pack(dst[at*f.bytes:][:len(sum)/4*int(f.bytes)], sum)
		})
	}
}

// each calls g with the numbers of all inputs as F32, some at a time, with memory for as many
// more, and with the number of the first of them.
func (f form) each(in [][]byte, g func(sum []byte, in [][]byte, at int64)) {
	b := singlesPool.Get().(*singles)
	defer singlesPool.Put(b)
	bytes := int(f.bytes)
	for at := 0; at < len(in[0]); at += chunk / 4 * bytes {
		n := min(chunk/4*bytes, len(in[0])-at)
		b.in = b.in[:0]
		for i := range in {
			part := b.part(i, n/bytes)
			f.single(part, in[i][at:][:n])
			b.in = append(b.in, part)
		}
		g(b.part(len(in), n/bytes), b.in, int64(at/bytes))
	}
}

// singles are numbers as F32.
type singles struct {
	in    [][]byte
	parts [][]byte
}

var singlesPool = sync.Pool{New: func() any { return new(singles) }}

// part returns memory for so many numbers of an input.
func (s *singles) part(i, numbers int) []byte {
	for len(s.parts) <= i {
		s.parts = append(s.parts, make([]byte, chunk))
	}
	return s.parts[i][:4*numbers]
}

// walk calls g with all numbers of tensors of one shape, as F32, which g may change.
func (f form) walk(parts []tensorfs.Data, g func(in [][]byte, first int64)) error {
	b := pool.Get().(*buffers)
	defer pool.Put(b)
	for off, size := int64(0), parts[0].Size(); off < size; off += run {
		err := b.view(parts, off, min(run, size-off), func(in [][]byte) {
			f.each(in, func(_ []byte, in [][]byte, at int64) { g(in, off/f.bytes+at) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func float32At(p []byte) float32     { return math.Float32frombits(binary.LittleEndian.Uint32(p)) }
func putFloat32(p []byte, x float32) { binary.LittleEndian.PutUint32(p, math.Float32bits(x)) }
