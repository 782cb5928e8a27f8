// Package stores writes models into the stores of other programs, as these write them
// themselves: Ollama's, the Hugging Face cache and LM Studio's folder. None of these
// programs needs to run, or to be there.
//
//	report, err := stores.Ollama(ctx, dir, name, files, stores.Kept{}, stores.Options{Export: export.Options{Facts: facts}})
//
// Files are first exported to a directory of our own on the store's disk, by package
// export, which resumes after an interruption, and hashed there. Then they get their names
// in the store, and last of all comes the file that makes the other program see the model:
// a manifest, a ref, or the model's own file. So a store never shows a part of a model,
// however the program ends. Two processes that write one model exclude each other;
// processes that write different models may share a blob, which is the same for both.
//
// A file of the store that is there already is left as it is, after its size and its
// SHA-256 were compared. Nothing in a store is removed.
//
// The package knows these programs' directories and file formats. The caller supplies the
// content of the files, except for Ollama's description of GGUF files.
package stores
