// Package fs mounts a tree of named data as a read-only FUSE file system.
//
// It knows nothing of models. A [Dir] is a sorted list of [Entry] values, each a
// file ([tensorfs.Data]), a directory or a symbolic link; [Mount] serves one
// and returns a [Server]. [Mounts], [CleanStale] and [UnmountPath] deal with
// mounts of other processes.
//
// # How it serves
//
// The kernel's requests are answered directly, on go-fuse's raw interface. The
// tree never changes, so every entry has a fixed node id: the first id of its
// directory plus its place there. A file costs no memory, its inode number is
// the same in every mount of the same tree, and FORGET means nothing. The kernel
// may keep names, attributes, absences and pages as long as it likes.
//
// A read of Data that is a [tensorfs.Slicer] is answered with slices of mapped
// memory, which only the kernel touches: a page that is lost there is an error
// of the system call and EIO for the reader. All other Data is read into the
// reply.
//
// # What it does not do
//
// It writes nothing, watches nothing and never calls back pages that the kernel
// keeps: what a reader has mapped stays as it is when the model changes, while
// pages that were not read yet give EIO.
//
// # Caveats
//
//   - The serving process must not use its own mount: a page fault on a file
//     there can stop the very thread that would answer it. Tests run the client
//     in a process of its own.
//   - A model that is modified in place between the check and the copy of one
//     reply, some microseconds, gives that reader bytes of both states. Every
//     later read fails.
//   - A server that is killed leaves its mount behind, which then answers
//     everything with "transport endpoint is not connected". [Mount] removes
//     such a mount before it mounts again.
//   - auto_unmount, the option of libfuse, is not used: its helper never ends.
//   - On macOS, replies are always copied and the kernel extension of macFUSE is
//     needed.
package fs
