// Package hfdir makes the directory that transformers, vLLM or candle load, and
// the one that mlx-lm loads, out of a model of any format.
package hfdir
