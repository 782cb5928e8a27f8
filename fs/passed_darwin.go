package fs

import "github.com/hanwen/go-fuse/v2/fuse"

// directIO is no flag of an open here.
const directIO = 0

// newPassed returns nil: macFUSE passes nothing through.
func newPassed(*rawFS) *passedFiles { return nil }

func (s *passedFiles) start(*rawFS, *fuse.Server) {}
