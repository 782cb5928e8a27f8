// Package fs mounts a tree of named data as a read-only FUSE file system.
//
// It knows nothing of models. A [tensorfs.Dir] is a list of [tensorfs.Entry]
// values, each a file ([tensorfs.Data]), a directory or a symbolic link; [Mount]
// serves one and returns a [Server]; [MountLibrary] serves many such trees.
// [Numbers] and [Faults] are for other servers of the same trees, such as package
// nfs.
//
// # What stays as it is
//
// As long as the version of the module is v0, names may still change. What [Mount],
// [MountLibrary], the fields of [Options], and the methods of [Server] mean does not: a
// program that compiles keeps its behaviour. [Numbers], [Faults] and [Status] follow the
// servers of this module, and may change with them.
//
// # How it serves
//
// The kernel's requests are answered directly, on go-fuse's raw interface. The
// tree never changes, so every entry has a fixed node id: the first id of its
// directory plus its index there. A file costs no memory, its inode number is
// the same in every mount of the same tree, and FORGET means nothing. The kernel
// may keep names, attributes, absences and pages as long as it likes.
//
// A read of Data in mapped memory ([tensorfs.Slices]) is answered with slices of that
// memory, which only the kernel touches: a page that is lost there is an error of the
// system call and EIO for the reader. All other Data is read into the reply, including a
// file's bytes that the kernel does not have in memory.
//
// If root serves the mount, the kernel itself reads Data that is a whole local file
// (passthrough): at the speed of that file, from its own pages. Writes to that file show,
// too.
//
// Root's kernel reads other large files through an image of their directory, an EROFS file
// system over a private mount of the same server (see images; Linux 6.15, loop devices):
// pages of FUSE have 4 KiB, pages of EROFS as many as are read ahead, and are read and
// mapped as fast as any file's. What the kernel has of a file stays readable when the
// server is gone. With [Options.NoPassthrough] the server answers all reads, as it does for
// users other than root.
//
// The server does not read ahead. The kernel does: it sends the next request while a reader
// is busy with the last one, and both are answered concurrently. Converting further ahead,
// converting one request with several CPUs, and MADV_WILLNEED or MADV_POPULATE_READ on the
// next range of the mapping were all measured, in turns with this, and gained nothing or
// lost.
//
// # Libraries
//
// A [Library] is a tree of directories that change, with trees in it that are opened by the
// first access and closed when they are idle. The kernel may ask again at any time, because
// a file may be open or mapped, so any request opens a closed tree. Node ids stay valid: an
// id is the number of a slot, which a tree keeps as long as its identity is the same, and
// an id in the tree's own numbering. After a change the name leads to another slot, and the
// nodes of the old slot give ESTALE once its tree is closed.
//
// A tree is in use from a request's arrival until its reply was sent, since replies
// from mapped memory are copied by the kernel. Only trees that are not in use are closed.
//
// # What it does not do
//
// It writes nothing, watches nothing and never invalidates pages that the kernel
// keeps: what a reader has mapped stays as it is when the model changes, while
// pages that were not read yet give EIO. A file whose source has changed can no
// longer be opened.
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
//     such a mount before it mounts again. With [Options.Keeper] it goes on with the mount instead; there
//     are no images then, because a server that waits for one could not be killed while a keeper has the device.
//   - The kernel could be told not to ask when a file is opened: opening, reading
//     a byte and closing a cached file would then take 5 µs instead of 30 to 60.
//     It is made to ask all the same. Otherwise, after remounting the mount
//     writable, root could map a file for writing and so forge what others read;
//     and a file whose source has changed could be opened while its pages are cached.
//   - auto_unmount, the option of libfuse, is not used: its helper never ends.
//   - The kernel's read-ahead is as large for a mapping that is touched at random
//     as for a sequential reader; beyond 1 MiB it costs random readers more than
//     it gains others. Only root can set it; for others requests have 128 KiB,
//     unless the reader asks for MADV_HUGEPAGE on its mapping.
//   - A file may be opened for direct I/O (O_DIRECT) at any time, even while it is open
//     elsewhere. Of a file that the kernel reads through an
//     image, the server answers the reads of such an open. After fcntl(F_SETFL, O_DIRECT) they still go through the pages
//     of the image: the server is not told of it. A file that the kernel reads from its own file system
//     needs that file system's alignment.
//   - posix_fadvise has no effect on the pages of an image. Each image takes a loop device while it is mounted, which lsblk shows,
//     and the kernel notes it in its log.
//   - Mount sets the soft memory limit of the process: the pools of reply buffers
//     would keep it large otherwise.
//   - On macOS, replies are always copied and the kernel extension of macFUSE is
//     needed.
package fs
