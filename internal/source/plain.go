package source

import (
	"io"
	"io/fs"
	"time"

	"github.com/tensorfs/tensorfs"
)

// Plain makes a File an fs.File, for users of package fs.
func Plain(f File, err error) (fs.File, error) {
	if err != nil {
		return nil, err
	}
	return &plain{f, io.NewSectionReader(f, 0, f.Size())}, nil
}

// plain is a File that can also be read from the front.
type plain struct {
	File
	stream *io.SectionReader
}

// Read reads what follows.
func (p *plain) Read(b []byte) (int, error) { return p.stream.Read(b) }

// Stat describes the file.
func (p *plain) Stat() (fs.FileInfo, error) {
	return Info{Base: p.Label(), Bytes: p.Size(), Time: p.ModTime()}, nil
}

// Info describes a file or directory.
type Info struct {
	Base  string // its name
	Dir   bool
	Bytes int64
	Time  time.Time // when it was modified last
}

// Name returns the last part of its name.
func (i Info) Name() string { return i.Base }

// Size returns its length.
func (i Info) Size() int64 { return i.Bytes }

// IsDir reports whether it is a directory.
func (i Info) IsDir() bool { return i.Dir }

// ModTime returns when it was modified last.
func (i Info) ModTime() time.Time { return i.Time }

// Sys returns nil.
func (i Info) Sys() any { return nil }

// Mode is readable by all users.
func (i Info) Mode() fs.FileMode {
	if i.Dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// FileOf returns data as a File that does not change, whose path and label are given.
// If data is an io.Closer, the File closes it. If data is a tensorfs.ContextReaderAt,
// so is the File.
func FileOf(data tensorfs.Data, path, label string, modTime time.Time) File {
	f := &dataFile{data, path, label, modTime}
	if c, ok := data.(tensorfs.ContextReaderAt); ok {
		return &contextFile{f, c}
	}
	return f
}

// dataFile is a File backed by Data.
type dataFile struct {
	tensorfs.Data
	path, label string
	modTime     time.Time
}

func (f *dataFile) Path() string                       { return f.path }
func (f *dataFile) Label() string                      { return f.label }
func (f *dataFile) SetLabel(label string)              { f.label = label }
func (f *dataFile) ModTime() time.Time                 { return f.modTime }
func (f *dataFile) Section(off, n int64) tensorfs.Data { return Section(f, off, n) }
func (f *dataFile) Extents() []tensorfs.Extent         { return Extents(f) }
func (f *dataFile) Check() error                       { return tensorfs.Check(f.Data) }

// Close closes the data if it can be closed.
func (f *dataFile) Close() error {
	if c, ok := f.Data.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// contextFile is a dataFile whose readers may stop waiting.
type contextFile struct {
	*dataFile
	tensorfs.ContextReaderAt
}

func (f *contextFile) Section(off, n int64) tensorfs.Data { return Section(f, off, n) }

// AsFile returns data itself if it is a File, else a File without a path whose label
// is given.
func AsFile(data tensorfs.Data, label string) File {
	if f, ok := data.(File); ok {
		return f
	}
	return FileOf(data, label, label, time.Time{})
}
