// Package exported opens a directory that tensorfs itself made as a model again: one
// that is mounted, or that was exported to.
//
// index.json describes the files. They become a model in one of two ways:
//
//	source/ leads to the files that the tree was made of, as they were then
//	    the tensors of raw/ are the runs of these files that index.json names, and
//	    the model is like the one that was mounted
//	otherwise, as of an export or on another machine
//	    each tensor is a file of the directory, and the format is "tensorfs"
//
// An export may have any part of a tree. For each tensor the most informative view counts:
// raw/, then packed/, a group of fused/ whose parts are not all there yet, f32/, bf16/,
// f16/, such a group of fused-f16/, npy-f32/ and npy/. So an export of only f16/ is a model
// of F16 tensors, and modules that packed/ has in one file are codes, scales and biases
// again.
//
// Nothing in such a directory is trusted: sizes of files are compared with types and
// shapes, and index.json is read in bounded memory.
package exported
