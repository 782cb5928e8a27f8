// Package safetensors reads one safetensors file.
//
// [Parse] turns an open file into a [File]: the entries of its header in the
// order of their data, each with its bytes as a section of the file, and the
// free text of "__metadata__".
//
// The format:
//
//	offset 0      u64 little-endian N: length of the header, at most 100 000 000
//	offset 8      N bytes of UTF-8: one JSON object
//	              {"NAME": {"dtype": D, "shape": [..], "data_offsets": [BEGIN, END]}, ...,
//	               "__metadata__": {"KEY": "VALUE", ...}}
//	offset 8+N    the data, to the end of the file; offsets count from here
//
// Parse refuses what the reference reader refuses: the whole file when one entry
// breaks a rule. Sorted by their offsets the entries tile the data section
// exactly, so there are no holes, no overlaps and no unowned bytes. It accepts
// what the reference accepts, with one exception: a tensor name that occurs twice
// is an error, because one of the two would be lost.
//
// Nothing is aligned. MLX writes headers without padding, so tensors start at
// any byte of the file.
//
// The package knows files, not models. What the tensors mean together (names,
// config.json, an index of several files, quantisation) is the business of
// package hf, which also opens a single file.
package safetensors
