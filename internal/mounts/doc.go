// Package mounts knows the mounts of this machine: which ones are a tensorfs, whether
// their servers are there, and what may be a mount point. It mounts FUSE file systems and
// unmounts them.
//
// A [Mount] is a line of the kernel's table of mounts. Reading the table touches no mount,
// so a hanging server does not block programs that list mounts. A [Point] is the directory
// of a mount while a server takes it or leaves it. [ParseOptions] reads the options of
// fstab.
//
// It serves nothing, and knows of NFS no more than what a server leaves in a
// [nfsstate.State].
package mounts
