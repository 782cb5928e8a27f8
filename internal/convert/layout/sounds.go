package layout

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// Audio towers have moves of their own (formats/architectures/towers.txt).

// columnOf returns the dimensions of the bias of a convolution in GGUF.
func columnOf(weight []string) []string {
	return append([]string{weight[0]}, slices.Repeat([]string{"1"}, len(weight)-2)...)
}

// planesOf returns the dimensions that GGUF has for the bias of a convolution of planes.
func planesOf(weight []string) []string { return []string{"1", weight[0], "1", "1"} }

// biasOfPlanes gives the bias of a convolution of planes GGUF's dimensions.
func biasOfPlanes(_ *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	s := t.Numbers()
	if p.param != ".bias" || len(s) != 1 {
		return t, nil
	}
	return arrange.Reshape(t, 1, s[0], 1, 1)
}

// biasOfColumns gives the bias of a convolution GGUF's dimensions.
func biasOfColumns(_ *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	s := t.Numbers()
	if p.param != ".bias" || len(s) != 1 {
		return t, nil
	}
	return arrange.Reshape(t, append([]int64{s[0]}, slices.Repeat([]int64{1}, len(p.Shape)-2)...)...)
}

// biasOfNumbers undoes both.
func biasOfNumbers(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	if p.param != ".bias" {
		return t, w.shaped(t, p.Shape, p.param)
	}
	s := t.Numbers()
	n := rowsBefore(append(slices.Clone(s), 1))
	if len(s) == 0 || !slices.Contains(s, n) {
		return nil, fmt.Errorf("shape %v of %s does not fit the bias of a convolution", s, tensorfs.Quote(t.Source))
	}
	return arrange.Reshape(t, n)
}

// rowOfTokens finds the row of one token.
func rowOfTokens(w *Walk, p *part) (*tensorfs.Tensor, error) {
	t, err := loose(w.take(p.args[0] + p.param))
	if t == nil || err != nil {
		return nil, err
	}
	row, err := strconv.ParseInt(p.args[1], 10, 64)
	if s := t.Numbers(); err != nil || len(s) != 2 || s[0] != int64(len(w.siblings(p.module))) {
		return nil, fmt.Errorf("shape %v of %s does not fit rows of tokens", s, tensorfs.Quote(t.Source))
	}
	return Row(t, row)
}

// joinRows puts all of them into one tensor, with the first.
func joinRows(w *Walk, m *module) error {
	all := w.siblings(m)
	if all[0].Module != m.Module {
		return nil
	}
	p := &part{module: m, param: ".weight"}
	list := make([]*tensorfs.Tensor, len(all))
	for i, s := range all {
		t, err := w.taken(s.from+p.param, s.Shape, s.Needs(p.param, architectures.FromGGUF))
		if err != nil || t == nil {
			return err
		}
		if list[i], err = arrange.Reshape(t, 1, t.Numbers()[0]); err != nil {
			return err
		}
	}
	t, err := w.joined(w.name(p), 0, list)
	if err != nil {
		return err
	}
	return w.Put(w.name(p), t, OriginOf(list[0]), p.Plain)
}

// soundPositions is how many positions the computed table of an audio tower has: two for each frame of 30 seconds.
const soundPositions = 1500

// maxSoundWidth bounds the width of a table that is computed. Published towers have up to 1280.
const maxSoundWidth = 1 << 16

// sinusoids makes the positions of a tower whose model computes them.
func sinusoids(w *Walk, p *part) (*tensorfs.Tensor, error) {
	width := w.Sizes.Len("width")
	if width < 4 || width > maxSoundWidth || width%2 != 0 || p.param != ".weight" {
		return nil, fmt.Errorf("positions of the width %d cannot be computed", width)
	}
	data := newWaves(width/2, soundPositions)
	return &tensorfs.Tensor{Name: p.canonical(), Source: p.canonical(), DType: tensorfs.F32, Shape: []int64{soundPositions, width}, Data: data}, nil
}

// waves are a table of F32 whose row p has the sine and then the cosine of p times each
// frequency. A row is computed when it is read, with the roundings of PyTorch.
type waves struct {
	frequencies []float32
	rows        int64
}

func newWaves(n, rows int64) *waves {
	x := &waves{make([]float32, n), rows}
	step := float32(-math.Log(10000) / float64(n-1))
	for i := range x.frequencies {
		x.frequencies[i] = float32(math.Exp(float64(step * float32(i))))
	}
	return x
}

// Size is the number of bytes.
func (x *waves) Size() int64 { return x.rows * x.row() }

func (x *waves) row() int64 { return 8 * int64(len(x.frequencies)) }

// ReadAt computes the rows that it needs.
func (x *waves) ReadAt(b []byte, at int64) (int, error) {
	n, end := tensorfs.ClipRange(x.Size(), b, at)
	row := make([]byte, x.row())
	for b = b[:n]; len(b) > 0; {
		x.compute(row, at/x.row())
		done := copy(b, row[at%x.row():])
		b, at = b[done:], at+int64(done)
	}
	return n, end
}

func (x *waves) compute(row []byte, position int64) {
	for i, f := range x.frequencies {
		sine, cosine := math.Sincos(float64(float32(position) * f))
		binary.LittleEndian.PutUint32(row[4*i:], math.Float32bits(float32(sine)))
		binary.LittleEndian.PutUint32(row[4*(i+len(x.frequencies)):], math.Float32bits(float32(cosine)))
	}
}

// softplus makes what GGUF has of a scale for each dimension; the return is arrange.InverseSoftplus.
func softplus(_ *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return arrange.Softplus(t)
}

// Ends of the names of a batch norm's statistics.
const (
	runningMean     = ".running_mean"
	runningVariance = ".running_var"
)

// normEpsilon is what PyTorch adds to the variances of batch norms.
const normEpsilon = float32(1e-5)

// foldedNorm makes the factor, or the bias, of a batch norm with its statistics:
//
//	weight' = weight / sqrt(variance + 1e-5)
//	bias'   = bias - mean * weight'
//
// Each step is rounded to F32.
func foldedNorm(w *Walk, p *part) (*tensorfs.Tensor, error) {
	first := w.take(p.from + p.param)
	if first == nil {
		return nil, nil
	}
	var all [4][]float32
	for i, param := range []string{".weight", ".bias", runningMean, runningVariance} {
		t := w.take(p.from + param)
		if t == nil {
			return nil, fmt.Errorf("the tensor %s is missing", p.from+param)
		}
		var err error
		if all[i], err = numbers(t); err != nil {
			return nil, err
		}
		if len(t.Numbers()) != 1 || len(all[i]) != len(all[0]) {
			return nil, fmt.Errorf("shape %v of %s does not fit a batch norm of %d numbers", t.Numbers(), tensorfs.Quote(t.Source), len(all[0]))
		}
	}
	data := make(tensorfs.Bytes, 0, 4*len(all[0]))
	for i := range all[0] {
		root := float32(math.Sqrt(float64(all[3][i] + normEpsilon)))
		x := all[0][i] / root
		if p.param == ".bias" {
			shift := float32(all[2][i] * x)
			x = all[1][i] - shift
		}
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	made := *first
	made.DType, made.Quant, made.Data, made.BigEndian = tensorfs.F32, nil, data, false
	return &made, nil
}

// maxNorm is how many numbers a batch norm may have that is folded.
const maxNorm = 1 << 20

// numbers reads the numbers of a small tensor.
func numbers(t *tensorfs.Tensor) ([]float32, error) {
	if n, _ := tensorfs.Elements(t.Numbers()); n > maxNorm {
		return nil, fmt.Errorf("%s has %d numbers, and a batch norm has up to %d", tensorfs.Quote(t.Source), n, maxNorm)
	}
	return Floats(t)
}

// Floats reads all numbers of a tensor, which has to be small.
func Floats(t *tensorfs.Tensor) ([]float32, error) {
	f, err := Encoded(t, tensorfs.F32)
	if err != nil {
		return nil, err
	}
	b := make([]byte, f.Data.Size())
	if err := tensorfs.ReadFull(f.Data, b, 0); err != nil {
		return nil, err
	}
	list := make([]float32, len(b)/4)
	for i := range list {
		list[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return list, nil
}

// unfoldedNorm refuses: the statistics of a batch norm are lost in its factor and bias.
func unfoldedNorm(_ *Walk, m *module) error {
	return fmt.Errorf("%s was folded into a factor and a bias: the file does not have its mean and variance", m.to)
}
