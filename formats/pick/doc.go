// Package pick decides which model a listing of files has: those of a directory,
// of a snapshot in a cache, or of a repository elsewhere. It opens nothing; names
// are all it knows.
//
// A listing with a config.json and safetensors at the top is a model directory.
// In any other the GGUF files count: one, or the shards of one set, is the model,
// and files of other kinds (mmproj*, imatrix*) beside it do not matter. Where
// there are several, a [Select] names one, and without it nothing is guessed: the
// [Refusal] lists them.
package pick
