// Package ollama opens models of an Ollama store.
package ollama
