// Package loopback mounts a tree that this process serves over NFS on an address of this
// machine.
//
// The caller serves. A [Mount] says where the server is ([nfsstate.State]), has the system
// mount it, answers commands that ask how it is, and knows when the mount is gone. After
// kill -9 of the server the mount remains: another server with the same tree can take the
// place of the first one ([Abandoned], [Options.Resume]).
package loopback
