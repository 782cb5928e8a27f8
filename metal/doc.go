// Package metal puts the tensors of a model into buffers that a GPU, or any other
// engine in this process, uses without a copy.
//
// A [Tree] says which tensors there are and gives their bytes. [Open] takes the
// tree that is mounted at a directory, or was exported to it; it is a client of
// that and shares no code with the filesystem. [New] takes any other. A [Loader]
// makes buffers of a [Device]: [Loader.Load] of many tensors, [Loader.Tensor] of
// one.
//
//	l, err := metal.Open("/mnt/model", metal.Options{})
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
// One function decides (locate), and Buffer.Origin says how:
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
// A file of the model is used only while it is the one that the tree was made of:
// size, inode, mtime and ctime are compared whenever it is mapped. Else the mounted
// file is.
//
// # Devices
//
// [Metal] (macOS, without cgo) makes MTLBuffers in shared storage. [Host] stands
// in everywhere else: its buffers are plain memory. A device that declines mapped
// memory (virtual GPUs do) gets a copy instead, and the Buffer says so.
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
