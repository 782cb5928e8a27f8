// Package loopback mounts a tree that this process serves over NFS on an address of this
// machine.
//
// The caller serves. A [Mount] records the server's address ([nfsstate.State]), has the
// system mount it, answers commands that ask for its status, and notices when the mount is
// gone. After kill -9 of the server the mount remains: another server with the same tree
// can replace the first one ([Abandoned], [Options.Resume]).
package loopback
