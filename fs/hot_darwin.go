package fs

import (
	"errors"
	"log/slog"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// newHot fails: macFUSE has nothing of the kind.
func newHot(int64, *slog.Logger) (*hotFiles, error) {
	return nil, errors.New("hot files need Linux")
}

func (h *hotFiles) start(*fuse.Server) {}
