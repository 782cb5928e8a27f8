// Package direct reads large pieces of files past the page cache, several at a time, for
// readers that go on through a file.
//
// The page cache follows a disk's read-ahead, often 128 KiB, in pages of 4 KiB, and inserts, locks and copies each on its
// own. Many disks reach less than half of their
// speed with such requests. A [Pool] has a few large buffers instead, which all files of
// the process share, and a [File] is an open file that is read into them:
//
//	          Begin: four or more are on their way
//	|--here---|--coming--|--coming--|--coming--|
//	    ^ ReadAt copies
//
// Bytes read this way are not in the page cache afterwards. A refusal by the file system,
// the disk or the system's memory is not an error here: ReadAt returns no bytes, and its
// caller reads the file in the normal way, which reports the error and its place.
//
// It knows nothing of changes of a file: what is in a piece is what the file held when the
// piece was read. Its caller looks at the file after every read.
//
// Offsets, lengths and memory are multiples of 2 MiB, and so of whatever alignment
// O_DIRECT asks for.
package direct
