// Package arrange moves the rows and the elements of tensors: permutations,
// transposes, stacks and splits. A tensor that is quantised keeps its codes; its
// scales and biases move with them.
package arrange
