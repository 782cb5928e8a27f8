// Package hfdir makes the directory that transformers, vLLM or candle load, and
// the one that mlx-lm loads, out of a model of any format.
//
//	                     hf/                               mlx/
//	GGUF                 every file made, tensors as F16   every file made, blocks as codes, scales, biases
//	Ollama's tensors     configs adapted, tensors as F16   names adapted
//	MLX                  configs adapted, tensors as F16   as stored
//	Hugging Face         as stored                         as stored, where mlx-lm has the model; config adapted
//
// An architecture is text in formats/architectures, which says what config.json has;
// tensors_layouts.go which tensors there are and what is moved in them;
// mlx_classes.go computes the further fields that mlx-lm's classes read (mlx.txt), older.go those that
// transformers 4 does. This package is the way back from package whole, over the same moves
// (views/arrange).
package hfdir
