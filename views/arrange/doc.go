// Package arrange moves the rows and the elements of tensors: permutations,
// slices, stacks, joins and transposes. The tensors of a GGUF file and of a Hugging
// Face model differ by these moves, besides names and types; every move has its
// inverse here.
//
// A function takes a tensor and returns another one, whose Data reads the Data of
// the first when it is read. Dimensions are counted in [tensorfs.Tensor.Numbers], 0 is
// the outermost. A tensor that is quantised keeps its codes: scales and biases
// move with them, and so do the blocks of types such as Q4_0. A move that would cut
// a row of blocks is an error. So is every move of 8-bit floats whose scales belong
// to blocks of rows: they are converted first.
//
// The package computes nothing but what [Add], [Sum] and [NegativeExp] do, and the inverses
// [Subtract] and [LogOfNegative].
package arrange
