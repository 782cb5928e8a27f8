// Package metal puts the tensors of a model into buffers that a GPU, or any other
// engine in this process, uses without a copy.
//
// [Open] takes whatever the commands take as MODEL: a file, a directory, the name of
// a model in a store, the directory of a tree that is mounted or was exported. [New]
// takes what package formats opened. A [Loader] makes buffers of a [Device] of the
// tensors of the model's views: [Loader.Load] of many, [Loader.Tensor] of one.
//
//	l, err := metal.Open("ollama:gemma3", metal.Options{})
//	...
//	defer l.Close()
//	set, err := l.Load(ctx, refs, metal.LoadOptions{})
//	...
//	defer set.Release()
//	b, _ := set.Buffer(metal.Ref{View: "packed", Name: "layers.0.attention.q.weight"})
//	encoder.setBuffer(b.Handle, b.Offset, 0)
//
// # Where the bytes come from
//
// One function decides (locate), and Buffer.Origin reports the result:
//
//	model    a file of the model that holds the bytes unchanged, mapped
//	cache    a file that was made from the model, mapped: one of a mounted or
//	         exported tree, or of a cache on disk
//	memory   memory of the device, into which the bytes were read or converted
//
// What is mapped shares the page cache with all others who map the file, and the
// system can drop it. A buffer over a file is a window of it: whole pages, from the
// first tensor that was asked for to the last, unless more than 64 MiB between two
// of them were not asked for, or the device takes no longer buffers.
//
//	model file  |hd|--|=== tensor ===|--|== tensor ==|        gap        |= tensor =|
//	window           [===============================]                  [==========]
//	                 ^ on a page      ^ Offset
//
// The model's files stay open, and are mapped through the descriptors that were
// opened first: a model that is replaced by a rename goes on being read as it was.
// One that is written to in place gives errors, or, if it is mounted, the mounted
// files; or faults where a program reads a mapping itself. See internal/source for
// what is noticed.
//
// # The cache
//
// A load with [CacheReadWrite] keeps what it converts on disk, below the directory of
// "tensorfs cache": an exported tree of the tensors that were asked for. The next start
// maps these files, and converts nothing. Its name is a hash of what the bytes depend
// on: the version of the views, the options, and of every file of the model its name,
// size, mtime and inode (with some of its bytes where the mtime is a whole second), or
// the digest by which a store names it. Files are complete when they have their name,
// so a process that is killed leaves a cache that the next one goes on with. A file of
// another size or mtime is not used, and is written again.
//
// What the cache cannot keep is converted into memory; Options.Logger hears why, once.
// Tensors whose names differ only in case are not kept: on most Macs their files would
// be one. Models on other machines are not kept: their bytes have a cache of their own.
//
// # Devices
//
// [Metal] (macOS, without cgo) makes MTLBuffers in shared storage. Everywhere else [Host]
// replaces it: its buffers are plain memory. A device that declines mapped memory (virtual
// GPUs do) gets a copy instead, and the Buffer's Origin records it.
//
// The Metal device was written against Apple's documentation and public reports
// and is compiled and vetted for macOS, but no Mac was at hand: it has never
// been run. The test of it is ready and runs on any Mac.
//
// # Lifetimes
//
// A Buffer keeps its mapping, also after the tree was unmounted lazily or the
// model renamed. Each successful [Loader.Tensor] is matched by one
// [Buffer.Release], each [Loader.Load] by one [Set.Release]; the memory is given
// back when the device has finished with it. [Loader.Close] refuses while buffers
// are in use, and names them.
//
// Bytes that are mapped can be lost: the model is truncated, or the process that
// serves the mount dies. Where this package touches them it returns an error. A
// program that reads [Buffer.Contents] itself gets the signal that any mapped
// file gives; [Buffer.View] and [Buffer.ReadAt] turn it into an error.
package metal
