package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// levelsOfIQ4 are those of go_iq.go.
var levelsOfIQ4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// border is the number from which on level i is next, and not the one below.
func border(i int) float32 { return (levelsOfIQ4[i-1] + levelsOfIQ4[i]) / 2 }

// levelSearch finds levels as a search through the borders does: a comparison makes -1 or 0, and what was found so far
// is twice the last place and that, negative. Its low bits choose the next border from a register.
type levelSearch struct {
	middle, lower, upper, quarters, eighths VecVirtual
}

// byPlace has f(place) where the low bits of the negative place look.
func byPlace(n int, f func(place int) float32) Mem {
	t := make([]float32, 8)
	for i := range 8 {
		t[i] = f((n - i%n) % n)
	}
	return floats(t...)
}

func newLevelSearch() levelSearch {
	return levelSearch{
		inRegister(floats(border(8))), inRegister(floats(border(4))), inRegister(floats(border(12))),
		inRegister(byPlace(4, func(i int) float32 { return border(4*i + 2) })),
		inRegister(byPlace(8, func(i int) float32 { return border(2*i + 1) })),
	}
}

// find sets place to the negative of half of the index of the level next to f, and odd to whether that is odd. Of two
// it is the upper one, and of a NaN the last.
func (s levelSearch) find(f, place, odd VecVirtual) {
	compare(notLess, f, s.middle, place)
	VBLENDVPS(place, s.upper, s.lower, odd)
	compare(notLess, f, odd, odd)
	VPADDD(place, place, place)
	VPADDD(odd, place, place)
	VPERMILPS(place, s.quarters, odd)
	compare(notLess, f, odd, odd)
	VPADDD(place, place, place)
	VPADDD(odd, place, place)
	VPERMPS(s.eighths, place, odd)
	compare(notLess, f, odd, odd)
}

// searchLevels emits searchLevels of go_encode_iq.go.
func searchLevels() {
	TEXT("searchLevelsAVX2", NOSPLIT, "func(p, steps *float32, count int)")
	Pragma("noescape")
	Doc("searchLevelsAVX2 finds the scales of 32 numbers as levels of IQ4. It tries count scales, by the steps that the largest number is to have.")
	p, steps, count := Load(Param("p"), GP64()), Load(Param("steps"), GP64()), Load(Param("count"), GP64())
	end := GP64()
	LEAQ(Mem{Base: p, Disp: 32 * lanesRow}, end)
	scale := func(g int) Mem { return Mem{Base: p, Disp: lanesScale + 32*g} }
	best, largest, none := state{p, 0}, state{p, 1}, state{p, 2}
	{
		first, magnitude := peak(p, end)
		both(func(g int) {
			VMOVUPS(first[g], largest.at(g))
			compare(less, magnitude[g], floats(tiny), magnitude[g])
			VMOVUPS(magnitude[g], none.at(g))
		})
	}
	search := newLevelSearch()
	even := byPlace(8, func(i int) float32 { return levelsOfIQ4[2*i] })
	odd := byPlace(8, func(i int) float32 { return levelsOfIQ4[2*i+1] })
	fit := func(label string, inverse [2]VecVirtual) (product, square [2]VecVirtual) {
		product, square = ymms(), ymms()
		both(func(g int) {
			zeroed(product[g])
			zeroed(square[g])
		})
		eachRow(label, p, end, 4, func(row Mem) {
			both(func(g int) {
				q, place, t := YMM(), YMM(), YMM()
				VMULPS(row.Offset(32*g), inverse[g], q)
				search.find(q, place, t)
				VPERMPS(even, place, q)
				VPERMPS(odd, place, place)
				VBLENDVPS(t, place, q, q)
				VMULPS(row.Offset(lanesW+32*g), q, t)
				VMULPS(t, q, q)
				VADDPS(q, square[g], square[g])
				VMULPS(row.Offset(32*g), t, t)
				VADDPS(t, product[g], product[g])
			})
		})
		return product, square
	}
	inverse := ymms()
	both(func(g int) {
		one := inRegister(floats(1))
		VMOVUPS(largest.at(g), inverse[g])
		VXORPS(signBit(), inverse[g], inverse[g])
		VDIVPS(floats(-127), inverse[g], inverse[g])
		VDIVPS(inverse[g], one, inverse[g])
	})
	product, square := fit("first", inverse)
	both(func(g int) {
		d, t := YMM(), YMM()
		VDIVPS(square[g], product[g], d)
		compare(greater, square[g], zeroed(t), t)
		VANDPS(t, d, d)
		VMOVUPS(d, scale(g))
		VMULPS(product[g], d, d)
		VMOVUPS(d, best.at(g))
	})
	Label("step")
	step := YMM()
	VBROADCASTSS(Mem{Base: steps}, step)
	inverse = ymms()
	both(func(g int) { VDIVPS(largest.at(g), step, inverse[g]) })
	product, square = fit("other", inverse)
	both(func(g int) { better(product[g], square[g], scale(g), best.at(g)) })
	ADDQ(Imm(4), steps)
	DECQ(count)
	JNZ(LabelRef("step"))
	both(func(g int) {
		t := inRegister(none.at(g))
		VANDNPS(scale(g), t, t)
		VMOVUPS(t, scale(g))
	})
	VZEROUPPER()
	RET()
}

// levels emits what chooses codes of IQ4, for runs of 16 numbers.
func levels() {
	TEXT("levelsAVX2", NOSPLIT, "func(codes *uint8, x, inverses *float32, runs int)")
	Pragma("noescape")
	Doc("levelsAVX2 chooses the codes of IQ4 of 16 numbers times a factor, run by run.")
	codes, x, inverses, runs := Load(Param("codes"), GP64()), Load(Param("x"), GP64()), Load(Param("inverses"), GP64()), Load(Param("runs"), GP64())
	search := newLevelSearch()
	Label("run")
	inverse, code := YMM(), [2]VecVirtual{}
	VBROADCASTSS(Mem{Base: inverses}, inverse)
	for i := range code {
		f, place, odd := YMM(), YMM(), YMM()
		VMULPS(Mem{Base: x, Disp: 32 * i}, inverse, f)
		search.find(f, place, odd)
		VPADDD(place, place, place)
		VPADDD(odd, place, place)
		VPABSD(place, place)
		code[i] = place
	}
	storeRun(code, Mem{Base: codes})
	ADDQ(Imm(4), inverses)
	ADDQ(Imm(64), x)
	ADDQ(Imm(16), codes)
	DECQ(runs)
	JNZ(LabelRef("run"))
	VZEROUPPER()
	RET()
}
