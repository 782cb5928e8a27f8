//go:build !purego

package kernel

var elements = elementKernels{
	add: addNEON, subtract: subtractNEON, divideEach: divideEachNEON,
	multiply: multiplyNEON, divide: divideNEON,
	keepLarger: keepLargerNEON,
	elect:      electNEON,
	rounds:     map[string]func(dst *byte, runs int){"F32": roundF32NEON, "F16": roundF16NEON, "BF16": roundBF16NEON},
}

//go:noescape
func addNEON(dst, src *byte, runs int)

//go:noescape
func subtractNEON(dst, src *byte, runs int)

//go:noescape
func divideEachNEON(dst, src *byte, runs int)

//go:noescape
func multiplyNEON(dst *byte, by float32, runs int)

//go:noescape
func divideNEON(dst *byte, by float32, runs int)

//go:noescape
func keepLargerNEON(dst *byte, bits int32, runs int)

//go:noescape
func electNEON(sums, weights, src, signs *byte, weight float32, runs int)

//go:noescape
func roundF32NEON(dst *byte, runs int)

//go:noescape
func roundF16NEON(dst *byte, runs int)

//go:noescape
func roundBF16NEON(dst *byte, runs int)
