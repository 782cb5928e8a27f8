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
	"github.com/tensorfs/tensorfs/internal/readahead"
	"github.com/tensorfs/tensorfs/internal/source"
)

const (
	block = 1 << 20 // the least that is fetched for a read of data
	part  = 8 << 20 // of a stream, in one request
)

// File is a file of a server, of which some cells are in the cache. Reads of the
// file itself are taken for those of a parser, which goes through a header from the
// front; reads of its sections for those of data.
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

	all     context.Context // of what is fetched; ended by Close
	end     context.CancelFunc
	running sync.WaitGroup
	ahead   readahead.Tracker
	whole   atomic.Pointer[source.Mapped] // once all of it is here

	mu       sync.Mutex
	flights  []*flight
	parsed   int64         // bytes that a parser has read
	arrived  chan struct{} // closed when something came or failed
	changed  error         // for all later reads of what is not here
	failures []failure     // of late, the last at the end
	closed   bool
	aheadNow int // flights that nobody waits for
}

// flight is a range that is being fetched.
type flight struct {
	r     cache.Range
	hurry bool
	err   error // once it has ended
}

// File returns a file of a server. host is the server's, path the file's name for
// people. The File owns the entry.
func (c *Client) File(o Origin, entry *cache.Entry, host, path, label string) *File {
	f := &File{c: c, origin: o, host: host, entry: entry, path: path, label: label, size: entry.Size(), arrived: make(chan struct{})}
	f.all, f.end = context.WithCancel(context.Background())
	f.ahead = readahead.Tracker{Window: 64 << 20, Piece: part, Onward: true}
	f.mapWhole()
	return f
}

// Only makes the file [off, off+n) of the server's file: a member of an archive.
// Call it before the file is used. It panics where that is not inside.
func (f *File) Only(off, n int64) {
	if err := tensorfs.CheckRange(f, off, n); err != nil {
		panic(err)
	}
	f.base, f.size = off, n
}

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
	return f.ReadAtContext(context.Background(), p, off)
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
		return need // who only waits for what was asked for asks for no more
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
	for range maxRounds {
		if n, err := f.entry.ReadAt(p, off); n == len(p) {
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

// await waits until a range is in the cache. What nobody fetches yet is asked for,
// as far as the reader wants it.
func (f *File) await(ctx context.Context, need cache.Range, wants func(cache.Range) cache.Range) error {
	ctx, cancel := context.WithTimeout(ctx, f.c.opts.Timeout)
	defer cancel()
	var mine []*flight
	for first := true; ; first = false {
		f.mu.Lock()
		missing := f.entry.Missing(need.Off, need.N)
		if err := f.failed(missing); err != nil && first {
			f.mu.Unlock()
			return err
		}
		for _, x := range mine {
			if len(missing) > 0 && x.err != nil {
				f.mu.Unlock()
				return x.err
			}
		}
		if len(missing) == 0 || f.changed != nil && !f.coming(missing) {
			defer f.mu.Unlock()
			if len(missing) > 0 {
				return f.changed
			}
			return nil
		}
		if !f.coming(missing) { // else its reader asks for more when it has come
			f.ask(clip(wants(need), f.entry.Size()), true)
		}
		mine = mine[:0]
		for _, x := range f.flights {
			if overlap(x.r, need) {
				mine = append(mine, x)
			}
		}
		arrived := f.arrived
		f.mu.Unlock()
		select {
		case <-arrived:
		case <-ctx.Done():
			return f.gaveUp(ctx, ctx.Err())
		}
	}
}

// failure is a range that did not come.
type failure struct {
	r   cache.Range
	err error
	at  time.Time
}

const (
	// failedFor is how long what did not come is not asked for again. The kernel asks
	// twice for what it reads ahead, and then for each page: whoever waited until the
	// deadline would wait once more.
	failedFor = 100 * time.Millisecond
	// maxFailures bounds the failures that are remembered.
	maxFailures = 16
)

// failed returns the error of a range that did not come a moment ago. The caller
// holds the lock.
func (f *File) failed(missing []cache.Range) error {
	for _, x := range f.failures {
		for _, m := range missing {
			if overlap(x.r, m) && time.Since(x.at) < failedFor {
				return x.err
			}
		}
	}
	return nil
}

// ask begins to fetch what nobody fetches of a range, in parts; of what nobody waits
// for, no more parts than may be under way. The caller holds the lock.
func (f *File) ask(want cache.Range, hurry bool) {
	most := int64(part)
	if f.entry.VerifiedFirst() {
		most = f.entry.Size()
	}
	for _, m := range f.entry.Missing(want.Off, want.N) {
		for _, r := range f.unclaimed(m) {
			for ; r.N > 0 && (hurry || f.aheadNow < 2*maxOfFile); r.Off, r.N = r.Off+most, r.N-most {
				f.start(cache.Range{Off: r.Off, N: min(r.N, most)}, hurry)
			}
		}
	}
}

// readAhead asks for what the reader of [off, off+n) of a section probably reads
// next, without waiting.
func (f *File) readAhead(off, n, start, end int64) {
	var room [4]readahead.Span
	spans := f.ahead.Read(room[:0], off, n, start, end)
	if len(spans) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed != nil {
		return
	}
	for _, s := range spans {
		f.ask(clip(cache.Range{Off: s.From, N: s.To - s.From}, f.entry.Size()), false)
	}
}

// start begins to fetch a range. The caller holds the lock.
func (f *File) start(r cache.Range, hurry bool) {
	if f.closed {
		return
	}
	x := &flight{r: r, hurry: hurry}
	f.flights = append(f.flights, x)
	if !hurry {
		f.aheadNow++
	}
	f.running.Go(func() {
		ctx, cancel := context.WithTimeout(f.all, f.c.opts.Timeout)
		defer cancel()
		err := f.fetch(ctx, r, hurry)
		f.finish(x, err)
	})
}

// finish ends a flight.
func (f *File) finish(x *flight, err error) {
	f.mapWhole()
	f.mu.Lock()
	x.err = err
	if !x.hurry {
		f.aheadNow--
	}
	for i, y := range f.flights {
		if x == y {
			f.flights = append(f.flights[:i], f.flights[i+1:]...)
			break
		}
	}
	switch {
	case errors.Is(err, tensorfs.ErrChanged):
		if f.changed == nil {
			f.changed = err
		}
	case err != nil && !errors.Is(err, context.Canceled):
		if len(f.failures) == maxFailures {
			f.failures = append(f.failures[:0], f.failures[1:]...)
		}
		f.failures = append(f.failures, failure{x.r, err, time.Now()})
	}
	f.wake()
	f.mu.Unlock()
}

// came tells the waiting readers that there is more.
func (f *File) came() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wake()
}

func (f *File) wake() {
	close(f.arrived)
	f.arrived = make(chan struct{})
}

// coming reports whether all of the ranges are being fetched.
func (f *File) coming(ranges []cache.Range) bool {
	for _, r := range ranges {
		if len(f.unclaimed(r)) > 0 {
			return false
		}
	}
	return true
}

// unclaimed returns the parts of a range that nobody fetches.
func (f *File) unclaimed(r cache.Range) []cache.Range {
	rest := []cache.Range{r}
	for _, x := range f.flights {
		var next []cache.Range
		for _, r := range rest {
			next = append(next, without(r, x.r)...)
		}
		rest = next
	}
	return rest
}

// without returns what of a is not in b.
func without(a, b cache.Range) (rest []cache.Range) {
	if !overlap(a, b) {
		return []cache.Range{a}
	}
	if b.Off > a.Off {
		rest = append(rest, cache.Range{Off: a.Off, N: b.Off - a.Off})
	}
	if end, bend := a.Off+a.N, b.Off+b.N; bend < end {
		rest = append(rest, cache.Range{Off: bend, N: end - bend})
	}
	return rest
}

func overlap(a, b cache.Range) bool { return a.Off < b.Off+b.N && b.Off < a.Off+a.N }

// clip cuts off what lies after the end of the file.
func clip(r cache.Range, size int64) cache.Range {
	return cache.Range{Off: r.Off, N: min(r.N, size-r.Off)}
}

// Digest returns what Verify compares, "" where no digest is known.
func (f *File) Digest() string { return f.digest }

// SetDigest says what the digest of the file's content is, as its cache.ID has it.
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

// Unverified returns the size of the server's file while it is not compared with its
// digest, and how many of its bytes are not in the cache: as long as some are not,
// nothing can be compared. Both are 0 once it was, and where no digest is known.
func (f *File) Unverified() (bytes, absent int64) {
	if f.digest == "" || f.entry.Verified() {
		return 0, 0
	}
	return f.entry.Size(), f.absent(0, f.entry.Size())
}

// Verify brings all of the server's file into the cache and compares it with its
// digest, if one is known. Bytes that are not right are forgotten, and an error.
// came, which may be nil, is called with how many more bytes of the file are there.
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

// landed waits until what is being fetched is on the disk: to readers it came before.
func (f *File) landed(ctx context.Context) {
	for {
		f.mu.Lock()
		arrived, n := f.arrived, len(f.flights)
		f.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return
		}
	}
}

// Fetch brings a range into the cache, several parts at a time, and returns when
// all of it is there.
func (f *File) Fetch(ctx context.Context, off, n int64) error {
	if err := tensorfs.CheckRange(f, off, n); err != nil {
		return err
	}
	return f.fetchAll(ctx, f.base+off, n, nil)
}

// fetchAll is Fetch for a range of the server's file.
func (f *File) fetchAll(ctx context.Context, off, n int64, came func(n int64)) error {
	exactly := func(need cache.Range) cache.Range { return need }
	for at := off; at < off+n; at += part {
		f.mu.Lock()
		if f.changed == nil {
			f.ask(cache.Range{Off: at, N: min(maxOfFile*part, off+n-at)}, true)
		}
		f.mu.Unlock()
		need := cache.Range{Off: at, N: min(part, off+n-at)}
		if err := f.await(ctx, need, exactly); err != nil {
			return err
		}
		if came != nil {
			came(need.N)
		}
	}
	return nil
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

// section is a part of a file: the bytes of a tensor.
type section struct {
	f      *File
	off, n int64 // in the server's file
}

func (s *section) Size() int64 { return s.n }

// ReadAt implements io.ReaderAt.
func (s *section) ReadAt(p []byte, off int64) (int, error) {
	return s.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext reads as ReadAt does, until ctx ends.
func (s *section) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(s.n, p, off)
	if n == 0 {
		return 0, eof
	}
	if s.f.whole.Load() == nil {
		s.f.readAhead(s.off+off, int64(n), s.off, s.off+s.n)
	}
	if err := s.f.read(ctx, p[:n], s.off+off, dataWants); err != nil {
		return 0, err
	}
	return n, eof
}

// SlicesIf returns mapped memory once all of the file is here. What was not read since it
// was opened is read first: ReadAt compares it with its checksums.
func (s *section) SlicesIf(dst [][]byte, off, n int64) ([][]byte, bool, error) {
	if err := tensorfs.CheckRange(s, off, n); err != nil {
		return dst, false, err
	}
	m := s.f.whole.Load()
	if m == nil || !s.f.entry.Proven(s.off+off, n) {
		return dst, false, nil
	}
	dst, err := m.Slices(dst, s.off+off, n)
	return dst, err == nil, err
}

// Extents returns the section's place in its file.
func (s *section) Extents() []tensorfs.Extent {
	return []tensorfs.Extent{{File: s.f.label, Offset: s.off - s.f.base, Bytes: s.n}}
}

// Fetch brings in the bytes [off, off+n) of the section.
func (s *section) Fetch(ctx context.Context, off, n int64) error {
	if err := tensorfs.CheckRange(s, off, n); err != nil {
		return err
	}
	return s.f.Fetch(ctx, s.off-s.f.base+off, n)
}

// Check returns an error once the bytes that came proved to be wrong. Else what is in
// the cache does not change, and to read anything else says whether it did.
func (s *section) Check() error { return s.f.entry.Failed() }

var (
	_ source.File              = (*File)(nil)
	_ tensorfs.ContextReaderAt = (*File)(nil)
	_ tensorfs.ContextReaderAt = (*section)(nil)
	_ tensorfs.PartSlicer      = (*section)(nil)
	_ tensorfs.Fetcher         = (*section)(nil)
	_ tensorfs.Extenter        = (*section)(nil)
	_ tensorfs.Checker         = (*section)(nil)
)
