package views

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
	"github.com/x448/float16"
)

// mapped returns b as a section of a mapped file, at an odd offset, and the same
// every time for the same label.
func mapped(t testing.TB, label string, b []byte) *source.MappedSection {
	t.Helper()
	s, _ := mappedAt(t, label, b)
	return s
}

// mappedAt is mapped that also returns the path of the file.
func mappedAt(t testing.TB, label string, b []byte) (s *source.MappedSection, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, append([]byte("before it"), append(b, "after it"...)...), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := source.Map(path, label)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f.Section(9, int64(len(b))).(*source.MappedSection), f.Path()
}

// Short names of what is used in every test.
var (
	checkData = datatest.Check
	plain     = datatest.Plain
	random    = datatest.Random
)

// halves returns floats as IEEE half.
func halves(v []float32) []byte {
	b := make([]byte, 0, 2*len(v))
	for _, f := range v {
		b = binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(f).Bits())
	}
	return b
}

// floats returns n moderate floats, as bytes of the type and as they are read back.
func floats(seed uint64, d tensorfs.DType, n int) ([]byte, []float32) {
	r := rand.New(rand.NewPCG(seed, 2))
	var b []byte
	v := make([]float32, n)
	for i := range v {
		f := float32(r.NormFloat64())
		switch d {
		case tensorfs.F32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
		case tensorfs.BF16:
			bits := math.Float32bits(f) >> 16
			b, f = binary.LittleEndian.AppendUint16(b, uint16(bits)), math.Float32frombits(bits<<16)
		case tensorfs.F16:
			h := float16.Fromfloat32(f)
			b, f = binary.LittleEndian.AppendUint16(b, h.Bits()), h.Float32()
		case tensorfs.F8_E8M0:
			c := byte(107 + r.IntN(40))
			b, f = append(b, c), math.Float32frombits(uint32(c)<<23)
		default:
			panic(fmt.Sprintf("floats of type %v", d))
		}
		v[i] = f
	}
	return b, v
}

// list returns a view's tensors.
func list(ts Tensors) []tensorfs.Tensor {
	out := make([]tensorfs.Tensor, ts.Len())
	for i := range out {
		out[i] = ts.At(i)
	}
	return out
}

// content reads all of d.
func content(t testing.TB, d tensorfs.Data) []byte {
	t.Helper()
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}
