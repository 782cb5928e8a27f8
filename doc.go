// Package tensorfs is the vocabulary of the module: what a tensor, its bytes and
// a model are, whatever file they came from.
//
// A parser below formats/ forgets the file format: it turns a path into a
// [Model], a list of [Tensor] values with canonical names and [Data]. A view is
// a function from tensors to tensors that only composes Data. The file system
// serves Data under names and knows nothing of models.
//
// # Data
//
// [Data] is an io.ReaderAt that knows its size. It comes from a parser or is
// composed of other Data, and nothing is read or copied until the result is read:
//
//	Section(d, off, n)      the bytes [off, off+n) of d
//	Concat(q, k, v)         |---q---|--k--|--v--|
//	Interleave(2, a, b)     |a 0|b 0|a 1|b 1|
//	Bytes("text")           bytes in memory
//	NewText(n, render)      a text of n pieces, rendered when they are read
//
// What Data can do beyond reading is found by type assertion. [Extenter] locates the bytes
// in the model's files, [Slices] gives the kernel the memory that holds them. [View] gives
// that memory to Go code, which reads it under [Guard] because a page of a mapped file can
// be lost at any time.
//
// # Types
//
// A [DType] is a number. Everything known about a type is in its row of one
// table, which its methods look up.
//
// # What version 0 promises
//
// Until version 1 anything may change when the second number of the version does: 0.1.1
// compiles and reads what 0.1.0 did. These parts will change least, and never without a
// note in CHANGELOG.md that shows what to write instead:
//
//   - the vocabulary of this package: Data and what composes it, Model, Tensor, DType,
//     Meta, and the errors that callers tell apart;
//   - package formats: Open, Options and OpenFS, which opens a model in any fs.FS;
//   - package formats/models: Open and Options, which open a model by any name that the
//     commands take, with all that they can do to it;
//   - package formats/remote: models on servers;
//   - package views: Encode, Floats and the names of views;
//   - package fs: Mount, of any Dir;
//   - package metal and what is below it: tensors as buffers of a GPU.
//
// Canonical names of tensors, the files of a mounted tree and the command line follow the
// same rule. The C interface has a version of its own, in tensorfs.h: a program keeps
// working with later libraries of the same major version.
//
// The other packages are public because these build on them, such as the parsers below
// formats. They change whenever that makes the module simpler.
//
// The package imports nothing else from the module and reads no files.
package tensorfs
