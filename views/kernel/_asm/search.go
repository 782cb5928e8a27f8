package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Kernels of quantisers look at sixteen sub-blocks at once, one in each lane of two registers, so that sums keep the
// order of plain Go (go_search.go). They work in a struct, the type lanes of package kernel: element i of sub-block s
// is at x[i][s], and so are weights and codes that are being tried.
const (
	lanesX, lanesW, lanesL = 0, 2048, 4096
	lanesRow               = 64

	lanesScale, lanesMinimum, lanesWeight, lanesSigma, lanesOdd = 6144, 6208, 6272, 6336, 6400
	lanesState                                                  = 6464 // what only kernels use
)

// both calls f for each of the two registers of a row.
func both(f func(g int)) {
	for g := range 2 {
		f(g)
	}
}

// ymms returns a register for each half of the lanes.
func ymms() (r [2]VecVirtual) { return [2]VecVirtual{YMM(), YMM()} }

// state is a row of lanes that stays in memory: the n-th one.
type state struct {
	p Register
	n int
}

func (s state) at(g int) Mem { return Mem{Base: s.p, Disp: lanesState + 64*s.n + 32*g} }

// eachRow emits a loop over the rows up to end, some at a time. body gets where the numbers of a row are; its weights and
// codes are at a fixed distance from them.
func eachRow(label string, p, end Register, unroll int, body func(row Mem)) {
	at := GP64()
	MOVQ(p, at)
	Label(label)
	for i := range unroll {
		body(Mem{Base: at, Disp: lanesRow * i})
	}
	ADDQ(U32(lanesRow*unroll), at)
	CMPQ(at, end)
	JNE(LabelRef(label))
}

// endOf returns the address after the last row of n.
func endOf(p, n Register) Register {
	end := GP64()
	MOVQ(n, end)
	SHLQ(U8(6), end)
	ADDQ(p, end)
	return end
}

func zeroed(r VecVirtual) VecVirtual { VXORPS(r, r, r); return r }

var (
	magnitudeBits = func() Mem { return longs(0x7FFF_FFFF) }
	signBit       = func() Mem { return longs(1 << 31) }
)

// Predicates of comparisons. As in plain Go one with a NaN is false, and != true.
var (
	unordered = Imm(3)
	notEqual  = Imm(4)
	less      = Imm(0x11)
	notLess   = Imm(0x15) // true for a NaN
	greater   = Imm(0x1E)
)

// compare sets to to whether a PREDICATE b.
func compare(predicate Constant, a, b Op, to VecVirtual) { VCMPPS(predicate, b, a, to) }

// replace puts lanes of a row in memory to new ones, where a mask is set.
func replace(s Mem, mask, new VecVirtual) {
	old := YMM()
	VMOVUPS(s, old)
	VBLENDVPS(mask, new, old, old)
	VMOVUPS(old, s)
}

// addOdd marks the lanes of a mask as odd: they are left to plain Go.
func addOdd(p Register, g int, mask VecVirtual) {
	odd := Mem{Base: p, Disp: lanesOdd + 32*g}
	VORPS(odd, mask, mask)
	VMOVUPS(mask, odd)
}

func searches() {
	transpose()
	weights()
	searchMin("Squares", false)
	searchMin("Magnitudes", true)
	searchSigned()
	again()
	searchLevels()
	levels()
	searchQ3()
}

// transpose emits what puts sub-blocks side by side.
func transpose() {
	TEXT("transposeAVX2", NOSPLIT, "func(dst, first, second *float32, n int) (largest uint32)")
	Pragma("noescape")
	Doc("transposeAVX2 puts the numbers of eight sub-blocks of n, and of eight others, side by side, and returns the largest bits of a magnitude.")
	dst, n := Load(Param("dst"), GP64()), Load(Param("n"), GP64())
	src := [2]Register{Load(Param("first"), GP64()), Load(Param("second"), GP64())}
	step, three, five, seven := GP64(), GP64(), GP64(), GP64() // in bytes
	MOVQ(n, step)
	SHLQ(U8(2), step)
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, three)
	LEAQ(Mem{Base: step, Index: step, Scale: 4}, five)
	LEAQ(Mem{Base: three, Index: step, Scale: 4}, seven)
	most := zeroed(YMM())
	mask := inRegister(magnitudeBits())
	SHRQ(U8(3), n)
	Label("rows")
	for g, s := range src {
		var r [8]VecVirtual
		for i, m := range []Mem{
			{Base: s}, {Base: s, Index: step, Scale: 1}, {Base: s, Index: step, Scale: 2}, {Base: s, Index: three, Scale: 1},
			{Base: s, Index: step, Scale: 4}, {Base: s, Index: five, Scale: 1}, {Base: s, Index: three, Scale: 2}, {Base: s, Index: seven, Scale: 1},
		} {
			r[i] = inRegister(m)
			a := YMM()
			VPAND(mask, r[i], a)
			VPMAXUD(a, most, most)
		}
		for i := 0; i < 8; i += 2 { // pairs, fours, eights
			low := YMM()
			VUNPCKLPS(r[i+1], r[i], low)
			VUNPCKHPS(r[i+1], r[i], r[i+1])
			r[i] = low
		}
		for i := 0; i < 8; i += 4 {
			for j := range 2 {
				low := YMM()
				VUNPCKLPD(r[i+j+2], r[i+j], low)
				VUNPCKHPD(r[i+j+2], r[i+j], r[i+j+2])
				r[i+j] = low
			}
		}
		for i, j := range []int{0, 2, 1, 3} {
			low := YMM()
			VPERM2F128(Imm(0x20), r[j+4], r[j], low)
			VMOVUPS(low, Mem{Base: dst, Disp: lanesRow*i + 32*g})
			VPERM2F128(Imm(0x31), r[j+4], r[j], low)
			VMOVUPS(low, Mem{Base: dst, Disp: lanesRow*(i+4) + 32*g})
		}
	}
	for _, s := range src {
		ADDQ(U8(32), s)
	}
	ADDQ(U32(8*lanesRow), dst)
	DECQ(n)
	JNZ(LabelRef("rows"))
	high := YMM()
	VEXTRACTI128(Imm(1), most, high.AsX())
	VPMAXUD(high.AsX(), most.AsX(), most.AsX())
	VPSHUFD(Imm(0b01_00_11_10), most.AsX(), high.AsX())
	VPMAXUD(high.AsX(), most.AsX(), most.AsX())
	VPSHUFD(Imm(0b10_11_00_01), most.AsX(), high.AsX())
	VPMAXUD(high.AsX(), most.AsX(), most.AsX())
	r := GP32()
	VMOVD(most.AsX(), r)
	VZEROUPPER()
	Store(r, Return("largest"))
	RET()
}

// weights emits what sets the weights of lanes.
func weights() {
	kernel := func(name, doc string, body func(p, end Register)) {
		TEXT(name+"AVX2", NOSPLIT, "func(p *float32, n int)")
		Pragma("noescape")
		Doc(name + "AVX2 sets the weights of n numbers in each lane " + doc)
		p := Load(Param("p"), GP64())
		body(p, endOf(p, Load(Param("n"), GP64())))
		VZEROUPPER()
		RET()
	}
	w := func(row Mem, g int) Mem { return row.Offset(lanesW + 32*g) }
	kernel("squares", "to their squares.", func(p, end Register) {
		eachRow("rows", p, end, 4, func(row Mem) {
			both(func(g int) {
				x := inRegister(row.Offset(32 * g))
				VMULPS(x, x, x)
				VMOVUPS(x, w(row, g))
			})
		})
	})
	kernel("magnitudes", "to their magnitudes.", func(p, end Register) {
		mask := inRegister(magnitudeBits())
		eachRow("rows", p, end, 4, func(row Mem) {
			both(func(g int) {
				x := YMM()
				VANDPS(row.Offset(32*g), mask, x)
				VMOVUPS(x, w(row, g))
			})
		})
	})
	kernel("magnitudesAndMean", "to their magnitudes and the root of their mean square; n is 32.", func(p, end Register) {
		mask, sums := inRegister(magnitudeBits()), ymms()
		both(func(g int) { zeroed(sums[g]) })
		eachRow("sums", p, end, 4, func(row Mem) {
			both(func(g int) {
				x := inRegister(row.Offset(32 * g))
				VMULPS(x, x, x)
				VADDPS(x, sums[g], sums[g])
			})
		})
		both(func(g int) {
			VMULPS(floats(1.0/32), sums[g], sums[g])
			VSQRTPS(sums[g], sums[g])
		})
		eachRow("rows", p, end, 4, func(row Mem) {
			both(func(g int) {
				x := YMM()
				VANDPS(row.Offset(32*g), mask, x)
				VADDPS(x, sums[g], x)
				VMOVUPS(x, w(row, g))
			})
		})
	})
	kernel("weigh", "by the importance that is there, and adds them up.", func(p, end Register) {
		sigma, sums := ymms(), ymms()
		both(func(g int) {
			zeroed(sums[g])
			VMOVUPS(Mem{Base: p, Disp: lanesSigma + 32*g}, sigma[g])
		})
		eachRow("rows", p, end, 4, func(row Mem) {
			both(func(g int) {
				x := inRegister(row.Offset(32 * g))
				VMULPS(x, x, x)
				VADDPS(x, sigma[g], x)
				VSQRTPS(x, x)
				VMULPS(w(row, g), x, x)
				VMOVUPS(x, w(row, g))
				VADDPS(x, sums[g], sums[g])
			})
		})
		both(func(g int) { VMOVUPS(sums[g], Mem{Base: p, Disp: lanesWeight + 32*g}) })
	})
}

// searchMin emits searchMin of go_search.go. Errors count by their squares or by their magnitudes.
//
// A lane is odd if its numbers are all the same, a sum of it is not finite, or a number comes out that is so large that
// rounding to an integer is not what plain Go does.
func searchMin(name string, absolute bool) {
	TEXT("searchMin"+name+"AVX2", NOSPLIT, "func(p *float32, n int, most float32, steps *float32, count int)")
	Pragma("noescape")
	Doc("searchMin" + name + "AVX2 finds the scales and minima of codes from 0 to most. It tries count scales, by the steps that the extent of the numbers is divided into.")
	p, n := Load(Param("p"), GP64()), Load(Param("n"), GP64())
	steps, count := Load(Param("steps"), GP64()), Load(Param("count"), GP64())
	end := endOf(p, n)
	scale := func(g int) Mem { return Mem{Base: p, Disp: lanesScale + 32*g} }
	low := func(g int) Mem { return Mem{Base: p, Disp: lanesMinimum + 32*g} } // negated at the end
	least, high, first, sumW, sumX := state{p, 0}, state{p, 1}, state{p, 2}, state{p, 3}, state{p, 4}

	// The extent of the numbers, and sums.
	{
		lo, hi, w, x := ymms(), ymms(), ymms(), ymms()
		both(func(g int) {
			VMOVUPS(Mem{Base: p, Disp: lanesX + 32*g}, lo[g])
			VMOVUPS(lo[g], hi[g])
			VMOVUPS(Mem{Base: p, Disp: lanesW + 32*g}, w[g])
			VMULPS(w[g], lo[g], x[g])
		})
		at := GP64()
		LEAQ(Mem{Base: p, Disp: lanesRow}, at)
		Label("extent")
		both(func(g int) {
			v, wv := YMM(), YMM()
			VMOVUPS(Mem{Base: at, Disp: lanesX + 32*g}, v)
			VMOVUPS(Mem{Base: at, Disp: lanesW + 32*g}, wv)
			VMINPS(lo[g], v, lo[g])
			VMAXPS(hi[g], v, hi[g])
			VADDPS(wv, w[g], w[g])
			VMULPS(wv, v, v)
			VADDPS(v, x[g], x[g])
		})
		ADDQ(U32(lanesRow), at)
		CMPQ(at, end)
		JNE(LabelRef("extent"))
		both(func(g int) {
			VMINPS(lo[g], zeroed(YMM()), lo[g]) // 0 below lo, else lo
			VMOVUPS(lo[g], low(g))
			VMOVUPS(lo[g], first.at(g))
			VMOVUPS(hi[g], high.at(g))
			VMOVUPS(w[g], sumW.at(g))
			VMOVUPS(x[g], sumX.at(g))
			same := YMM()
			VCMPPS(Imm(0), lo[g], hi[g], same)
			VSUBPS(w[g], w[g], w[g])
			VSUBPS(x[g], x[g], x[g])
			compare(unordered, w[g], x[g], w[g])
			VORPS(w[g], same, same)
			VMOVUPS(same, Mem{Base: p, Disp: lanesOdd + 32*g})
		})
	}

	zero, most := zeroed(YMM()), YMM()
	VBROADCASTSS(NewParamAddr("most", 16), most)

	// inverse returns the reciprocals of the scales for a step, and marks odd lanes.
	inverse := func(step VecVirtual) [2]VecVirtual {
		s := ymms()
		both(func(g int) {
			lo, extent, below := YMM(), YMM(), YMM()
			VMOVUPS(low(g), lo)
			VMOVUPS(high.at(g), extent)
			VSUBPS(lo, extent, extent)
			VDIVPS(extent, step, s[g])
			VMOVUPS(first.at(g), below)
			VSUBPS(lo, below, below)
			mask := inRegister(magnitudeBits())
			for _, f := range []VecVirtual{extent, below} {
				VMULPS(s[g], f, f)
				VANDPS(mask, f, f)
				compare(notLess, f, floats(0x1p21), f)
			}
			VORPS(extent, below, below)
			addOdd(p, g, below)
		})
		return s
	}
	// code makes a number its code.
	code := func(v, s, lo VecVirtual) {
		VSUBPS(lo, v, v)
		VMULPS(s, v, v)
		VROUNDPS(Imm(0), v, v)
		VMAXPS(zero, v, v)
		VMINPS(most, v, v)
	}
	// fail adds the error of codes to e.
	fail := func(row Mem, g int, l, a, b, e, mask VecVirtual) {
		VMULPS(a, l, l)
		VADDPS(b, l, l)
		VSUBPS(row.Offset(32*g), l, l)
		if absolute {
			VANDPS(mask, l, l)
		} else {
			VMULPS(l, l, l)
		}
		VMULPS(row.Offset(lanesW+32*g), l, l)
		VADDPS(l, e, e)
	}

	// The scale that divides all of the extent.
	{
		s, a, lo, e := inverse(most), ymms(), ymms(), ymms()
		mask := YMM()
		if absolute {
			VMOVUPS(magnitudeBits(), mask)
		}
		both(func(g int) {
			one := inRegister(floats(1))
			VDIVPS(s[g], one, a[g])
			VMOVUPS(a[g], scale(g))
			VMOVUPS(low(g), lo[g])
			zeroed(e[g])
		})
		eachRow("whole", p, end, 2, func(row Mem) {
			both(func(g int) {
				v := inRegister(row.Offset(32 * g))
				code(v, s[g], lo[g])
				fail(row, g, v, a[g], lo[g], e[g], mask)
			})
		})
		both(func(g int) { VMOVUPS(e[g], least.at(g)) })
	}

	Label("step")
	step := YMM()
	VBROADCASTSS(Mem{Base: steps}, step)
	s := inverse(step)
	lo, sumL, sumLL, sumXL := ymms(), ymms(), ymms(), ymms()
	both(func(g int) {
		VMOVUPS(low(g), lo[g])
		zeroed(sumL[g])
		zeroed(sumLL[g])
		zeroed(sumXL[g])
	})
	eachRow("sums", p, end, 8, func(row Mem) {
		both(func(g int) {
			x := inRegister(row.Offset(32 * g))
			l, w := YMM(), YMM()
			VSUBPS(lo[g], x, l)
			VMULPS(s[g], l, l)
			VROUNDPS(Imm(0), l, l)
			VMAXPS(zero, l, l)
			VMINPS(most, l, l)
			VMOVUPS(l, row.Offset(lanesL+32*g))
			VMULPS(row.Offset(lanesW+32*g), l, w)
			VADDPS(w, sumL[g], sumL[g])
			VMULPS(x, w, x)
			VADDPS(x, sumXL[g], sumXL[g])
			VMULPS(l, w, w)
			VADDPS(w, sumLL[g], sumLL[g])
		})
	})
	a, b, good := ymms(), ymms(), ymms()
	both(func(g int) {
		w, x, d, t, positive := YMM(), YMM(), YMM(), YMM(), YMM()
		VMOVUPS(sumW.at(g), w)
		VMOVUPS(sumX.at(g), x)
		VMULPS(sumLL[g], w, d)
		VMULPS(sumL[g], sumL[g], t)
		VSUBPS(t, d, d)
		VMULPS(sumXL[g], w, a[g])
		VMULPS(sumL[g], x, t)
		VSUBPS(t, a[g], a[g])
		VDIVPS(d, a[g], a[g])
		VMULPS(sumLL[g], x, b[g])
		VMULPS(sumXL[g], sumL[g], t)
		VSUBPS(t, b[g], b[g])
		VDIVPS(d, b[g], b[g])
		compare(greater, d, zero, good[g])
		compare(greater, b[g], zero, positive)
		VDIVPS(sumLL[g], sumXL[g], t)
		VBLENDVPS(positive, t, a[g], a[g])
		VANDNPS(b[g], positive, b[g])
	})
	e := ymms()
	mask := YMM()
	if absolute {
		VMOVUPS(magnitudeBits(), mask)
	}
	both(func(g int) { zeroed(e[g]) })
	eachRow("errors", p, end, 8, func(row Mem) {
		both(func(g int) { fail(row, g, inRegister(row.Offset(lanesL+32*g)), a[g], b[g], e[g], mask) })
	})
	both(func(g int) {
		t := YMM()
		compare(less, e[g], least.at(g), t)
		VANDPS(good[g], t, t)
		replace(least.at(g), t, e[g])
		replace(scale(g), t, a[g])
		replace(low(g), t, b[g])
	})
	ADDQ(Imm(4), steps)
	DECQ(count)
	JNZ(LabelRef("step"))
	both(func(g int) {
		t := inRegister(signBit())
		VXORPS(low(g), t, t)
		VMOVUPS(t, low(g))
	})
	VZEROUPPER()
	RET()
}

// tiny is the bits of 1e-15, as in go_search.go.
var tiny = math.Float32frombits(math.Float32bits(1e-15))

// peak emits peak of go_search.go, for all lanes.
func peak(p, end Register) (first, magnitude [2]VecVirtual) {
	first, magnitude = ymms(), ymms()
	mask := inRegister(magnitudeBits())
	both(func(g int) {
		zeroed(first[g])
		zeroed(magnitude[g])
	})
	eachRow("peak", p, end, 4, func(row Mem) {
		both(func(g int) {
			x, a, more := inRegister(row.Offset(32*g)), YMM(), YMM()
			VANDPS(mask, x, a)
			compare(greater, a, magnitude[g], more)
			VBLENDVPS(more, x, first[g], first[g])
			VBLENDVPS(more, a, magnitude[g], magnitude[g])
		})
	})
	return first, magnitude
}

// better sets a mask to where a scale is better, and keeps it: product*product > best*square, with a positive square.
func better(product, square VecVirtual, scale, best Mem) (mask VecVirtual) {
	mask, d, t, u := YMM(), YMM(), YMM(), YMM()
	VDIVPS(square, product, d)
	VMULPS(product, product, t)
	VMULPS(best, square, u)
	compare(greater, t, u, mask)
	compare(greater, square, zeroed(u), t)
	VANDPS(t, mask, mask)
	VMULPS(d, product, t)
	replace(scale, mask, d)
	replace(best, mask, t)
	return mask
}

// searchSigned emits searchSigned of go_search.go. A lane is odd that is to become zeros, or with a sum that is not finite.
func searchSigned() {
	TEXT("searchSignedAVX2", NOSPLIT, "func(p *float32, n int, m float32, steps *float32, count int)")
	Pragma("noescape")
	Doc("searchSignedAVX2 finds the scales of codes from -m to m-1. It tries count scales, by the steps that the largest number is to have.")
	p, n := Load(Param("p"), GP64()), Load(Param("n"), GP64())
	steps, count := Load(Param("steps"), GP64()), Load(Param("count"), GP64())
	end := endOf(p, n)
	scale := func(g int) Mem { return Mem{Base: p, Disp: lanesScale + 32*g} }
	best, largest := state{p, 0}, state{p, 1}
	{
		first, magnitude := peak(p, end)
		both(func(g int) {
			VMOVUPS(first[g], largest.at(g))
			compare(less, magnitude[g], floats(tiny), magnitude[g])
			VMOVUPS(magnitude[g], Mem{Base: p, Disp: lanesOdd + 32*g})
			zeroed(first[g])
			VMOVUPS(first[g], best.at(g))
			VMOVUPS(first[g], scale(g))
		})
	}
	eachRow("products", p, end, 4, func(row Mem) {
		both(func(g int) {
			x := inRegister(row.Offset(32 * g))
			VMULPS(row.Offset(lanesW+32*g), x, x)
			VMOVUPS(x, row.Offset(lanesL+32*g))
		})
	})
	low, high := YMM(), YMM()
	VBROADCASTSS(NewParamAddr("m", 16), high)
	VXORPS(signBit(), high, low)
	VSUBPS(floats(1), high, high)
	fit := func(label string) (product, square [2]VecVirtual) {
		s := ymms()
		product, square = ymms(), ymms()
		step := YMM()
		VBROADCASTSS(Mem{Base: steps}, step)
		both(func(g int) {
			VDIVPS(largest.at(g), step, s[g])
			zeroed(product[g])
			zeroed(square[g])
		})
		eachRow(label, p, end, 8, func(row Mem) {
			both(func(g int) {
				l, t := YMM(), YMM()
				VMULPS(row.Offset(32*g), s[g], l)
				VROUNDPS(Imm(0), l, l)
				VMAXPS(low, l, l)
				VMINPS(high, l, l)
				VMULPS(row.Offset(lanesL+32*g), l, t)
				VADDPS(t, product[g], product[g])
				VMULPS(row.Offset(lanesW+32*g), l, t)
				VMULPS(l, t, t)
				VADDPS(t, square[g], square[g])
			})
		})
		return product, square
	}
	product, square := fit("first")
	both(func(g int) {
		d, t := YMM(), YMM()
		VDIVPS(square[g], product[g], d)
		compare(notEqual, square[g], zeroed(t), t)
		VANDPS(t, d, d)
		VMOVUPS(d, scale(g))
		VMULPS(product[g], d, d)
		VMOVUPS(d, best.at(g))
		VSUBPS(product[g], product[g], d)
		VSUBPS(square[g], square[g], t)
		compare(unordered, d, t, t)
		addOdd(p, g, t)
	})
	Label("step")
	ADDQ(Imm(4), steps)
	DECQ(count)
	JZ(LabelRef("done"))
	product, square = fit("other")
	both(func(g int) { better(product[g], square[g], scale(g), best.at(g)) })
	JMP(LabelRef("step"))
	Label("done")
	VZEROUPPER()
	RET()
}

// again emits again of go_encode_k.go for the sixteen runs of 16 numbers of a block.
func again() {
	TEXT("againAVX2", NOSPLIT, "func(codes *uint8, x, scales, minima *float32, least, most int32)")
	Pragma("noescape")
	Doc("againAVX2 chooses the codes, less the least, of 256 numbers by a scale and a minimum for each 16.")
	codes, x := Load(Param("codes"), GP64()), Load(Param("x"), GP64())
	scales, minima := Load(Param("scales"), GP64()), Load(Param("minima"), GP64())
	least, most := YMM(), YMM()
	for i, name := range []string{"least", "most"} {
		y := []VecVirtual{least, most}[i]
		VMOVD(Load(Param(name), GP32()), y.AsX())
		VPBROADCASTD(y.AsX(), y)
	}
	magic, mask, half := inRegister(floats(12582912)), inRegister(longs(0x7F_FFFF)), inRegister(longs(0x40_0000))
	count := GP64()
	MOVQ(U32(16), count)
	Label("run")
	d, m := YMM(), YMM()
	VBROADCASTSS(Mem{Base: scales}, d)
	VBROADCASTSS(Mem{Base: minima}, m)
	var l [2]VecVirtual
	for i := range l {
		l[i] = YMM()
		VADDPS(Mem{Base: x, Disp: 32 * i}, m, l[i])
		VDIVPS(d, l[i], l[i])
		VADDPS(magic, l[i], l[i])
		VPAND(mask, l[i], l[i])
		VPSUBD(half, l[i], l[i])
		VPMAXSD(least, l[i], l[i])
		VPMINSD(most, l[i], l[i])
		VPSUBD(least, l[i], l[i])
	}
	storeRun(l, Mem{Base: codes})
	ADDQ(Imm(4), scales)
	ADDQ(Imm(4), minima)
	ADDQ(Imm(64), x)
	ADDQ(Imm(16), codes)
	DECQ(count)
	JNZ(LabelRef("run"))
	VZEROUPPER()
	RET()
}

// storeRun stores sixteen whole numbers as bytes. It clobbers them.
func storeRun(l [2]VecVirtual, dst Mem) {
	VPACKSSDW(l[1], l[0], l[0])
	VPERMQ(Imm(0b11_01_10_00), l[0], l[0])
	VEXTRACTI128(Imm(1), l[0], l[1].AsX())
	VPACKUSWB(l[1].AsX(), l[0].AsX(), l[0].AsX())
	VMOVDQU(l[0].AsX(), dst)
}
