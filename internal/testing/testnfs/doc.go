// Package testnfs is a small client of NFS version 3 and MOUNT version 3, for tests of
// servers. It implements the protocols independently and shares no code with a server. A
// Client is safe for concurrent use: requests go out at once and replies come in any order.
// [StateDir] and [DeadPort] are what tests of servers' states need.
package testnfs
