// Tensorfs-csi shows models as volumes of Kubernetes. It is a CSI driver: kubelet asks it
// to publish a volume for a pod, and it provides a tensorfs mount. The pod gets a directory
// of it, read-only.
//
// All pods of a node that name the same model with the same credentials read from one server, and so from one
// copy in the page cache. A server is a process of tensorfs mount -f, below this one but in a session of its own: it outlives the driver. With a
// keeper (tensorfs keep, --keeper) the mounts outlive their servers too.
//
// # State
//
// What must be known after a restart is in the table of mounts and below --dir, and nowhere else:
//
//	volumes/HEX.json   a [record] for each volume that is published, written before the volume is bound
//	mounts/KEY         the mount of a server; KEY names the model, how it is shown and whose credentials read it
//	run/KEY.secrets    the pipe by which a server gets credentials, which are in no file
//	run/KEY.log        the pipe by which its messages come
//	cache              what the servers fetched, for all of them
//
// Every call can be repeated after any step of it, even by a driver that was killed and
// restarted. Calls for one target wait for each other; code that starts, binds and ends a
// server has the lock of its KEY, which is taken second.
//
// # Parts
//
// attributes.go has the attributes of a volume, node.go and controller.go answer kubelet
// and the provisioner, servers.go runs the processes, start.go resumes after an earlier
// driver. The driver never talks to the API server: each call has what it needs. It
// registers itself with kubelet (registration.go).
package main
