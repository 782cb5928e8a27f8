package server

import "github.com/tensorfs/tensorfs/internal/memlimit"

// mostForStreams is what streams through files of the disk may take: two at full speed.
const mostForStreams = 48 << 20

// streamMemory is how many bytes they may take now. The kernel cannot take them back, so
// they are a small part of what is left.
func streamMemory() int64 { return min(mostForStreams, memlimit.Left()/8) }
