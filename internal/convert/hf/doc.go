// Package hf makes the directory that transformers, vLLM or candle load, and
// the one that mlx-lm loads, out of a model of any format.
//
//	                     hf/                               mlx/
//	GGUF                 every file made, tensors as F16   every file made, blocks as codes, scales, biases
//	Ollama's tensors     configs adapted, tensors as F16   names adapted
//	MLX                  configs adapted, tensors as F16   as stored
//	Hugging Face         as stored                         as stored, where mlx-lm has the model; config adapted
//
// What an architecture has in config.json, and which tensors, is text in
// formats/architectures, as is which fields mlx-lm's classes read besides; internal/settings
// and mlx_classes.go compute what text cannot say, and older.go adds the fields that
// transformers 4 reads. This package is the way back from package convert, over the same
// moves (views/arrange).
package hf
