// Package library finds the models of an Ollama store, of the Hugging Face cache, or below
// a local folder. It names and locates them and reports whether they have changed. It opens
// none of them.
//
// A [Library] is looked through once, and again where the mtime of a directory moved.
// Its [List] never changes; another one takes its place.
//
// The names are paths, and no model's path is the beginning of another's:
//
//	ollama:  llama3.2/3b   mike/x/latest   hf.co/user/repo/Q4_K_M
//	hf:      ORG/NAME   ORG/NAME@REF   ORG/NAME@0123456789ab   ORG/NAME/F16/big
//	folder   sub/model   sub/set   sub/directory
//
// Each part of a name is escaped like the names of tensors, so every model's name is a
// valid file name.
package library
