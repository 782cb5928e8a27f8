package fs

import (
	"log/slog"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// stateFile is nothing here: macFUSE's mounts end with their servers.
type stateFile struct{}

func (*stateFile) takenOver() int { return 0 }

func takeOver(*rawFS, *fuse.MountOptions, string) (*Server, error) { return nil, nil }

// Abandon does nothing: no mount is kept here.
func Abandon(Keeper, string, *slog.Logger) error { return nil }
