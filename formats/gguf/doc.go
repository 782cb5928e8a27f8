// Package gguf reads GGUF files, the container of ggml and llama.cpp.
//
// [OpenFS] turns a file, or the set of shards that it belongs to, into a
// [tensorfs.Model]. [Parse] stops before names are translated, for callers that
// put several files together. Versions 1 to 3 and both byte orders are read.
//
//	header:       "GGUF"  u32 version  len tensors  len entries
//	entry:        str key  u32 value type  value              (entries times)
//	tensor info:  str name  u32 dims  len ne[dims]  u32 type  u64 offset
//	zero bytes up to general.alignment
//	tensor data, offsets counted from here
//
// len is a u64 (u32 in version 1), str a len and that many bytes.
//
// Anything that makes the result ambiguous is refused: repeated names, overlap,
// misalignment, truncation, overflow. Anything merely unusual is accepted: gaps,
// any order of data, nested arrays, unknown types. Tensors of unknown types are
// listed and serve their raw bytes, which reach to the next tensor.
//
// No allocation is sized by a number that the file merely claims. The bytes are read
// through internal/source in windows, so a file that shrinks while it is read is an error
// and the data of a large model is not touched. Arrays of the metadata are checked when the
// file is opened and decoded when they are read.
//
// The package does not decode tensors: see views.
package gguf
