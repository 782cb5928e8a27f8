package fs

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/tensorfs/tensorfs"
)

// Library is a tree of directories that may change, with trees in it that are opened on
// first access.
type Library struct {
	// Root returns the present state: directories of Entries whose Dir is another such
	// directory, whose Lazy is a tree, or whose Data is a file. Every request calls it, so
	// it must be quick. It may return the same Dir again, and must not wait for another
	// call of Root, because reading the library may come back here as a request. If a Dir
	// in it has ModTime() time.Time, that is the time of its last change.
	Root func() tensorfs.Dir
	// OnDemand finds what Root does not have. May be nil.
	OnDemand OnDemand
	// Idle is how long an unused tree stays open; 0 means 5 minutes.
	Idle time.Duration
	// MaxOpen is how many trees may be open at a time; 0 for 16. The one that was not
	// asked for the longest time is closed for another.
	MaxOpen int
	// Fresh is how long the kernel may keep names and attributes of the directories
	// above the trees; 0 for a second.
	Fresh time.Duration
}

// OnDemand finds trees of a Library when their names are looked up. Listings show only what Root
// has.
type OnDemand interface {
	// Dir reports whether a path that Root does not have is a directory all the same: an empty
	// one, in which names may be looked up. It must be quick.
	Dir(at string) bool
	// LogTo passes on the mount's logger, whose errors and warnings are part of the Health. The mount
	// calls it once, before Open.
	LogTo(logger *slog.Logger)
	// Open makes Root have a path. It may wait until ctx ends, which is when the reader was
	// interrupted. Readers get the syscall.Errno that the error wraps, else EIO.
	Open(ctx context.Context, at string) error
}

// LibraryStatus lists the models of a library, and its open trees.
type LibraryStatus struct {
	Models  int      `json:"models"`
	Open    []string `json:"open"` // below the mount point, the longest unused first
	Omitted int      `json:"omitted,omitempty"`
}

const (
	defaultIdle    = 5 * time.Minute
	defaultMaxOpen = 16
	defaultFresh   = time.Second
)

func (l *Library) setDefaults() {
	l.Idle = cmp.Or(l.Idle, defaultIdle)
	l.MaxOpen = cmp.Or(l.MaxOpen, defaultMaxOpen)
	l.Fresh = cmp.Or(l.Fresh, defaultFresh)
}

// MountLibrary mounts a library and serves it as [Mount] does a tree.
func MountLibrary(l Library, mountpoint string, opts Options) (*Server, error) {
	raw, err := newLibraryFS(l, opts)
	if err != nil {
		return nil, err
	}
	return mountRaw(raw, mountpoint)
}

func newLibraryFS(l Library, opts Options) (*rawFS, error) {
	f, err := newRaw(opts)
	if err != nil {
		return nil, err
	}
	f.library = newLibrary(l, f)
	if l.OnDemand != nil {
		l.OnDemand.LogTo(f.opts.Logger)
	}
	return f, nil
}
