package testpack

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// A Maker makes files of recipes, and remembers numbers that several of them take.
type Maker struct {
	// File returns the bytes of another file of testdata, from which a recipe copies.
	File func(name string) ([]byte, error)

	normals  map[uint64]*Normals
	integers map[uint32]*Integers
}

// Normals returns the numbers of a seed, and keeps them for the next recipe.
func (m *Maker) Normals(seed uint64) *Normals {
	if m.normals == nil {
		m.normals = map[uint64]*Normals{}
	}
	if m.normals[seed] == nil {
		m.normals[seed] = NewNormals(seed)
	}
	return m.normals[seed]
}

// Integers returns the numbers of a seed, and keeps them for the next recipe.
func (m *Maker) Integers(seed uint32) *Integers {
	if m.integers == nil {
		m.integers = map[uint32]*Integers{}
	}
	if m.integers[seed] == nil {
		m.integers[seed] = NewIntegers(seed)
	}
	return m.integers[seed]
}

// Make follows a recipe: lines, an empty line, and the bytes that lines of the kind "stored" take.
//
//	stored BYTES WIDTH                              bytes, the first of each element of WIDTH bytes, then the second ones
//	normal TYPE COUNT SEED SKIP MEAN SCALE          numbers of NumPy
//	integer TYPE COUNT SEED SKIP LEVELS FIRST STEP  numbers of PyTorch
//	copy FILE OFFSET BYTES TYPE                     bytes of another file, widened from TYPE to F32 if a type is given
func (m *Maker) Make(recipe []byte) ([]byte, error) {
	lines, stored, ok := bytes.Cut(recipe, []byte("\n\n"))
	if !ok {
		return nil, fmt.Errorf("a recipe without an empty line")
	}
	var out []byte
	for line := range strings.SplitSeq(string(lines), "\n") {
		var err error
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "stored":
			var n, width int
			if _, err = fmt.Sscan(rest, &n, &width); err == nil {
				out = append(out, Interleave(stored[:n], width)...)
				stored = stored[n:]
			}
		case "normal":
			var t string
			var n, skip int
			var seed uint64
			var mean, scale float64
			if _, err = fmt.Sscan(rest, &t, &n, &seed, &skip, &mean, &scale); err == nil {
				for _, x := range m.Normals(seed).First(skip + n)[skip:] {
					out = AppendFloat(out, t, float32(mean+float64(scale*x)))
				}
			}
		case "integer":
			var t string
			var n, skip int
			var seed, levels uint32
			var first, step float64
			if _, err = fmt.Sscan(rest, &t, &n, &seed, &skip, &levels, &first, &step); err == nil {
				for _, x := range m.Integers(seed).First(skip + n)[skip:] {
					out = AppendFloat(out, t, float32(first+step*float64(x%levels)))
				}
			}
		case "copy":
			var name, t string
			var off, n int
			if _, err = fmt.Sscan(rest, &name, &off, &n, &t); err == nil {
				var b []byte
				if b, err = m.File(name); err == nil {
					out = append(out, Widen(b[off:off+n], t)...)
				}
			}
		default:
			err = fmt.Errorf("what is it?")
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
	}
	return out, nil
}

// AppendFloat appends x as a type of safetensors.
func AppendFloat(b []byte, t string, x float32) []byte {
	u := math.Float32bits(x)
	switch t {
	case "BF16":
		return binary.LittleEndian.AppendUint16(b, uint16((u+0x7fff+u>>16&1)>>16))
	case "F16":
		return binary.LittleEndian.AppendUint16(b, half(x))
	case "F8_E4M3", "F8_E8M0", "I8", "U8": // the last byte of the number is the code
		return append(b, byte(int(x)))
	case "I64":
		return binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	return binary.LittleEndian.AppendUint32(b, u)
}

// half rounds to the nearest half, to the even one of two.
func half(x float32) uint16 {
	sign := uint16(math.Float32bits(x) >> 16 & 0x8000)
	a := math.Abs(float64(x))
	if a == 0 {
		return sign
	}
	_, exp := math.Frexp(a)
	unit := math.Ldexp(1, max(exp, -13)-11) // of the last digit
	n := uint16(math.RoundToEven(a / unit)) // at most 2048
	return sign | uint16(max(exp, -13)+13)<<10 + n
}

// Widen returns halves as F32, and other bytes as they are.
func Widen(b []byte, t string) []byte {
	if t != "BF16" && t != "F16" {
		return b
	}
	out := make([]byte, 0, 2*len(b))
	for ; len(b) > 0; b = b[2:] {
		u := uint32(binary.LittleEndian.Uint16(b)) << 16
		if t == "F16" {
			exp, frac := u>>26&31, float64(u>>16&1023)
			x := math.Ldexp(frac, -24)
			if exp > 0 {
				x = math.Ldexp(1024+frac, int(exp)-25)
			}
			u = math.Float32bits(float32(x)) | u&0x80000000
		}
		out = binary.LittleEndian.AppendUint32(out, u)
	}
	return out
}

// Interleave puts the bytes of elements together again; see [Planes].
func Interleave(b []byte, width int) []byte {
	out := make([]byte, len(b))
	n := len(b) / width
	for i := range out {
		out[i] = b[i%width*n+i/width]
	}
	return out
}

// Planes returns the first bytes of all elements, then their second ones: the exponents of
// floats together are compressed better.
func Planes(b []byte, width int) []byte {
	out := make([]byte, len(b))
	n := len(b) / width
	for i := range out {
		out[i%width*n+i/width] = b[i]
	}
	return out
}
