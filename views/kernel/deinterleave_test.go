package kernel

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestDeinterleave interleaves rows as ggml did, by the position of each stored byte, and takes them apart again.
func TestDeinterleave(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, c := range []struct {
		name        string
		rows, chunk int
	}{{"Q4_0_4_4", 4, 4}, {"Q4_0_4_8", 4, 8}, {"Q4_0_8_8", 8, 8}} {
		for _, cols := range []int{32, 64, 160} {
			stride := cols / 32 * 18
			want := make([]byte, 3*c.rows*stride) // three groups
			for i := range want {
				want[i] = byte(r.Uint32())
			}
			var stored []byte
			for group := range slices.Chunk(want, c.rows*stride) {
				for block := 0; block < stride; block += 18 {
					for row := range c.rows {
						stored = append(stored, group[row*stride+block:][:2]...)
					}
					for p := range 16 * c.rows {
						row, at := p/c.chunk%c.rows, p/(c.chunk*c.rows)*c.chunk+p%c.chunk
						stored = append(stored, group[row*stride+block+2+at]^0x88)
					}
				}
			}
			rows, f, ok := Deinterleave(c.name, cols)
			if !ok || rows != c.rows {
				t.Fatalf("%s: %d rows, %v", c.name, rows, ok)
			}
			got := make([]byte, len(want))
			f(got, stored)
			if !bytes.Equal(got, want) {
				t.Errorf("%s, %d columns: rows differ", c.name, cols)
			}
		}
	}
	for _, c := range []struct {
		name string
		cols int
	}{{"Q4_0", 32}, {"Q4_0_4_4", 33}, {"Q4_0_4_4", 0}, {"Q4_0_4_4", -32}, {"Q4_0_8_8", math.MaxInt - 31}} {
		if _, _, ok := Deinterleave(c.name, c.cols); ok {
			t.Errorf("%s with %d columns is accepted", c.name, c.cols)
		}
	}
}
