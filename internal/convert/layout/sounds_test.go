package layout

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"testing"
	"testing/iotest"
)

// TestWaves reads a table of sines and cosines in every way, and compares its first rows with the formula.
func TestWaves(t *testing.T) {
	x := newWaves(3, 7)
	all, err := io.ReadAll(io.NewSectionReader(x, 0, x.Size()))
	if err != nil || len(all) != 7*6*4 {
		t.Fatal(len(all), err)
	}
	if err := iotest.TestReader(io.NewSectionReader(x, 0, x.Size()), all); err != nil {
		t.Error(err)
	}
	for at := range int64(len(all)) {
		b := make([]byte, 9)
		n, _ := x.ReadAt(b, at)
		if want := all[at:min(at+9, int64(len(all)))]; !bytes.Equal(b[:n], want) {
			t.Errorf("at %d: %x, not %x", at, b[:n], want)
		}
	}
	for i, want := range []float64{0, 0, 0, 1, 1, 1, math.Sin(1), math.Sin(0.01), math.Sin(0.0001), math.Cos(1), math.Cos(0.01), math.Cos(0.0001)} {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(all[4*i:])); math.Abs(float64(got)-want) > 1e-7 {
			t.Errorf("number %d is %v, not %v", i, got, want)
		}
	}
}
