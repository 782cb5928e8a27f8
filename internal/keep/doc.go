// Package keep has the descriptors of a mount survive the server that answers it.
//
// A FUSE mount lives as long as its device is open. So a server leaves its device and a
// file in memory, with what the next server has to know, with a [Keeper], a process that
// does nothing else, or with systemd (see sd_notify(3), FDSTORE). The next server takes
// them from there, and readers of the mount notice only a pause.
//
// [Client] and [Systemd] are the two ways. What the descriptors are of, and what is in the file, is
// the business of servers: the keeper looks only at their kind, and for a device whose mount is gone.
//
// # Protocol
//
// A keeper listens at a socket (SOCK_SEQPACKET). A message is a JSON object of at most [maxMessage] bytes; descriptors
// come with it (SCM_RIGHTS).
//
//	{"op":"put","key":K,"name":N} + a descriptor   keeps it under that name, in place of another one
//	{"op":"get","key":K}                           answers with the names and all descriptors
//	{"op":"drop","key":K}                          forgets the key
//	{"op":"list"}                                  answers with a message for each key, then an empty one
//
// The process that puts or gets a key is its server as long as its connection lives. Until
// then others are refused ("busy"). The keeper answers only root and its own user, and a
// client sends nothing to a keeper of a user other than root and its own (SO_PEERCRED). A
// client that does not read its answers is dropped. Only devices of FUSE mounts and files
// in memory are kept.
package keep
