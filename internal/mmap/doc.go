// Package mmap maps the files of a model, read-only and shared, as Data.
//
// It is the only place that touches mapped memory unguarded by accident: Go
// code sees the bytes through [File.View], which populates the pages with a
// plain system call first (so the Go scheduler never stalls in a page fault)
// and turns a page that is lost under the reader into an error. The kernel sees
// them through [Section.Slices]: there a lost page fails the system call.
//
// A file that is modified or truncated after it was opened serves no byte any
// more: size and mtime of the open descriptor are compared after every read.
// ctime is not compared, because renaming, unlinking and chmod move it and
// change no byte. [File.IgnoreModTime] is for files that are touched on purpose.
package mmap
