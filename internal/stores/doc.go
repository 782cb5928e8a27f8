// Package stores writes models into the stores of other programs, as these write them
// themselves: Ollama's, the Hugging Face cache and LM Studio's folder. None of these
// programs needs to run, or to be there.
//
//	report, err := stores.Ollama(ctx, dir, name, files, stores.Kept{}, stores.Options{Export: export.Options{Facts: facts}})
//
// Files are exported to a directory of our own on the store's disk first, which package
// export does and goes on with after an interruption, and hashed there. Then they get their
// names in the store, and last of all comes what makes the other program see the model: a
// manifest, a ref, or the model's own file. So a store never shows a part of a model,
// whatever ends the program. Two processes that write one model exclude each other; those
// that write different ones may meet in a blob, which is the same for both.
//
// A file of the store that is there already is left as it is, after its size and its
// SHA-256 were compared. Nothing in a store is removed.
//
// The package knows where these programs look and what they look for. What is in the files
// it is told, except for what Ollama says of GGUF files.
package stores
