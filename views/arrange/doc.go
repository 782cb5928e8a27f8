// Package arrange moves the rows and the elements of tensors: permutations,
// slices, stacks, joins and transposes. It is what differs between the tensors of
// a GGUF file and those of a Hugging Face model besides names and types, in both
// directions.
//
// A function takes a tensor and returns another, whose Data read the first one's
// when they are read. Dimensions are counted in [tensorfs.Tensor.Numbers], 0 is
// the outermost. A tensor that is quantised keeps its codes: scales and biases
// move with them, and so do the blocks of types such as Q4_0. What would cut a row
// of these is an error. So is every move of 8-bit floats whose scales belong to
// blocks of rows: they are converted first.
//
// The package computes nothing, with two exceptions: [AddOne] and [SubtractOne].
package arrange
