// Package nfs serves a tree of names and Data as an NFSv3 server, for systems that
// mount NFS without an extension of the kernel. It is a second front end of the same
// [tensorfs.Dir] that [fs.Mount] serves, and as read-only.
//
// A [Server] answers NFS version 3 (RFC 1813) and the MOUNT protocol version 3 on one
// TCP listener, which is meant to be one of the loopback interface. There is no
// portmapper and no lock manager: clients are told the port, twice (port= and
// mountport=), and to lock files among themselves (nolock, locallocks).
//
// # Who gets in
//
// With AUTH_SYS any client can claim to be any user. So access depends on what a client
// knows:
//
//   - MNT answers only the path /TOKEN, with a token of 128 bits, and what is below it.
//     It answers one connection: once a client has a handle, only the same connection
//     may ask again (a repeat of a request whose answer was lost). The path of a mount
//     is shown to all users of a machine, and must be worth nothing then. Failed
//     attempts use nothing up. With [Options.Shared] any number of clients may ask, where
//     only they know the path.
//   - A file handle is a number and a message authentication code of it under the
//     server's key. There is no other way to name a file.
//
// The programs that mount send one MNT for one mount, on a connection of its own: the
// kernels of Linux and macOS do, and libnfs. With port= and mountport= none of them
// looks for other ports or transports; NULL calls count for nothing. Where a client
// starts over on a new connection after its MNT was answered, it is refused and the
// mount fails: the server has to start again with a fresh token. If another client was
// first, the mount fails as well, so that is noticed.
//
// With [Options.OwnerOnly] other users who come through the mount are refused: there the
// kernel reports the user.
//
// UMNT and UMNTALL may come from any client: [Server.Unmounted] is only a reason to check
// whether the mount still exists.
//
// # How it serves
//
// The only state for a client is its connections. A handle has the number of the node
// ([fs.Numbers]), so it stays valid when the server starts again with the same key and the
// same tree. The key of the codes is derived from [Options.Key], FSID, ModTime and the
// number of nodes: handles of another model with the same key are refused.
//
// Requests of a connection are answered concurrently, at most 32 of them, in any order. A
// reply to READ is read or converted straight into its buffer, which comes from a pool. It
// is never sent from a mapping: a page that is lost amid a record would ruin the connection
// for all requests.
//
// A tree never changes, so a READDIR cookie is a position in the directory and any
// cookie stays good. READDIRPLUS makes each entry once.
//
// # What it does not do
//
// It writes nothing: procedures that modify answer NFS3ERR_ROFS. It has no extended
// attributes, because version 3 lacks them; index.json has their content. It serves one
// tree and not a [fs.Library]. It does not mount.
//
// A model that changes is noticed as with FUSE: reads that need it fail (NFS3ERR_IO),
// are logged once, and what clients have cached stays.
package nfs
