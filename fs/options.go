package fs

import (
	"log/slog"
	"slices"
	"time"

	"github.com/tensorfs/tensorfs/internal/mounts"
)

// maxRequest is the largest read that the kernel sends and the largest that
// Linux takes without a change of fs.fuse.max_pages_limit.
const maxRequest = 1 << 20

// defaultReadAheadKiB lets a sequential reader's requests grow to maxRequest.
const defaultReadAheadKiB = maxRequest >> 10

// Options say how a tree is mounted. The zero value is the default.
type Options struct {
	// FsName is the mount's source in the mount table: the path of the model.
	FsName string
	// AllowOther lets other users in. The kernel then checks modes and owners.
	AllowOther bool
	// Logger receives what errno cannot say; nil discards it.
	Logger *slog.Logger
	// Check returns errors that wrap tensorfs.ErrChanged for the files of the model that
	// changed since they were opened. It runs when the Health is requested, and is nil if
	// changes cannot be detected.
	Check func() error
	// Unwatched explains why changes of the model's files are detected only by their times;
	// "" if the kernel watches them; nil if changes cannot be detected. It is part of the
	// Health.
	Unwatched func() string
	// ModTime is the time of every file; zero for the time of mounting.
	ModTime time.Time
	// MakeMountpoint makes the last directory of the mount point if it is missing.
	MakeMountpoint bool
	// NonEmpty allows a mount point that has something in it, which the mount hides.
	NonEmpty bool
	// Waits marks that reads may wait long for their bytes, for example for bytes of
	// another machine.
	Waits bool
	// Debug logs every request at slog.LevelDebug.
	Debug bool
	// ReadAheadKiB is the kernel's read-ahead for the mount; 0 for the default
	// of 1024, negative to leave the kernel's own. Only root can set it.
	ReadAheadKiB int
	// NoPassthrough makes the server answer all reads. Otherwise root's kernel reads large
	// files itself, if it can.
	NoPassthrough bool
	// Keeper keeps the mount while its server is gone, so that the next one may take it
	// over: [Mount] does, if the tree and the options are the same. Only on Linux; may be
	// nil. The kernel then reads only files of the model that are shown unchanged, and the
	// server answers all other reads. Not for libraries.
	Keeper Keeper
	// Identity is a text that differs whenever names or bytes of the tree may differ. Only
	// Keeper uses it.
	Identity string
	// Warm reports how far the model is read ahead. May be nil.
	Warm func() WarmStatus
	// Traffic reports how many bytes came from other machines, and how many were read from
	// the cache. It is nil if the model is local.
	Traffic func() (fetched, cached int64)
	// Extra are mount options as in fstab. Options of mount(8) itself are ignored, and
	// so are options that would remove a protection (rw, suid, dev, exec).
	// uid=, gid= and umask= say what files look like; who may enter is up to
	// allow_other.
	Extra []string

	system *system // nil means this one
}

// setDefaults fills in what was left out.
func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ModTime.IsZero() {
		o.ModTime = time.Now()
	}
	if o.ReadAheadKiB == 0 {
		o.ReadAheadKiB = defaultReadAheadKiB
	}
	if o.system == nil {
		o.system = thisSystem
	}
	if o.FsName == "" {
		o.FsName = mounts.Program
	}
}

// mountOptions parses Extra.
func (o *Options) mountOptions() (mounts.Options, error) {
	extra := o.Extra
	if o.AllowOther {
		extra = append(slices.Clip(extra), "allow_other")
	}
	return mounts.ParseOptions(extra)
}
