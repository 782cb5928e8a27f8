package remote

import (
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// held is a file whose bytes came with the listing.
type held struct {
	tensorfs.Bytes
	path, label string
	time        time.Time
}

// Path is the file's name for people.
func (f *held) Path() string { return f.path }

// Label is the file's name below source/.
func (f *held) Label() string { return f.label }

// SetLabel gives it another one.
func (f *held) SetLabel(label string) { f.label = label }

// ModTime is when the listing was made.
func (f *held) ModTime() time.Time { return f.time }

// Section returns [off, off+n) as data.
func (f *held) Section(off, n int64) tensorfs.Data { return source.Section(f, off, n) }

// Check returns nil: memory does not change.
func (f *held) Check() error { return nil }

// Close returns nil.
func (f *held) Close() error { return nil }

var _ source.File = (*held)(nil)
