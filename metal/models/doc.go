// Package models opens models in the process that uses them: an engine needs no
// mount.
//
//	l, err := models.Open("ollama:gemma3", models.Options{})
//	...
//	defer l.Close()
//	set, err := l.Load(ctx, []metal.Ref{{View: "packed", Name: "token_embedding.weight"}}, metal.LoadOptions{})
//
// [Open] takes whatever the commands take as MODEL, and also the directory of a
// tree that is mounted or was exported. The result is the same loader with the same
// bytes: [NewTree] puts a model's views behind [metal.Tree].
//
//	stored as it is    an extent of the model's file, which is mapped      metal.OriginModel
//	converted before   a file of the cache, which is mapped                metal.OriginCache
//	all else           converted into memory when it is loaded             metal.OriginMemory
//
// The model's files stay open, and are mapped through the descriptors that were
// opened first: a model that is replaced by a rename goes on being read as it was.
// One that is written to in place gives errors, or faults where a program reads a
// mapping itself; see internal/source for what is noticed.
//
// # The cache
//
// A load with [metal.CacheReadWrite] keeps what it converts on disk, below the
// directory of "tensorfs cache": an exported tree of the tensors that were asked
// for, which [metal.Open] opens too. The next start maps these files, and converts
// nothing. Its name is a hash of what the bytes depend on: the version of the
// views, the options, and of every file of the model its name, size, mtime and
// inode (with some of its bytes where the mtime is a whole second), or the digest by
// which a store names it. Files are complete when they have their name, so a process
// that is killed leaves a cache that the next one goes on with. A file of another
// size or mtime is not used, and is written again.
//
// What the cache cannot keep is converted into memory; Options.Logger hears why,
// once. Tensors whose names differ only in case are not kept: on most Macs their
// files would be one. Models on other machines are not kept: their bytes have a
// cache of their own.
package models
