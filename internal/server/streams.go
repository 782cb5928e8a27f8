package server

import "github.com/tensorfs/tensorfs/internal/memlimit"

// mostForStreams is what streams through files of the disk may take: two at full speed of a local disk, or 16 readers of a slow disk.
const mostForStreams = 144 << 20

// StreamMemory is how many bytes they may take now. The kernel cannot take them back, so
// they are a small part of what is left.
func StreamMemory() int64 { return min(mostForStreams, memlimit.Left()/8) }
