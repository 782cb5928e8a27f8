// Package cache keeps bytes of remote files on this machine's disk. It knows
// nothing of where they come from: whoever fetches them asks an [Entry] what is
// missing, writes what came, and reads.
//
// A [Store] is a directory that the processes of one user share. An [Entry] is one
// remote file: its bytes are local cell by cell, of [CellSize] each.
//
//	v1/CACHEDIR.TAG  lock               who holds lock sweeps
//	v1/files/ab/<64 hex>/meta.json      identity, size, source, times
//	                     data           sparse, of the full size
//	                     state          a header, then a byte per cell
//	                     whole          exists: all cells are durable and, where a digest is known, verified:
//	                                    the text is the digest
//	v1/files/private/<64 hex>/          the same, of entries that end with their process
//	v1/names/<64 hex>.json              what names were pinned to
//	v1/models/<64 hex>/                 converted tensors of a model, see [Converted]
//	v1/tmp/                             entries that are being made or removed: a rename does either at once
//
// # What keeps the bytes right
//
// The state is mapped by all processes and changed byte by byte with
// compare-and-swap; cells.go draws a byte. Data are written before their cell is
// called present, and are read before and after a look at the cell, whose
// generation says whether it was swept and filled again meanwhile. A process may be
// killed anywhere: the page cache has what it wrote.
//
// The machine may lose its power anywhere: only cells that are durable count in
// another boot, and they became so after fdatasync. A sweep makes the state durable
// before it punches holes. Nothing that is read waits for a disk to flush.
//
// A digest proves nothing before it is compared: whoever states it may send other
// bytes. An entry is therefore of a server and a digest until it is whole, and then
// renamed to be of the digest alone, for all who state it. Up to that nobody reads,
// writes or locks an entry of another server. A file of up to 16 MiB is compared before any
// byte of it is local; of a larger one nothing is known until all of it is.
//
// Nothing in the directory is trusted: an entry whose files do not fit each other is
// removed and begun anew. A state file that is cut while it is mapped, a disk that
// fails, and one that is full only end the storing: what comes is then kept in
// memory, up to a bound, and fetched again.
//
// What it does not do: checksums of single cells. A bit that flips on the disk is
// found where all of a file is compared with its digest again, and nowhere else. A
// file with a known digest is verified as a whole, while it is filled front to back or
// once it is complete.
package cache
