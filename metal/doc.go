// Package metal puts the tensors of a mounted tensorfs tree into buffers that a
// GPU, or any other engine in this process, uses without a copy.
//
// It is a client: it reads a directory that somebody mounted, beginning with its
// index.json, and shares no code with the filesystem. [Open] gives a [Loader],
// [Loader.Tensor] a [Buffer]: a window of mapped memory, wrapped by a [Device].
//
//	l, err := metal.Open("/mnt/model", metal.Options{})
//	...
//	defer l.Close()
//	b, err := l.Tensor("packed", "layers.0.attention.q.weight")
//	...
//	defer b.Release()
//	encoder.setBuffer(b.Handle, b.Offset, 0)
//
// # Where the bytes come from
//
// A tensor whose bytes stand unchanged in one of the model's own files is served
// from a mapping of that file: one mapping for all tensors of the file, no byte
// copied, the page cache shared with every other reader of the model. Everything
// else (converted, fused, oddly aligned) is a mapping of the mounted file, whose
// pages are shared by all processes that map it:
//
//	f16/NAME     |=========== tensor ===========|00000|    whole pages; Offset 0
//	model file   |hd|--|=== tensor ===|--|== tensor ==|    one mapping, one buffer
//	                 ^ Offset                              per window of it
//
// A window is at most [DeviceInfo.MaxBufferLength] long; windows overlap where a
// tensor would otherwise be cut in two.
//
// # Devices
//
// [Metal] (macOS, without cgo) makes MTLBuffers in shared storage. [Host] stands
// in everywhere else: its buffers are plain memory, and it enforces what Metal's
// documentation demands of memory that is wrapped without a copy, so that code
// that works with it does not owe its success to a lenient device. A device that
// declines the memory (virtual GPUs do) gets a copy instead, and the Buffer says
// so.
//
// The Metal device was written against Apple's documentation and public reports
// and is compiled and vetted for macOS, but no Mac was at hand: it has never
// been run. The test of it is ready and runs on any Mac.
//
// # Lifetimes
//
// A Buffer keeps its mapping, also after the tree was unmounted lazily or the
// model renamed. Each successful [Loader.Tensor] is matched by one
// [Buffer.Release]; the memory is unmapped when the device has finished with it.
// [Loader.Close] refuses while buffers are in use, and names them.
//
// Bytes that are mapped can be lost: the model is truncated, or the process that
// serves the mount dies. Where this package touches them it returns an error. A
// program that reads [Buffer.Contents] itself gets the signal that any mapped
// file gives; [Buffer.View] and [Buffer.ReadAt] turn it into an error.
package metal
