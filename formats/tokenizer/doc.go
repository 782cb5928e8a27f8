// Package tokenizer reads the tokenizer of a model, in any of the forms that
// Hugging Face directories have, and says it in the keys of GGUF.
package tokenizer
