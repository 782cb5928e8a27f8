// Package kernel turns stored weights into floats, and these into other stored types, block by block.
//
// It knows only bytes: no files, no tensors, no shapes. A caller looks up a stored type once and then passes whole
// blocks:
//
//	d, ok := kernel.Lookup("Q4_K")        // self-contained blocks: ggml's types, plain floats, 8-bit floats
//	d.Decode(dst, src)                    // len(src) = n*d.Bytes, len(dst) = 2*n*d.Elems
//
//	g, ok := kernel.LookupGroup("affine", 4, 64, "BF16") // codes, scales and biases in separate streams (MLX, Ollama)
//	g.Decode(dst, codes, scales, biases, 1)
//
// Both give IEEE half precision (F16). [Single].Lookup and [Single].LookupGroup give the F32 values that are rounded to
// it, four bytes an element. From these, or faster from halves, an [Encoder] makes blocks:
//
//	e, ok := kernel.LookupEncoder("Q4_K") // types of ggml, as it quantises, and BF16
//	e.Encode(dst, src)                    // len(src) = n*e.In, len(dst) = n*e.Bytes
//
// A [Repack] puts groups into blocks of a type of ggml that has the same numbers, if there
// is one.
//
// [I2S] decodes the ternary tensors of BitNet files, [Deinterleave] undoes the row interleaving of ggml's removed
// Q4_0 variants. [Decoder.Scaled] multiplies 8-bit floats by the scale of their block.
//
// # Contract
//
// One contract holds for every function here, in Go and in assembly:
//
//   - Whole blocks only; any number of them, including none. A length that does not fit is a bug of the caller and panics.
//   - dst and src do not overlap. Neither needs any alignment.
//   - Source and output are little-endian. Blocks of a big-endian file go through [Decoder.Swap] first.
//   - As half the result is the reference's F32 value rounded to nearest, ties to even: 65520 and above is infinity, 2^-25 and
//     below is zero, subnormals and the sign of zero are kept. F16 itself is a plain copy.
//   - F32 is the reference's value itself. A NaN that is stored as F32, F16 or BF16 keeps sign and payload (and is quiet
//     if it was F16), any other is 0x7FC00000, with the sign of the source where that is a single float.
//   - NaN as half: a conversion of a single stored float (F32, BF16, F64, the 8-bit floats) gives 0x7E00 with the sign of the
//     source. A NaN that arithmetic made or passed on (an infinite or NaN scale) is always 0x7E00, because its sign
//     is the processor's choice and differs between machines.
//   - No allocation, no global state that changes, safe for concurrent use.
//
// # Implementations
//
// The plain Go files (go_*.go) are the specification: each draws the byte layout once, beside the code that reads it.
// Assembly (AVX2 with F16C on amd64, NEON on arm64) covers what is worth it, is chosen when the program starts, and gives
// the same bits; build tag purego leaves it out. Tests run over every implementation that the machine has.
package kernel
