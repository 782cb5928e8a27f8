// Package lora applies adapters to a model: it replaces the tensors that the adapters
// change, before views read the model, so that every view and every whole model has the
// change without knowing of it.
//
//	W' = W + s1*d1 + s2*d2 ...      W the base's numbers as f32/ has them, d = B A
//
// Everything is F32 and added in the order of the adapters; d is the exact sum of r products,
// rounded once, and so is its product with s. The result depends on no thread, range and
// processor. It is rounded a second time by the view that shows another type.
//
//	apply.go    adapters, one after the other
//	target.go   which tensor of the base a module is for, and which of its rows
//	pair.go     A and B as the two matrices that rows of a base are changed by
//	kept.go     those matrices, decoded, in bounded memory
//	data.go     the numbers
//
// A changed tensor is F32 without stored bytes; Float is the type that it has in converted
// files. A tensor that an adapter replaces is the adapter's own.
package lora
