// Package testpack makes the large files of testdata, whose random numbers are not stored but
// generated again. A test imports it for its effect if it reads one of the files that
// testdata/packed/list.txt names:
//
//	import _ "github.com/tensorfs/tensorfs/internal/testing/testpack"
//
// A packed file is a recipe: the seed and the scale of each tensor that NumPy or PyTorch
// generated, and the bytes of everything else. The bytes of the whole file are compared with
// the SHA-256 of the file that the reference programs read, so a recipe gives exactly these
// bytes or fails.
//
// Files are made when the first test process starts, and again after their recipe changed.
// The program in the directory pack writes recipes.
package testpack
