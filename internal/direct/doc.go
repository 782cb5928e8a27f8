// Package direct reads large pieces of files past the page cache, several at a time, for
// readers that go on through a file.
//
// The page cache brings in what a disk's read-ahead says, often 128 KiB, in pages of 4 KiB
// each of which is inserted, locked and copied on its own. Many disks give less than half
// of their speed to such requests. A [Pool] has a few large buffers instead, which all
// files of the process share, and a [File] is an open file that is read into them:
//
//	          Begin: up to four are on their way
//	|--here---|--coming--|--coming--|--coming--|
//	    ^ ReadAt copies
//
// What is read so is not in the page cache afterwards. Whatever a file system, a disk or
// the system's memory refuses is no error here: ReadAt has no bytes then, and its caller
// reads the file as any program does, which says what is wrong and with which bytes.
//
// It knows nothing of changes of a file: what is in a piece is what the file held when the
// piece was read. Its caller looks at the file after every read.
//
// Offsets, lengths and memory are multiples of 2 MiB, and so of whatever alignment
// O_DIRECT asks for.
package direct
