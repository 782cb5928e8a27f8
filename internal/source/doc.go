// Package source is where the files of a model come from: the seam below the
// parsers.
//
// An [FS] finds files by name and a [File] is one of them. A parser knows only
// these two, so a model may be in a directory of this machine ([Dir], [Named]),
// in several that belong together ([Join]), in memory (package memory, for tests)
// or elsewhere. What a File can do beyond being read is found by type assertion,
// as with all Data.
//
// # Files of this machine
//
// They are mapped, read-only and shared. On Linux Go code gets mapped bytes from
// View, which populates the pages with a plain system call first (so the Go
// scheduler never stalls in a page fault), and reads them under tensorfs.Guard,
// which turns a page that is lost under the reader into an error. macOS has no such
// call: there a Mapped has no View, and its bytes are read into the reader's memory.
// The kernel reads mapped bytes through Slices: there a lost page fails the system
// call.
//
// Every file is opened without waiting and then checked by its handle, so a FIFO or a
// device instead of a file is refused at once, even if it was put there a moment ago.
//
// A file that is written to or truncated after it was opened serves no further bytes, and
// reports an error with its path, a *tensorfs.ChangedError: size and times of the open file
// are compared after every read, and if only ctime moved the kernel is asked whether it was
// written to. Renaming, unlinking, linking and chmod change nothing. See changed.go for the
// changes that are noticed, and changes that cannot be. [Mapped.IgnoreModTime] is for files
// that are touched on purpose.
package source
