// Package settings makes what a model says of itself in one format of what it says in
// another: the keys of a GGUF file of a config.json and the files beside it, and
// config.json, generation_config.json and the files of sentence-transformers of the keys.
//
// What an architecture has is text in formats/architectures. What text alone cannot say
// is here, by subject, with both directions side by side: a table of meanings, by the
// names that the descriptions call them.
//
//	model.go       the model, what expressions of the text mean, how things are refused, shapes
//	togguf.go      config.json to keys; fields.go reads config.json, metadata.go keys
//	fromgguf.go    keys to config.json; json.go writes it
//	heads.go rope.go experts.go windows.go pooling.go generation.go general.go
//	               the subjects
package settings
