// Package mix makes the numbers of merged tensors when they are read.
//
// A merge has a tensor of each model and computes each number of the result from the
// numbers at the same place. The steps, and where each is rounded, follow mergekit 0.1.5 on
// a CPU: [Merge] has the formulas. Nothing depends on the range that is read, on the
// machine or on how many readers there are.
//
// Where a method needs numbers of whole tensors, such as a norm, they are computed when the
// tensor is first read, and kept.
package mix
