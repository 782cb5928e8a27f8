package measure

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// f32 is numbers as F32.
func f32(values ...float64) tensorfs.Bytes {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	}
	return b
}

// normal is n numbers about mean.
func normal(seed uint64, n int, mean float64) []float64 {
	r := rand.New(rand.NewPCG(seed, 3))
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(float32(mean + r.NormFloat64()))
	}
	return values
}

func describe(t *testing.T, n Numbers) Stats {
	t.Helper()
	all, err := Describe(t.Context(), []Numbers{n}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// inf and nan are what the tests put between other numbers.
var inf, nan = math.Inf(1), math.NaN()

func TestDescribe(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []float64
		want   Stats
	}{
		{"empty", nil, Stats{}},
		{"one", []float64{-3}, Stats{Count: 1, Finite: 1, Min: -3, Max: -3, Mean: -3}},
		{"zeros", []float64{0, math.Copysign(0, -1), 0}, Stats{Count: 3, Finite: 3, Zeros: 3}},
		{"few", []float64{1, 2, 3, 4}, Stats{Count: 4, Finite: 4, Min: 1, Max: 4, Mean: 2.5, Std: math.Sqrt(1.25)}},
		{"all odd", []float64{nan, inf, -inf, inf}, Stats{Count: 4, NaN: 1, PosInf: 2, NegInf: 1}},
		{"odd first", []float64{nan, -inf, 2, 4, 0}, Stats{Count: 5, Finite: 3, Zeros: 1, NaN: 1, NegInf: 1, Max: 4, Mean: 2, Std: math.Sqrt(8. / 3)}},
		{"odd last", []float64{2, 4, inf}, Stats{Count: 3, Finite: 2, PosInf: 1, Min: 2, Max: 4, Mean: 3, Std: 1}},
		{"largest", []float64{math.MaxFloat32, -math.MaxFloat32}, Stats{Count: 2, Finite: 2, Min: -math.MaxFloat32, Max: math.MaxFloat32, Std: math.MaxFloat32}},
		{"smallest", []float64{math.SmallestNonzeroFloat32, 0}, Stats{Count: 2, Finite: 2, Zeros: 1, Max: math.SmallestNonzeroFloat32, Mean: math.SmallestNonzeroFloat32 / 2, Std: math.SmallestNonzeroFloat32 / 2}},
	} {
		got := describe(t, Numbers{DType: tensorfs.F32, Data: f32(test.values...)})
		if math.Abs(got.Std-test.want.Std) < 1e-15*test.want.Std {
			got.Std = test.want.Std
		}
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// TestDescribeMany compares with sums of all numbers at once, over more than one
// stretch, with numbers that are not finite at many places.
func TestDescribeMany(t *testing.T) {
	for _, n := range []int{block - 1, block, block + 1, piece + 5, stretch + piece + 7} {
		values := normal(uint64(n), n, 1000) // far from 0, where naive sums of squares are wrong
		for i := 17; i < n; i += 100_003 {
			values[i] = []float64{nan, inf, -inf}[i%3]
		}
		got := describe(t, Numbers{DType: tensorfs.F32, Data: f32(values...)})
		want := Stats{Count: int64(n), Min: inf, Max: -inf}
		for _, v := range values {
			switch {
			case math.IsNaN(v):
				want.NaN++
			case v == inf:
				want.PosInf++
			case v == -inf:
				want.NegInf++
			default:
				want.Finite++
				want.Min, want.Max = min(want.Min, v), max(want.Max, v)
				want.Mean += v - 1000
			}
		}
		want.Mean = 1000 + want.Mean/float64(want.Finite)
		for _, v := range values {
			if isFinite(v) {
				want.Std += (v - want.Mean) * (v - want.Mean)
			}
		}
		want.Std = math.Sqrt(want.Std / float64(want.Finite))
		if math.Abs(got.Mean-want.Mean) > 1e-11 || math.Abs(got.Std-want.Std) > 1e-10 {
			t.Errorf("%d numbers: mean %v, want %v; std %v, want %v", n, got.Mean, want.Mean, got.Std, want.Std)
		}
		if got.Mean, got.Std = want.Mean, want.Std; got != want {
			t.Errorf("%d numbers: %+v, want %+v", n, got, want)
		}
	}
}

func TestIntegers(t *testing.T) {
	for _, test := range []struct {
		dtype    tensorfs.DType
		bytes    []byte
		min, max float64
	}{
		{tensorfs.Bool, []byte{0, 1, 1}, 0, 1},
		{tensorfs.I8, []byte{0x80, 0x7f}, -128, 127},
		{tensorfs.U8, []byte{0x80, 0x7f}, 127, 128},
		{tensorfs.I16, []byte{0, 0x80, 1, 0}, -32768, 1},
		{tensorfs.U16, []byte{0, 0x80, 1, 0}, 1, 32768},
		{tensorfs.I32, []byte{0xfe, 0xff, 0xff, 0xff, 1, 0, 0, 0}, -2, 1},
		{tensorfs.U32, []byte{0xfe, 0xff, 0xff, 0xff, 1, 0, 0, 0}, 1, math.MaxUint32 - 1},
		{tensorfs.I64, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, -2, -2},
		{tensorfs.U64, []byte{1, 0, 0, 0, 1, 0, 0, 0}, 1<<32 + 1, 1<<32 + 1},
	} {
		n := Numbers{DType: test.dtype, Data: tensorfs.Bytes(test.bytes)}
		if got := describe(t, n); got.Min != test.min || got.Max != test.max || got.Count != n.Count() || got.Count != got.Finite {
			t.Errorf("%v: %+v", test.dtype, got)
		}
		if head, err := n.Head(1); err != nil || len(head) != 1 {
			t.Errorf("%v: %v %v", test.dtype, head, err)
		}
	}
	for d := range tensorfs.DTypes() {
		if _, ok := Integers[d]; ok != (d.Kind() == tensorfs.KindInteger) {
			t.Errorf("%v: an integer is %t", d, ok)
		}
	}
}

func TestHistogram(t *testing.T) {
	values := append(normal(5, stretch+1000, 0), nan, inf, -inf, -4, 4, 4.0001)
	h, err := Histogram(t.Context(), Numbers{DType: tensorfs.F32, Data: f32(values...)}, -4, 4, 32, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Bins{From: -4, To: 4, Counts: make([]int64, 32)}
	for _, v := range values {
		switch v := float64(float32(v)); {
		case v < -4:
			want.Below++
		case v > 4:
			want.Above++
		case v <= 4:
			want.Counts[min(int((v+4)*4), 31)]++
		}
	}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("%+v, want %+v", h, want)
	}
	h, err = Histogram(t.Context(), Numbers{DType: tensorfs.F32, Data: f32(7, 7, 7)}, 7, 7, 4, nil)
	if err != nil || !reflect.DeepEqual(h, Bins{From: 7, To: 7, Counts: []int64{3, 0, 0, 0}}) {
		t.Errorf("equal numbers: %+v, %v", h, err)
	}
}

func compare(t *testing.T, p Pair) Difference {
	t.Helper()
	all, err := Compare(t.Context(), []Pair{p}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		name string
		a, b []float64
		want Difference
	}{
		{"empty", nil, nil, Difference{Equal: true, Cosine: 1}},
		{"equal", []float64{1, nan, inf, -inf, 0}, []float64{1, nan, inf, -inf, math.Copysign(0, -1)}, Difference{Equal: true, Count: 5, Largest: 1, Cosine: 1}},
		{"apart", []float64{3, 4}, []float64{4, 3}, Difference{Count: 2, Differ: 2, Max: 1, Mean: 1, Largest: 4, NMSE: 2. / 25, Cosine: 24. / 25}},
		{"opposite", []float64{1, -2}, []float64{-1, 2}, Difference{Count: 2, Differ: 2, Max: 4, Mean: 3, Largest: 2, NMSE: 4, Cosine: -1}},
		{"a is zero", []float64{0, 0}, []float64{0, 2}, Difference{Count: 2, Differ: 1, Max: 2, Mean: 1, Largest: 2, NMSE: inf, Cosine: nan}},
		{"one NaN", []float64{1, nan}, []float64{1, 1}, Difference{Count: 2, Differ: 1, Odd: 1, Largest: 1, Cosine: 1}},
		{"one infinite", []float64{1, inf}, []float64{1, 1}, Difference{Count: 2, Differ: 1, Odd: 1, Largest: 1, Cosine: 1}},
		{"two signs", []float64{1, inf}, []float64{2, -inf}, Difference{Count: 2, Differ: 2, Odd: 1, Max: 1, Mean: .5, Largest: 2, NMSE: 1, Cosine: 1}},
		{"largest", []float64{math.MaxFloat32}, []float64{-math.MaxFloat32}, Difference{Count: 1, Differ: 1, Max: 2 * math.MaxFloat32, Mean: 2 * math.MaxFloat32, Largest: math.MaxFloat32, NMSE: 4, Cosine: -1}},
	} {
		test.want.Numbers = true
		got := compare(t, Pair{A: f32(test.a...), B: f32(test.b...)})
		if math.IsNaN(got.Cosine) && math.IsNaN(test.want.Cosine) || math.Abs(got.Cosine-test.want.Cosine) < 1e-15 {
			got.Cosine, test.want.Cosine = 0, 0
		}
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// TestCompareMany holds the figures of more than a stretch to sums of all numbers.
func TestCompareMany(t *testing.T) {
	n := stretch + 3*block + 5
	a, b := normal(1, n, 0), normal(2, n, 0)
	for i := range a {
		b[i] = float64(float32(a[i] + b[i]/64))
		if i%5 == 0 {
			b[i] = a[i]
		}
	}
	a[stretch+3], b[7] = nan, inf
	got := compare(t, Pair{A: f32(a...), B: f32(b...)})
	want := Difference{Numbers: true, Count: int64(n), Odd: 2, Differ: 2}
	var squares, aa, bb, ab float64
	for i := range a {
		if !isFinite(a[i]) || !isFinite(b[i]) {
			continue
		}
		d := math.Abs(a[i] - b[i])
		if d > 0 {
			want.Differ++
		}
		want.Max, want.Largest = max(want.Max, d), max(want.Largest, math.Abs(a[i]), math.Abs(b[i]))
		want.Mean += d / float64(n)
		squares, aa, bb, ab = squares+d*d, aa+a[i]*a[i], bb+b[i]*b[i], ab+a[i]*b[i]
	}
	want.NMSE, want.Cosine = squares/aa, ab/math.Sqrt(aa*bb)
	for _, p := range []struct{ got, want *float64 }{{&got.Mean, &want.Mean}, {&got.NMSE, &want.NMSE}, {&got.Cosine, &want.Cosine}} {
		if math.Abs(*p.got-*p.want) > 1e-11*math.Abs(*p.want) {
			t.Errorf("%v, want %v", *p.got, *p.want)
		}
		*p.got = *p.want
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// noData must not be read.
type noData struct{ tensorfs.Bytes }

func (noData) ReadAt([]byte, int64) (int, error) { return 0, errors.New("read") }

func TestCompareStored(t *testing.T) {
	long := make(tensorfs.Bytes, 4*stretch+3)
	other := append(tensorfs.Bytes{}, long...)
	other[len(other)-1] = 1
	numbers := noData{f32(1, 2)}
	for _, test := range []struct {
		name string
		pair Pair
		want Difference
	}{
		{"equal bytes are not decoded", Pair{StoredA: long, StoredB: append(tensorfs.Bytes{}, long...), A: numbers, B: numbers}, Difference{Equal: true, Numbers: true, Count: 2, Cosine: 1}},
		{"bytes alone, equal", Pair{StoredA: long, StoredB: long}, Difference{Equal: true, Numbers: true, Cosine: 1}},
		{"bytes alone, the last one differs", Pair{StoredA: long, StoredB: other}, Difference{Cosine: 1}},
		{"bytes alone, one longer", Pair{StoredA: long, StoredB: long[1:]}, Difference{Cosine: 1}},
		{"other bytes, equal numbers", Pair{StoredA: long, StoredB: other, A: f32(1, 0), B: f32(1, math.Copysign(0, -1))}, Difference{Equal: true, Numbers: true, Count: 2, Largest: 1, Cosine: 1}},
	} {
		if got := compare(t, test.pair); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// TestSameOnEveryMachine holds results to the same bits on one core and on several.
func TestSameOnEveryMachine(t *testing.T) {
	a, b := f32(normal(8, 3*stretch+99, 0.1)...), f32(normal(9, 3*stretch+99, 0.1)...)
	var stats []Stats
	var differences []Difference
	for _, n := range []int{1, 2, 5} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
		stats = append(stats, describe(t, Numbers{DType: tensorfs.F32, Data: a}))
		differences = append(differences, compare(t, Pair{A: a, B: b}))
	}
	for i := range stats {
		if stats[i] != stats[0] || differences[i] != differences[0] {
			t.Errorf("%+v and %+v, %+v and %+v", stats[0], stats[i], differences[0], differences[i])
		}
	}
}

func TestProgress(t *testing.T) {
	var read atomic.Int64
	add := func(n int64) { read.Add(n) }
	values := f32(normal(1, stretch+3, 0)...)
	other := append(tensorfs.Bytes{}, values...)
	other[0]++
	equal, apart := Pair{StoredA: values, StoredB: values, A: values, B: values}, Pair{StoredA: values, StoredB: other, A: values, B: other}
	if _, err := Compare(t.Context(), []Pair{equal, apart}, add); err != nil || read.Load() != equal.Bytes()+apart.Bytes() {
		t.Errorf("%d bytes of %d, %v", read.Load(), equal.Bytes()+apart.Bytes(), err)
	}
	read.Store(0)
	if _, err := Describe(t.Context(), []Numbers{{DType: tensorfs.F32, Data: values}}, add); err != nil || read.Load() != values.Size() {
		t.Errorf("%d bytes of %d, %v", read.Load(), values.Size(), err)
	}
}

// broken is Data that cannot be read from some byte on.
type broken struct {
	tensorfs.Data
	at int64
}

var errLost = errors.New("a page is lost")

func (b broken) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > b.at {
		return 0, errLost
	}
	return b.Data.ReadAt(p, off)
}

func TestErrors(t *testing.T) {
	good := f32(normal(1, 2*stretch, 0)...)
	for _, at := range []int64{0, 4 * piece, 4 * (stretch + 1)} {
		bad := broken{good, at}
		list := []Numbers{{"first", tensorfs.F32, good}, {"second", tensorfs.F32, bad}, {"third", tensorfs.F32, good}}
		_, err := Describe(t.Context(), list, nil)
		if !errors.Is(err, errLost) || !strings.HasPrefix(err.Error(), "second: ") {
			t.Errorf("%d: %v", at, err)
		}
		if _, err := Histogram(t.Context(), list[1], 0, 1, 4, nil); !errors.Is(err, errLost) {
			t.Errorf("%d: %v", at, err)
		}
		for _, p := range []Pair{{Name: "x", A: good, B: bad}, {Name: "x", A: bad, B: good}, {Name: "x", StoredA: good, StoredB: bad}} {
			if _, err := Compare(t.Context(), []Pair{{A: good, B: good}, p}, nil); !errors.Is(err, errLost) || !strings.HasPrefix(err.Error(), "x: ") {
				t.Errorf("%d: %v", at, err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Describe(ctx, []Numbers{{Data: good, DType: tensorfs.F32}}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("ended before: %v", err)
	}
}
