package metal

import (
	"context"
	"os"

	"github.com/tensorfs/tensorfs"
	modeltree "github.com/tensorfs/tensorfs/views/tree"
)

// shelf is what a [Loader] loads from: the views of a model. Its methods are safe for
// concurrent use.
type shelf interface {
	Model() *tensorfs.Model
	// Tree returns the model as the directory that a mount shows.
	Tree() *modeltree.Tree
	// Views returns the names of the views, sorted.
	Views() []string
	// Names returns the tensors of a view, sorted; nil if it has no such view.
	// The slice must not be changed.
	Names(view string) []string
	// Tensor returns a tensor of a view, whose Data converts it if need be. If the tensor
	// is missing the error wraps ErrAbsent and gives the reason.
	Tensor(ref Ref) (tensorfs.Tensor, error)
	// Extents returns runs of files, each with the tensor's bytes unchanged and whole, the
	// best first. It may be empty.
	Extents(ref Ref, t *tensorfs.Tensor) []extent
	// Close ends the use of the model.
	Close() error
}

// extent is a run of a file that can be mapped.
type extent struct {
	File   file
	Offset int64
	Origin Origin // OriginModel or OriginCache
}

// file is a file that can be mapped. Files that are equal (==) are the same file, so
// an implementation is a pointer or a small struct.
type file interface {
	// Name is the file's path, for messages and Buffer.File.
	Name() string
	// Size is the file's length.
	Size() int64
	// Open opens the file for a mapping, after a check that it is the one that
	// belongs to the model.
	Open() (*os.File, error)
}

// Origin is where the bytes of a buffer come from.
type Origin uint8

const (
	// OriginModel is a mapped file of the model.
	OriginModel Origin = iota + 1
	// OriginCache is a mapped file that was made from the model: of a mounted or
	// exported tree, or of a cache on disk.
	OriginCache
	// OriginMemory is memory of the device, into which the bytes were read or
	// converted.
	OriginMemory
)

// String returns "model", "cache" or "memory".
func (o Origin) String() string {
	names := [...]string{"unknown", "model", "cache", "memory"}
	if int(o) >= len(names) {
		o = 0
	}
	return names[o]
}

// preparer is a shelf that can keep converted tensors on disk.
type preparer interface {
	// Prepare writes the refs that are in no file to the cache; afterwards Extents has
	// them. An error of progress ends it and is returned.
	Prepare(ctx context.Context, refs []Ref, workers int, progress func(done, total int64) error) error
}
