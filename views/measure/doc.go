// Package measure computes what is worth knowing of the numbers of a tensor, and of
// the differences between two.
//
//	Stats       least and greatest number, mean, deviation, zeros, infinities, NaN
//	Histogram   how many numbers are in each of some intervals
//	Compare     greatest and mean difference, cosine, relative difference
//
// Numbers are F32, and sums are kept in float64. A tensor is read in stretches of
// a fixed length, on all cores, and what the stretches give is put together in
// their order: results do not depend on the number of cores, and memory not on
// the size of a tensor.
//
// NaN and infinities are counted and left out of everything else.
//
// The package knows no stored type besides plain integers: its callers bring
// numbers to F32. It prints nothing.
package measure
