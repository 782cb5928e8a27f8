// Package cache keeps bytes of remote files on this machine's disk. It knows
// nothing of where they come from: a caller that fetches them asks an [Entry] what is
// missing, gives what came to a [Writer], and reads.
//
// A [Store] is a directory that the processes of one user share. An [Entry] is one
// remote file: its bytes are local cell by cell, of [CellSize] each.
//
//	v1/CACHEDIR.TAG  lock               held by the process that sweeps
//	v1/files/ab/<64 hex>/meta.json      identity, size, source, times
//	                     data           sparse, of the full size
//	                     state          a header, then a checksum for each cell that is there
//	                     whole          exists: all cells are durable and, where a digest is known, verified:
//	                                    the text is the digest
//	v1/files/private/<64 hex>/          the same, of entries that end with their process
//	v1/names/<64 hex>.json              what names were pinned to
//	v1/models/<64 hex>/                 converted tensors of a model, see [Converted]
//	v1/tmp/                             entries that are being made or removed: a rename does either at once
//
// # What keeps the bytes right
//
// A cell is there if its bytes have the CRC32C that the state file gives for it: the first
// time that a process reads a cell it reads all of it and compares. So the order in which a
// disk gets data and state does not matter, a process may be killed anywhere and the machine
// may lose its power anywhere, and nothing waits for a disk to flush. A bit that flips on the
// disk makes its cell absent; it is fetched again, or missed where nothing may be asked for.
// A process believes what it has compared once until it closes the entry.
//
// A cell that is there does not change, and no hole is made: an entry is removed as a whole,
// when no process has it open. A process that stores cells has the data file locked.
//
// A whole entry may be mapped. It became whole when all of its cells were durable. A caller
// that maps it asks [Entry.Proven] before it uses a range for the first time.
//
// A digest proves nothing before it is compared: a server may state it and send other
// bytes. An entry therefore belongs to one server and a digest until it is whole. Only then
// is it renamed after just the digest, for all servers that state it. Until then no other
// server's requests read, write or lock it. A file of up to 16 MiB is compared before any
// byte of it is local; a larger file is unverified until all of it is local.
//
// Nothing in the directory is trusted: an entry whose files do not fit each other is
// removed and started again. If a file is cut while it is in use, or a disk fails or is
// full, only the storing ends: what comes is then kept in memory, up to a bound, and
// fetched again.
package cache
