package metal

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
)

// Tree is what a [Loader] loads from. Its methods are safe for concurrent use.
//
// [Open] makes one of a mounted or exported directory; a program that has the
// model itself gives its own to [New].
type Tree interface {
	// Model describes the model.
	Model() ModelInfo
	// Views returns the names of the views, sorted.
	Views() []string
	// Names returns the tensors of a view, sorted; nil where there is no such view.
	// The slice must not be changed.
	Names(view string) []string
	// Info describes a tensor. The error of one that is not there wraps ErrAbsent
	// and says why.
	Info(view, name string) (TensorInfo, error)
	// Extents returns runs of files, each of which holds the tensor's bytes unchanged
	// and whole, the best first. There may be none.
	Extents(view, name string) ([]Extent, error)
	// Open opens the tensor's bytes, converted if need be.
	Open(view, name string) (Bytes, error)
	// Config returns the text of config.json.
	Config() ([]byte, error)
	// Metadata returns the value of a key of the model's metadata, as encoding/json
	// gives it with UseNumber.
	Metadata(key string) (value any, ok bool, err error)
	// Close ends the use of the tree.
	Close() error
}

// NoView is the error of a Tree for a view that it does not have; there are the names
// of those that it has.
func NoView(view string, there []string) error {
	return fmt.Errorf("%q: no such view; there are %s: %w", view, strings.Join(there, ", "), ErrAbsent)
}

// NoTensor is the error of a Tree for a tensor that a view does not have; reason says
// why, "" where that is not known.
func NoTensor(ref Ref, reason string) error {
	if reason != "" {
		reason += ": "
	}
	return fmt.Errorf("%q is not in view %q: %s%w", ref.Name, ref.View, reason, ErrAbsent)
}

// Bytes are those of a tensor. A Bytes that is an io.Closer is closed after use.
type Bytes interface {
	io.ReaderAt
	Size() int64
}

// Extent is a run of a file that can be mapped.
type Extent struct {
	File   File
	Offset int64
	Bytes  int64
	Origin Origin // OriginModel or OriginCache
}

// File is a file that can be mapped. Files that are equal (==) are the same file,
// so an implementation is a pointer or a small struct.
type File interface {
	// Name is the file's path, for messages and Buffer.File.
	Name() string
	// Size is the file's length.
	Size() int64
	// Open opens the file for a mapping, after a check that it is the one that
	// belongs to the tree.
	Open() (*os.File, error)
}

// Origin says where the bytes of a buffer are from.
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

// Preparer is a Tree that can keep converted tensors on disk.
type Preparer interface {
	// Prepare writes those of refs that no file holds to the cache; afterwards
	// Extents has them. An error of progress ends it and is returned.
	Prepare(ctx context.Context, refs []Ref, workers int, progress func(done, total int64) error) error
}
