// Package pick decides which model a listing of files has. The files are in a
// directory, in a snapshot of a cache, or in a repository on a server: it opens
// nothing, and knows only their names.
//
// A listing with a config.json and safetensors at the top is a model directory. In any
// other the GGUF files count: one, or the shards of one set, is the model, and files of
// other kinds (mmproj*, imatrix*) beside it do not matter. If there are several, a [Select]
// names one, and without it nothing is guessed: the [Refusal] lists them.
package pick
