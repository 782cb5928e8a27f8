package views

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// TestTypesAgree compares each type's row with its decoder's: the kernel imports nothing, so its
// decoders repeat what they need of a type.
func TestTypesAgree(t *testing.T) {
	// Whole types have layouts that kernel.I2S knows, and no rows.
	for d := range tensorfs.DTypes() {
		elems, bytes := d.Block()
		k, plain := kernel.Lookup(d.String())
		rows, _, mixed := kernel.Deinterleave(d.String(), int(elems))
		if want := (d.Kind() == tensorfs.KindFloat || d.Kind() == tensorfs.KindBlock) && !d.Whole(); (plain || mixed) != want {
			t.Errorf("%v has a decoder: %v, want %v", d, plain || mixed, want)
		}
		if plain && (k.Name != d.String() || int64(k.Elems) != elems || int64(k.Bytes) != bytes) {
			t.Errorf("%v: the kernel decodes %s blocks of %d elements in %d bytes, its row says %d in %d", d, k.Name, k.Elems, k.Bytes, elems, bytes)
		}
		if mixed && (plain || int64(rows) != d.RowGroup()) || !mixed && d.RowGroup() != 1 {
			t.Errorf("%v: the kernel takes groups of %d rows apart, its row says %d", d, rows, d.RowGroup())
		}
		if k.Number != nil && d.Mantissa() == 0 && bytes > 1 {
			t.Errorf("%v: the kernel reads its numbers, its row says that it has no IEEE floats", d)
		}
	}
}

// TestFitsHalf looks for numbers that halves do not have among blocks of any bytes
// and of extreme ones, and holds the rows of the types to what it finds.
func TestFitsHalf(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for _, d := range decodable() {
		k, _ := kernel.Single.Lookup(d.String())
		src := random(uint64(d), 4096*k.Bytes)
		for at := 0; at < len(src); at += k.Bytes { // the largest scales with any codes, and with all bits set
			if r.IntN(2) == 0 {
				for i := range k.Bytes {
					src[at+i] = 0xFF
				}
			}
			for _, f := range k.Fields {
				for i := range f.Count {
					if f.Width == 2 && r.IntN(4) > 0 {
						binary.LittleEndian.PutUint16(src[at+f.Offset+2*i:], 0x7BFF)
					}
				}
			}
		}
		dst := make([]byte, 4*4096*k.Elems)
		k.Decode(dst, src)
		beyond := false
		for ; len(dst) > 0; dst = dst[4:] {
			x := math.Abs(float64(math.Float32frombits(binary.LittleEndian.Uint32(dst))))
			beyond = beyond || x >= 65520 && !math.IsInf(x, 1)
		}
		if beyond == d.FitsHalf() {
			t.Errorf("%v has numbers beyond half: %v, its row says %v", d, beyond, !d.FitsHalf())
		}
	}
}
