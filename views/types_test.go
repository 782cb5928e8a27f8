package views

import (
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/views/kernel"
)

// TestTypesAgree holds each type's row and that of its decoder to each other: the
// kernel imports nothing, so what its decoders need of a type it says itself.
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
		if k.Number != nil && d.Mantissa() == 0 {
			t.Errorf("%v: the kernel reads its numbers, its row says that it has no IEEE floats", d)
		}
	}
}
