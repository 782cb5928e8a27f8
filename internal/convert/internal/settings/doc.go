// Package settings converts a model's description of itself between formats: a config.json
// and the files beside it to the keys of a GGUF file, and the keys to config.json,
// generation_config.json and the files of sentence-transformers.
//
// What an architecture has is text in formats/architectures. Conversions that text cannot
// express are here, by subject, with both directions side by side: a table of meanings, by
// their names in the descriptions.
//
//	model.go       the model, what expressions of the text mean, how things are refused, shapes
//	togguf.go      config.json to keys; fields.go reads config.json, metadata.go keys
//	fromgguf.go    keys to config.json; json.go writes it
//	heads.go rope.go experts.go windows.go pooling.go generation.go general.go
//	               the subjects
package settings
