package kernel

import (
	"fmt"
	"slices"
	"sync"
)

// Decoder turns whole blocks of one stored type into floats.
type Decoder struct {
	To     Float                 // what it decodes to
	Name   string                // name of the stored type: ggml's (Q4_K) or safetensors' (F8_E4M3)
	Elems  int                   // elements per block
	Bytes  int                   // stored bytes per block
	Fields []Field               // multi-byte fields inside a block, which a big-endian file stores swapped
	Decode func(dst, src []byte) // len(src) = n*Bytes, len(dst) = n*Elems numbers, any n >= 0, no overlap

	// Number returns the little-endian number at the start of b. It is nil if no scales
	// have the type.
	Number func(b []byte) float32
	// Scaled is Decode for codes that have a scale elsewhere: code * scale in F32, rounded
	// once. It is nil if no checkpoint stores the type so.
	Scaled func(dst, src []byte, scale float32)

	body   func(dst, src []byte, to Float)
	scaled func(dst, src []byte, scale float32, to Float)
}

// isAffine reports whether scales and biases of MLX's affine mode have the type.
func (d *Decoder) isAffine() bool { return d.Number != nil && d.Bytes > 1 }

// Field is a run of Count little-endian numbers of Width bytes each, Offset bytes into a block.
type Field struct{ Offset, Width, Count int }

// Swap turns whole big-endian blocks into little-endian ones, in place.
func (d *Decoder) Swap(blocks []byte) {
	if len(blocks)%d.Bytes != 0 {
		panic(fmt.Sprintf("kernel: %s: %d bytes are not a whole number of %d-byte blocks", d.Name, len(blocks), d.Bytes))
	}
	for ; len(blocks) > 0; blocks = blocks[d.Bytes:] {
		for _, f := range d.Fields {
			for i := range f.Count {
				slices.Reverse(blocks[f.Offset+i*f.Width:][:f.Width])
			}
		}
	}
}

// Lookup returns the fastest decoder of this machine for a stored type to IEEE half.
func Lookup(name string) (Decoder, bool) { return Half.Lookup(name) }

// Lookup returns the fastest decoder of this machine for a stored type.
func (to Float) Lookup(name string) (Decoder, bool) {
	if to == Single {
		d, ok := singles()[name]
		return d, ok
	}
	d, ok := decoders()[name]
	return d, ok
}

// decoders and singles return what Lookup chooses from. Fields are shared between callers, who only read them.
var (
	decoders = sync.OnceValue(func() map[string]Decoder { return makeDecoders(Half, accelerated()) })
	singles  = sync.OnceValue(func() map[string]Decoder { return makeDecoders(Single, acceleratedSingle()) })
)

func makeDecoders(to Float, fast *implementation) map[string]Decoder {
	table := make(map[string]Decoder, len(rows))
	for _, t := range decodersTo(to) {
		decode, out := t.Decode, int(to)*t.Elems
		if fast != nil && fast.types[t.Name] != nil {
			decode = fast.types[t.Name]
		}
		t.Decode = func(dst, src []byte) {
			checkBlocks(t.Name, len(dst), len(src), out, t.Bytes)
			decode(dst, src)
		}
		if scaled := t.Scaled; scaled != nil {
			if fast != nil && fast.scaled[t.Name] != nil {
				scaled = fast.scaled[t.Name]
			}
			t.Scaled = func(dst, src []byte, scale float32) {
				checkBlocks(t.Name, len(dst), len(src), out, t.Bytes)
				scaled(dst, src, scale)
			}
		}
		table[t.Name] = t
	}
	return table
}

// checkBlocks is the only check of the lengths that callers pass, so that the assembly it
// guards can trust them.
func checkBlocks(name string, dst, src, out, in int) {
	if n := src / in; src != n*in || dst != n*out {
		panic(fmt.Sprintf("kernel: %s: %d bytes into %d; blocks are %d bytes and become %d", name, src, dst, in, out))
	}
}
