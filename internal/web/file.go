package web

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/source/readahead"
)

const (
	block = 1 << 20 // the least that is fetched for a read of data
	part  = 8 << 20 // of a stream, in one request
)

// File is a file of a server, with some cells in the cache. Reads of the file itself are
// treated as a parser's, which goes through a header from the front; reads of its sections
// as reads of data.
type File struct {
	c      *Client
	origin Origin
	host   string
	entry  *cache.Entry
	path   string
	label  string
	digest string
	base   int64 // where it starts in the server's file, and its size
	size   int64

	parser  context.Context // of a parser's reads
	all     context.Context // of what is fetched; ended by Close
	end     context.CancelFunc
	running sync.WaitGroup
	ahead   readahead.Tracker
	whole   atomic.Pointer[source.Mapped] // once all of it is here

	mu       sync.Mutex
	flights  []*flight
	pace     readahead.Pace
	busy     busy
	parsed   int64         // bytes that a parser has read
	arrived  chan struct{} // closed when something came or failed
	changed  error         // for all later reads that are not local
	failures []*flight     // of late, the last at the end
	closed   bool
}

// File returns a file of a server. host is the server's, path the file's name for
// people. The File owns the entry.
func (c *Client) File(o Origin, entry *cache.Entry, host, path, label string) *File {
	f := &File{c: c, origin: o, host: host, entry: entry, path: path, label: label, size: entry.Size(), parser: context.Background(), pace: readahead.Pace{Parts: firstOfFile, More: moreOfFile, Most: maxOfFile, Size: part}, arrived: make(chan struct{})}
	f.all, f.end = context.WithCancel(context.Background())
	f.ahead = readahead.Tracker{Window: readahead.Window{Ahead: firstOfFile * part, Piece: part, Onward: true}}
	f.mapWhole()
	return f
}

// Only restricts the file to [off, off+n) of the server's file: a member of an archive.
// Call it before the file is used. It panics if the range is not inside.
func (f *File) Only(off, n int64) {
	if err := tensorfs.CheckRange(f, off, n); err != nil {
		panic(err)
	}
	f.base, f.size = off, n
}

// ParseWithin makes a parser's reads fail when ctx ends. Reads of sections go on. Call it before
// the file is used.
func (f *File) ParseWithin(ctx context.Context) { f.parser = ctx }

// Size returns the file's length.
func (f *File) Size() int64 { return f.size }

// Path is the file's name for people.
func (f *File) Path() string { return f.path }

// Label is the file's name below source/.
func (f *File) Label() string { return f.label }

// SetLabel gives it another one.
func (f *File) SetLabel(label string) { f.label = label }

// ModTime is the time that the server said, or when it was first seen.
func (f *File) ModTime() time.Time { return f.entry.ModTime() }

// Check returns an error once the server has another version of the file, or the bytes
// that came proved to be wrong. What is in the cache can be read all the same: sections
// decide for themselves.
func (f *File) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cmp.Or(f.changed, f.entry.Failed())
}

// Close ends everything that is being fetched and closes the cache's entry.
func (f *File) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.end()
	f.running.Wait()
	if m := f.whole.Swap(nil); m != nil {
		m.Close()
	}
	return f.entry.Close()
}

// ReadAt implements io.ReaderAt for parsers.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	return f.ReadAtContext(f.parser, p, off)
}

// ReadAtContext reads as ReadAt does, until ctx ends.
func (f *File) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(f.Size(), p, off)
	if n == 0 {
		return 0, eof
	}
	if err := f.read(ctx, p[:n], f.base+off, f.parserWants); err != nil {
		return 0, err
	}
	return n, eof
}

// maxHeader bounds how much more than it asked for is fetched for a parser.
const maxHeader = 8 << 20

// parserWants widens a read of a parser: at most as much as was read so far, in
// whole steps. A header that is twice as long as thought costs one more request,
// and never twice its bytes. The caller holds the lock.
func (f *File) parserWants(need cache.Range) cache.Range {
	f.parsed = max(f.parsed, need.Off-f.base+need.N)
	if f.coming(f.entry.Missing(need.Off, need.N)) {
		return need // a parser that only waits for bytes under way asks for no more
	}
	more := max(block, min(f.parsed/block*block, maxHeader))                              // GGUF's header has the vocabulary in it
	if strings.HasSuffix(f.label, ".safetensors") || strings.HasSuffix(f.label, ".tar") { // its length is known after a few bytes
		more = cache.CellSize
	}
	return cache.Range{Off: need.Off, N: max(need.N, more)}
}

// dataWants widens a read of data to blocks.
func dataWants(need cache.Range) cache.Range {
	from, to := need.Off/block*block, (need.Off+need.N+block-1)/block*block
	return cache.Range{Off: from, N: to - from}
}

// maxRounds is how often bytes are fetched again that the cache could not keep
// until they were read.
const maxRounds = 4

// read waits until all of p is in the cache, and reads it there.
func (f *File) read(ctx context.Context, p []byte, off int64, wants func(cache.Range) cache.Range) error {
	need := cache.Range{Off: off, N: int64(len(p))}
	for round := range maxRounds {
		if n, err := f.entry.ReadAt(p, off); n == len(p) {
			if round == 0 {
				f.c.cached.Add(int64(n))
			}
			return nil
		} else if err != nil && !errors.Is(err, cache.ErrAbsent) {
			return err
		}
		if err := f.await(ctx, need, wants); err != nil {
			return err
		}
	}
	return &tensorfs.FormatError{File: f.path, Offset: off, Problem: "the cache is too full to keep what was fetched", Advice: "make room on its disk, or give it more with --cache-size", Kind: syscall.EIO}
}

// Digest returns the digest that Verify compares with, "" if none is known.
func (f *File) Digest() string { return f.digest }

// SetDigest sets the digest of the file's content, in the form of cache.ID.
func (f *File) SetDigest(digest string) { f.digest = digest }

// Absent returns how many bytes of the file are not in the cache.
func (f *File) Absent() int64 { return f.absent(f.base, f.size) }

func (f *File) absent(off, n int64) (absent int64) {
	for _, m := range f.entry.Missing(off, n) {
		absent += min(m.Off+m.N, off+n) - max(m.Off, off)
	}
	return absent
}

// Stored returns how many bytes of the file are on the disk of the cache.
func (f *File) Stored() int64 { return f.entry.Stored(f.base, f.size) }

// Unverified returns the size of the server's file until it has been compared with its
// digest, and how many of its bytes are absent from the cache: while any are, it cannot be
// compared. Both are 0 once it was, and if no digest is known.
func (f *File) Unverified() (bytes, absent int64) {
	if f.digest == "" || f.entry.Verified() {
		return 0, 0
	}
	return f.entry.Size(), f.absent(0, f.entry.Size())
}

// Verify fetches all of the server's file into the cache and compares it with its digest,
// if one is known. Wrong bytes are forgotten and reported as an error. came, which may be
// nil, receives the number of bytes as more arrive.
func (f *File) Verify(ctx context.Context, came func(n int64)) error {
	err := f.fetchAll(ctx, f.base, f.size, came)
	for again := true; err == nil && again; {
		if err = f.fetchAll(ctx, 0, f.entry.Size(), nil); err != nil { // the other members of its archive
			break
		}
		f.landed(ctx)
		again = f.absent(0, f.entry.Size()) == 0
		err = f.entry.Verify(ctx)
		if again = again && errors.Is(err, cache.ErrAbsent); again { // the disk changed some of it
			err = nil
		}
	}
	f.mapWhole()
	return err
}

// Whole returns the server's file where the cache has all of it, durable and, where a
// digest is known, verified. Its name is its path. The caller closes it.
func (f *File) Whole() (*os.File, bool) { return f.entry.Whole() }

// Fetch brings a range into the cache, several parts at a time, and returns when
// all of it is there.
func (f *File) Fetch(ctx context.Context, off, n int64) error {
	if err := tensorfs.CheckRange(f, off, n); err != nil {
		return err
	}
	return f.fetchAll(ctx, f.base+off, n, nil)
}

// Section returns [off, off+n) as data.
func (f *File) Section(off, n int64) tensorfs.Data {
	if err := tensorfs.CheckRange(f, off, n); err != nil {
		panic(err)
	}
	return &section{f, f.base + off, n}
}

// mapWhole maps the file once all of it is in the cache.
func (f *File) mapWhole() {
	if f.whole.Load() != nil {
		return
	}
	data, ok := f.entry.Whole()
	if !ok {
		return
	}
	m, err := source.MapFile(data, f.path, f.label, f.ModTime())
	if err != nil {
		f.c.opts.Logger.Warn("a file of the cache cannot be mapped", "file", f.path, "error", err)
		return
	}
	if !f.whole.CompareAndSwap(nil, m) {
		m.Close()
	}
}

var (
	_ source.File              = (*File)(nil)
	_ tensorfs.ContextReaderAt = (*File)(nil)
)
