package mix_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/mix"
)

const golden = "../../testdata/merge"

// params are what the golden files say of themselves.
type params struct {
	Method    string
	Weight    []float64
	Density   []float64
	T         float64
	Lambda    *float64
	Normalize bool
	Rescale   bool
}

// open opens a golden case: its merge and what mergekit made.
func open(t *testing.T, name string) (m mix.Merge, out *tensorfs.Tensor) {
	t.Helper()
	model, err := formats.Open(filepath.Join(golden, name+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	var p params
	if err := json.Unmarshal([]byte(model.Meta("safetensors.params").(string)), &p); err != nil {
		t.Fatal(err)
	}
	m = mix.Merge{Method: p.Method, T: p.T, Lambda: 1, Normalize: p.Normalize, Rescale: p.Rescale}
	if p.Lambda != nil {
		m.Lambda = *p.Lambda
	}
	based := p.Method != "linear"
	for i := 0; ; i++ {
		in := model.TensorBySource("in" + string(rune('0'+i)))
		if in == nil {
			break
		}
		x := mix.Input{Tensor: in, Base: based && i == 0, Density: 1}
		k := i
		if based {
			k--
		}
		if k >= 0 && k < len(p.Weight) {
			x.Weight = p.Weight[k]
		}
		if k >= 0 && k < len(p.Density) {
			x.Density = p.Density[k]
		}
		m.Inputs = append(m.Inputs, x)
	}
	return m, model.TensorBySource("out")
}

// cases are the golden files, without those whose method mergekit has under no name.
func cases(t *testing.T) (names []string) {
	files, err := filepath.Glob(filepath.Join(golden, "*.safetensors"))
	if err != nil || len(files) == 0 {
		t.Fatal("no golden merges", err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".safetensors"); !strings.HasPrefix(name, "ties-count") {
			names = append(names, name)
		}
	}
	return names
}

// TestGolden compares merged tensors with mergekit's: every bit, and for ties, where mergekit
// takes any of the differences that are equal at the cut, all others.
func TestGolden(t *testing.T) {
	for _, name := range cases(t) {
		m, want := open(t, name)
		got, err := m.Tensor()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
			t.Errorf("%s: %s %v, want %s %v", name, got.DType, got.Shape, want.DType, want.Shape)
			continue
		}
		a, err := views.Floats(&got)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, _ := views.Floats(want)
		cut := atCut(t, m)
		largest := 0.0
		for _, x := range b {
			largest = max(largest, math.Abs(float64(x)))
		}
		for i := range a {
			switch {
			case math.Float32bits(a[i]) == math.Float32bits(b[i]), cut[i]:
			case m.Rescale && math.Abs(float64(a[i]-b[i])) <= 0x1p-22*largest: // a sum in another order
			default:
				t.Errorf("%s: element %d is %g, and mergekit's %g", name, i, a[i], b[i])
			}
		}
	}
}

// atCut returns the elements whose difference is as large as the smallest one that ties keeps.
func atCut(t *testing.T, m mix.Merge) map[int]bool {
	at := map[int]bool{}
	if m.Method != "ties" {
		return at
	}
	numbers := make([][]float32, len(m.Inputs))
	for i, in := range m.Inputs {
		var err error
		if numbers[i], err = views.Floats(in.Tensor); err != nil {
			t.Fatal(err)
		}
	}
	for i, in := range m.Inputs[1:] {
		d := make([]float32, len(numbers[0]))
		for k := range d {
			d[k] = rounded(in.Tensor.DType, numbers[i+1][k]-numbers[0][k])
			d[k] = max(d[k], -d[k])
		}
		sorted := slices.Sorted(slices.Values(d))
		least := sorted[len(d)-int(in.Density*float64(len(d)))]
		for k := range d {
			if d[k] == least {
				at[k] = true
			}
		}
	}
	if len(at) > 40 {
		t.Errorf("%d elements are at the cut", len(at))
	}
	return at
}

// rounded is a number as a type has it.
func rounded(d tensorfs.DType, x float32) float32 {
	t := &tensorfs.Tensor{DType: tensorfs.F32, Shape: []int64{1}, Data: tensorfs.Bytes(binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)))}
	data, err := views.Encode(t, d)
	if err != nil {
		panic(err)
	}
	n, err := views.Floats(&tensorfs.Tensor{DType: d, Shape: t.Shape, Data: data})
	if err != nil {
		panic(err)
	}
	return n[0]
}

// TestRanges compares pieces of merges, read by many at a time, with the whole.
func TestRanges(t *testing.T) {
	for _, name := range cases(t) {
		m, _ := open(t, name)
		for _, out := range []tensorfs.DType{tensorfs.Unknown, tensorfs.F32, tensorfs.BF16} {
			m.Out = out
			whole, err := m.Tensor()
			if err != nil {
				t.Fatal(err)
			}
			want := make([]byte, whole.Data.Size())
			if err := tensorfs.ReadFull(whole.Data, want, 0); err != nil {
				t.Fatal(err)
			}
			again, _ := m.Tensor() // nothing of it is ready yet
			var wg sync.WaitGroup
			for range 32 {
				wg.Go(func() {
					for range 50 {
						from := rand.Int64N(int64(len(want)))
						n := rand.Int64N(min(600, int64(len(want))-from) + 1)
						got := make([]byte, n)
						if err := tensorfs.ReadFull(again.Data, got, from); err != nil || !bytes.Equal(got, want[from:from+n]) {
							t.Errorf("%s: %d bytes at %d differ: %v", name, n, from, err)
							return
						}
					}
				})
			}
			wg.Wait()
		}
	}
}

// TestEdges holds what the golden files do not have: a scale for one tensor, ties that keep nothing, and
// ties of equal differences in a tensor that is read in several stretches.
func TestEdges(t *testing.T) {
	const n = 3 << 20
	tensor := func(x float32) *tensorfs.Tensor {
		b := bytes.Repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)), n)
		return &tensorfs.Tensor{Source: "t", DType: tensorfs.F32, Shape: []int64{n}, Data: tensorfs.Bytes(b)}
	}
	half := 0.5
	ties := func(density float64) mix.Merge {
		return mix.Merge{Method: "ties", Lambda: 1, Inputs: []mix.Input{{Tensor: tensor(1), Base: true}, {Tensor: tensor(3), Weight: 1, Density: density}}}
	}
	for name, c := range map[string]struct {
		m    mix.Merge
		kept int // of the numbers, how many are 3
		rest float32
	}{
		"passthrough with a scale": {mix.Merge{Method: "passthrough", Scale: &half, Inputs: []mix.Input{{Tensor: tensor(8)}}}, 0, 4},
		"ties of nothing":          {ties(0), 0, 1},
		"ties of three quarters":   {ties(0.75), n * 3 / 4, 1},
	} {
		got, err := c.m.Tensor()
		if err != nil {
			t.Fatal(name, err)
		}
		all, err := views.Floats(&got)
		if err != nil {
			t.Fatal(name, err)
		}
		for i, x := range all {
			if want := c.rest; x != want && (i >= c.kept || x != 3) || i < c.kept && x != 3 {
				t.Errorf("%s: element %d is %g", name, i, x)
				break
			}
		}
	}
}

// TestRefused: tensors that cannot be merged are named.
func TestRefused(t *testing.T) {
	tensor := func(source string, d tensorfs.DType, shape ...int64) *tensorfs.Tensor {
		size, _ := d.Size(shape)
		return &tensorfs.Tensor{Source: source, DType: d, Shape: shape, Data: tensorfs.Bytes(make([]byte, size))}
	}
	a, b := tensor("a", tensorfs.F32, 2, 3), tensor("b", tensorfs.F32, 3, 2)
	for _, c := range []struct {
		m    mix.Merge
		want string
	}{
		{mix.Merge{Method: "linear"}, "nothing"},
		{mix.Merge{Method: "linear", Inputs: []mix.Input{{Tensor: a}, {Tensor: b}}}, `"b" has shape [2 3]`},
		{mix.Merge{Method: "linear", Inputs: []mix.Input{{Tensor: a}, {Tensor: tensor("c", tensorfs.BF16, 2, 3)}}}, "dtype"},
		{mix.Merge{Method: "linear", Inputs: []mix.Input{{Tensor: tensor("d", tensorfs.I32, 2)}}}, `"d" is I32`},
		{mix.Merge{Method: "linear", Normalize: true, Inputs: []mix.Input{{Tensor: a, Weight: 1}, {Tensor: a, Weight: -1}}}, "add up to 0"},
		{mix.Merge{Method: "slerp", Inputs: []mix.Input{{Tensor: a}, {Tensor: a}}}, "base"},
		{mix.Merge{Method: "ties", Inputs: []mix.Input{{Tensor: a, Base: true}}}, "other tensors"},
		{mix.Merge{Method: "magic", Inputs: []mix.Input{{Tensor: a}}}, "magic"},
	} {
		if _, err := c.m.Tensor(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// broken is data that cannot be read.
type broken struct{ tensorfs.Data }

func (broken) ReadAt([]byte, int64) (int, error) { return 0, errors.New("it is gone") }
func (broken) Check() error                      { return errors.New("it changed") }

// TestBroken: a merge fails at the bytes that come from a failing input, also while whole tensors
// are read.
func TestBroken(t *testing.T) {
	for _, name := range []string{"linear-F16", "slerp-F16", "ties-F16"} {
		m, _ := open(t, name)
		last := *m.Inputs[len(m.Inputs)-1].Tensor
		last.Data = broken{last.Data}
		m.Inputs[len(m.Inputs)-1].Tensor = &last
		x, err := m.Tensor()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Data.ReadAt(make([]byte, 8), 0); err == nil {
			t.Errorf("%s is read", name)
		}
		if tensorfs.Check(x.Data) == nil {
			t.Errorf("%s has not changed", name)
		}
	}
}
