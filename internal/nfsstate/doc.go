// Package nfsstate lets commands find the NFS servers of a user's mounts.
//
// The table of mounts shows other users no more of an NFS mount than an address and a
// token. So each server leaves a [State] in a file that only its user can read: which
// model it serves, at which port, and with which key. With the state a command names the
// model of a mount, and another server can take the place of one that was killed. Beside
// the file is a socket at which the server tells how it is ([Answer], [State.Ask]).
package nfsstate
