package kernel

import "math"

// How ggml finds the scales of a sub-block (ggml-quants.c: make_qx_quants, make_q3_quants, make_qkx2_quants,
// make_qkx3_quants, make_qp_quants, best_index_int8): it tries some, and takes that with the smallest weighted error.
//
// Every bit of the result is specified, so the order of operations is part of it: each is
// rounded to F32 on its own, sums go in the order of the elements. A product that is added
// to something is converted explicitly, because Go would otherwise fuse the two on
// processors that can.

// tiny is what a group's largest number has to reach; below it the group is taken for zeros.
const tiny = 1e-15

// nearest returns the integer next to f, ties to even, for |f| < 2^22. Beyond it gives what ggml's nearest_int gives.
func nearest(f float32) int32 {
	return int32(math.Float32bits(float32(f)+12582912)&0x7F_FFFF) - 0x40_0000
}

func clamp(l, least, most int32) int32 { return max(least, min(most, l)) }

func magnitudeOf(x float32) float32 {
	return math.Float32frombits(math.Float32bits(x) & 0x7FFF_FFFF)
}

// peak returns the first number of the largest magnitude, and that magnitude.
func peak(x []float32) (first, magnitude float32) {
	for _, v := range x {
		if a := magnitudeOf(v); a > magnitude {
			first, magnitude = v, a
		}
	}
	return first, magnitude
}

// squares sets w to the squares of x.
func squares(w, x []float32) {
	for i, v := range x {
		w[i] = float32(v * v)
	}
}

// add returns the sum of x, in order.
func add(x []float32) (sum float32) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// addSquares returns the sum of the squares of x, in order.
func addSquares(x []float32) (sum float32) {
	for _, v := range x {
		sum += float32(v * v)
	}
	return sum
}

// weigh sets w to the weights of numbers whose columns have an importance: with sqrt(sigma + x*x).
func weigh(w, importance, x []float32, sigma float32) {
	for i, v := range x {
		w[i] = importance[i] * float32(math.Sqrt(float64(float32(sigma+float32(v*v)))))
	}
}

// searchSigned finds the scale of codes from -m to m-1, and stores them plus m. It is make_qx_quants.
func searchSigned(codes []uint8, m int32, x, w []float32) float32 {
	largest, magnitude := peak(x)
	if magnitude < tiny {
		clear(codes[:len(x)])
		return 0
	}
	inverse := float32(-m) / largest
	var product, square float32 // sums of w*x*l and w*l*l
	for i, v := range x {
		l := clamp(nearest(float32(inverse*v)), -m, m-1)
		codes[i] = uint8(l + m)
		product += float32(float32(w[i]*v) * float32(l))
		square += float32(float32(w[i]*float32(l)) * float32(l))
	}
	scale := float32(0)
	if square != 0 {
		scale = product / square
	}
	best := scale * product
	for k := int32(-9); k <= 9; k++ {
		if k == 0 {
			continue
		}
		inverse := -(float32(m) + float32(float32(0.1)*float32(k))) / largest
		product, square = 0, 0
		for i, v := range x {
			l := float32(clamp(nearest(float32(inverse*v)), -m, m-1))
			product += float32(float32(w[i]*v) * l)
			square += float32(float32(w[i]*l) * l)
		}
		if square > 0 && float32(product*product) > float32(best*square) {
			for i, v := range x {
				codes[i] = uint8(clamp(nearest(float32(inverse*v)), -m, m-1) + m)
			}
			scale = product / square
			best = scale * product
		}
	}
	return scale
}

// searchQ3 finds the scale of 16 codes from -4 to 3, and stores them plus 4. It is make_q3_quants, where the weight of
// a number is its square.
func searchQ3(codes []uint8, x []float32) float32 {
	const m = 4
	largest, magnitude := peak(x)
	if magnitude < tiny {
		clear(codes[:len(x)])
		return 0
	}
	inverse := float32(-m) / largest
	var l [16]float32
	var product, square float32
	for i, v := range x {
		l[i] = float32(clamp(nearest(float32(inverse*v)), -m, m-1))
		w := float32(v * v)
		product += float32(float32(w*v) * l[i])
		square += float32(float32(w*l[i]) * l[i])
	}
	for range 5 {
		changed := false
		for i, v := range x {
			w := float32(v * v)
			p := product - float32(float32(w*v)*l[i])
			if !(p > 0) {
				continue
			}
			q := square - float32(float32(w*l[i])*l[i])
			n := float32(clamp(nearest(float32(v*q)/p), -m, m-1))
			if n == l[i] {
				continue
			}
			p += float32(float32(w*v) * n)
			q += float32(float32(w*n) * n)
			if q > 0 && float32(float32(p*p)*square) > float32(float32(product*product)*q) {
				l[i], product, square, changed = n, p, q, true
			}
		}
		if !changed {
			break
		}
	}
	for i := range x {
		codes[i] = uint8(int32(l[i]) + m)
	}
	if square > 0 {
		return product / square
	}
	return 0
}

// grid lists the scales that [searchMin] tries: for codes up to steps of another width.
type grid struct {
	most        int32   // the largest code
	first, step float32 // what is added to it, for k = 0, 1, ... last
	last        int
	absolute    bool // errors count by their magnitude, not by their square
}

// searchMin finds the scale and the minimum of codes from 0 to most: x is about scale*code - minimum, and the minimum
// is not negative. It is make_qkx2_quants, and make_qkx3_quants.
func searchMin(codes []uint8, x, w []float32, g grid) (scale, minimum float32) {
	low, high := x[0], x[0]
	sumW, sumX := w[0], float32(w[0]*x[0])
	for i, v := range x[1:] {
		if v < low {
			low = v
		}
		if v > high {
			high = v
		}
		sumW += w[i+1]
		sumX += float32(w[i+1] * v)
	}
	if low > 0 {
		low = 0
	}
	if high == low {
		clear(codes[:len(x)])
		return 0, -low
	}
	failure := func(w, difference float32) float32 {
		if g.absolute {
			return float32(w * magnitudeOf(difference))
		}
		return float32(w * float32(difference*difference))
	}
	inverse := float32(g.most) / (high - low)
	scale = 1 / inverse
	var least float32 // the error so far
	for i, v := range x {
		l := clamp(nearest(float32(inverse*(v-low))), 0, g.most)
		codes[i] = uint8(l)
		least += failure(w[i], (float32(scale*float32(l))+low)-v)
	}
	var tried [32]float32
	for k := 0; k <= g.last; k++ {
		inverse := ((g.first + float32(g.step*float32(k))) + float32(g.most)) / (high - low)
		var sumL, sumLL, sumXL float32
		for i, v := range x {
			l := float32(clamp(nearest(float32(inverse*(v-low))), 0, g.most))
			tried[i] = l
			sumL += float32(w[i] * l)
			sumLL += float32(float32(w[i]*l) * l)
			sumXL += float32(float32(w[i]*l) * v)
		}
		d := float32(sumW*sumLL) - float32(sumL*sumL)
		if !(d > 0) {
			continue
		}
		a := (float32(sumW*sumXL) - float32(sumX*sumL)) / d
		b := (float32(sumLL*sumX) - float32(sumL*sumXL)) / d
		if b > 0 {
			a, b = sumXL/sumLL, 0
		}
		var e float32
		for i, v := range x {
			e += failure(w[i], (float32(a*tried[i])+b)-v)
		}
		if e < least {
			for i := range x {
				codes[i] = uint8(tried[i])
			}
			least, scale, low = e, a, b // later ones start from this minimum
		}
	}
	return scale, -low
}

// searchPositive finds the scale of codes from 0 to m of numbers that are not negative. A code is a byte: what is below
// zero all the same wraps. It is make_qp_quants.
func searchPositive(codes []uint8, m int32, x, w []float32) float32 {
	largest := float32(0)
	for _, v := range x {
		if v > largest {
			largest = v
		}
	}
	if largest < tiny {
		clear(codes[:len(x)])
		return 0
	}
	inverse := float32(m) / largest
	scale, least := 1/inverse, float32(0) // the smallest error
	for i, v := range x {
		d := v - float32(scale*float32(uint8(nearest(float32(inverse*v)))))
		least += float32(float32(w[i]*d) * d)
	}
	for k := int32(-4); k <= 4; k++ {
		if k == 0 {
			continue
		}
		other := (float32(float32(0.1)*float32(k)) + float32(m)) / largest
		scale, e := 1/other, float32(0)
		for i, v := range x {
			d := v - float32(scale*float32(min(m, nearest(float32(other*v)))))
			e += float32(float32(w[i]*d) * d)
		}
		if e < least {
			least, inverse = e, other
		}
	}
	var product, square float32
	for i, v := range x {
		l := min(m, nearest(float32(inverse*v)))
		codes[i] = uint8(l)
		product += float32(float32(w[i]*v) * float32(l))
		square += float32(float32(w[i]*float32(l)) * float32(l))
	}
	for range 5 {
		changed := false
		for i, v := range x {
			l := float32(codes[i])
			p := product - float32(float32(w[i]*v)*l)
			q := square - float32(float32(w[i]*l)*l)
			if !(p > 0 && q > 0) {
				continue
			}
			n := min(m, nearest(float32(v*q)/p))
			if n == int32(codes[i]) {
				continue
			}
			p += float32(float32(w[i]*v) * float32(n))
			q += float32(float32(w[i]*float32(n)) * float32(n))
			if float32(float32(p*p)*square) > float32(float32(product*product)*q) {
				codes[i], product, square, changed = uint8(n), p, q, true
			}
		}
		if !changed {
			break
		}
	}
	if square > 0 {
		return product / square
	}
	return 0
}
