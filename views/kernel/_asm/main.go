// Command asm writes the AVX2 kernels of package kernel.
//
//	go run . -out ../kernel_amd64.s -stubs ../kernel_amd64_stubs.go -pkg kernel
//
// It is a module of its own, so that the generator's library is not a dependency of the program. Its files carry the
// names of the plain Go files they speed up: q32.go here is go_q32.go there, where the block layouts are drawn.
//
// Most kernels are emitted twice: to half and to F32, which differ in the table and in the store.
//
// There are two ways to decode. A type with at most 16 values per scale builds the table of its halves (lookup.go):
// exact by construction, because a level is multiplied, shifted by the minimum and rounded once per table exactly as
// plain Go does per element. A table of F32 takes two registers instead. All others widen every code to F32 (direct.go). Kernels never load or store a byte
// outside the blocks they are given.
//
// A block whose scale is infinite or NaN ends a kernel early: it returns the number of blocks left, and the caller
// decodes that block in plain Go. So no kernel computes a NaN, and none needs rules for it.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!purego")
	plain()
	q32()
	k()
	iq4()
	fp4()
	grids()
	ternary()
	picks()
	scaled()
	groups()
	singles()
	encoders()
	searches()
	repacks()
	exacts()
	splitCodes()
	sums()
	powers()
	lowRanks()
	lengths()
	elements()
	weighted()
	Generate()
}
