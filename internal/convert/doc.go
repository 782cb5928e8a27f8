// Package convert makes complete model files out of a model of any format, so that
// programs which know nothing of tensorfs load it as the kind of file that they
// already read.
//
// Nothing is stored: headers are generated, and tensors are compositions of the
// model's stored bytes, made when they are read. What cannot be given exactly is
// absent, with the reason, and never guessed.
//
// An architecture is rows of tables: which tensors it has and where they come
// from (tensors.go), and which keys describe it (keys.go).
package convert
