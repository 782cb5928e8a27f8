// Package testnumbers makes rows of numbers that are hard to quantise, and an importance of their columns, from seeds.
// Only integers are computed before the last step, so that they are the same on every machine.
package testnumbers

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// Columns is how many numbers a row has.
const Columns = 512

// Row is F32 numbers and the importance of their columns.
type Row struct {
	Numbers    []byte
	Importance []float32
}

// kind changes the numbers and the importance of a row, which are random.
type kind struct {
	name   string
	change func(r *rand.Rand, x, importance []float32)
}

// each makes a change of each number.
func each(change func(r *rand.Rand, i int, v float32) float32) func(r *rand.Rand, x, importance []float32) {
	return func(r *rand.Rand, x, _ []float32) {
		for i, v := range x {
			x[i] = change(r, i, v)
		}
	}
}

var kinds = []kind{
	{"random", func(*rand.Rand, []float32, []float32) {}},
	{"BF16", each(func(_ *rand.Rand, _ int, v float32) float32 {
		return math.Float32frombits(math.Float32bits(v) &^ 0xFFFF)
	})},
	{"three levels", each(func(r *rand.Rand, _ int, _ float32) float32 { return float32(r.IntN(3)-1) / 4 })},
	{"seven levels", each(func(r *rand.Rand, _ int, _ float32) float32 { return float32(r.IntN(7)-3) / 8 })},
	{"negative", each(func(_ *rand.Rand, _ int, v float32) float32 { return -max(v, -v) })},
	{"many zeros", each(func(r *rand.Rand, _ int, v float32) float32 {
		if r.IntN(8) > 0 {
			return 0
		}
		return v
	})},
	{"zeros", each(func(*rand.Rand, int, float32) float32 { return 0 })},
	{"zeros in groups", each(func(r *rand.Rand, i int, v float32) float32 {
		if i/16*2654435761%5 < 2 {
			return 0
		}
		return v
	})},
	{"one large number", each(func(r *rand.Rand, i int, v float32) float32 {
		if i == 100 {
			return -3
		}
		return float32(math.Copysign(0, float64(v)))
	})},
	{"outliers", each(func(_ *rand.Rand, i int, v float32) float32 {
		if i%37 == 0 {
			return v * 1024
		}
		return v
	})},
	{"all magnitudes", each(func(r *rand.Rand, _ int, v float32) float32 { return v * float32(math.Ldexp(1, r.IntN(60)-45)) })},
	{"equal", each(func(*rand.Rand, int, float32) float32 { return 0.5 })},
	{"small", each(func(_ *rand.Rand, _ int, v float32) float32 { return v * 0x1p-26 })},
	{"subnormal", each(func(_ *rand.Rand, _ int, v float32) float32 { return v * 0x1p-132 })},
	{"no importance", func(_ *rand.Rand, _, importance []float32) { clear(importance) }},
	{"little importance", func(r *rand.Rand, _, importance []float32) {
		for i := range importance {
			if r.IntN(2) > 0 {
				importance[i] = 0
			}
		}
	}},
	{"great importance", func(_ *rand.Rand, x, importance []float32) {
		for i := range importance {
			x[i] *= 0x1p-60
			importance[i] *= 0x1p60
		}
	}},
}

// Kinds are the names of the kinds of rows.
func Kinds() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// Rows returns n rows of a kind.
func Rows(name string, n int) (rows []Row) {
	for at, k := range kinds {
		if k.name != name {
			continue
		}
		r := rand.New(rand.NewPCG(uint64(at), 7))
		for range n {
			x, importance := make([]float32, Columns), make([]float32, Columns)
			for i := range x {
				sum := 0 // about normal
				for range 6 {
					sum += r.IntN(1<<16+1) - 1<<15
				}
				x[i] = float32(sum) * 0x1p-21
				importance[i] = float32(1+r.IntN(1<<10)*r.IntN(1<<10)) * 0x1p-18
			}
			k.change(r, x, importance)
			row := Row{Importance: importance}
			for _, v := range x {
				row.Numbers = binary.LittleEndian.AppendUint32(row.Numbers, math.Float32bits(v))
			}
			rows = append(rows, row)
		}
	}
	return rows
}
