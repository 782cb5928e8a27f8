// Package memory computes how many bytes of memory llama.cpp takes for a model and a
// context: every buffer that it makes on a CPU, as its own accounting counts them.
//
// [Of] takes the keys and the tensors of a GGUF header, and no byte of a tensor.
// Architectures differ in their rows of architectures.txt; the memory of a graph while it
// is computed follows from lists of its operations in graphs.txt, which are placed as
// ggml's allocator places them, or from formulas, which are close. The package does not
// model GPUs: their layers are placed differently, and drivers take memory that is not
// counted.
//
// Numbers of a header are not trusted: each is checked before it is used, all arithmetic is
// checked, and what does not fit is an error that names its key.
package memory
