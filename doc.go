// Package tensorfs is the vocabulary of the module: what a tensor, its bytes and
// a model are, whatever file they came from.
//
// A parser below formats/ forgets the file format: it turns a path into a
// [Model], a list of [Tensor] values with canonical names and [Data]. A view is
// a function from tensors to tensors that only composes Data. The filesystem
// serves Data under names and knows nothing of models.
//
// The package imports nothing of the module and reads no file.
package tensorfs
