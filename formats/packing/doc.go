// Package packing reads the weights that other programs quantised: integers with
// scales and zero points, packed into words along rows or columns, and tables of
// 4-bit values. A function of it, called after the packing, checks that the
// tensors of one module belong together and returns a [tensorfs.Quant] whose
// Numbers are made on read, as F32 and exactly: every formula is products of
// integers and scales, each rounded to F32 once, as the program itself computes
// before it rounds to the type of its scales.
//
// The table of package hf lists which tensors make a module, and which config.json names
// the packing. Shapes are checked at once. Values that the module's shape does not depend
// on are checked when numbers are read: the group of each column and the stored shape.
//
// A read needs the bytes of its own rows and little more, for every order of the words:
// columns are read as strips.
//
// Layouts (N rows, K columns, a group of g columns has one scale):
//
//	GPTQ, AutoRound words [K*bits/32, N]: each column of words is the bit stream of a row
//	AWQ             words [K, N/8]: 8 rows in a word, in the order 0 4 1 5 2 6 3 7 of its fields
//	compressed      words [N, ceil(K*bits/32)]: each row is a bit stream; bytes [N, K]; floats of 4 bits
//	bitsandbytes    4 bits of 16 values, of all rows without a gap; bytes [N, K]
//
// A bit stream is little-endian: code i is the bits [i*bits, (i+1)*bits).
package packing
