package cache

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tensorfs/tensorfs"
)

const (
	// verifyFirst is the size up to which all of a file is verified before any of it is
	// given out: most files but weights are smaller.
	verifyFirst = 16 << 20
	// verifyAlone is how large a file may be that is read in the background to
	// verify it.
	verifyAlone = 4 << 30
	// followBehind is how far a writer may be ahead of the hash of a file that is
	// filled front to back: as far as what is fetched at once.
	followBehind = 256 << 20
)

// digests are the kinds of digests.
var digests = map[string]struct {
	hex  int // digits
	hash func(size int64) hash.Hash
}{
	"sha256": {64, func(int64) hash.Hash { return sha256.New() }},
	"git": {40, func(size int64) hash.Hash { // of a blob
		h := sha1.New()
		fmt.Fprintf(h, "blob %d\x00", size)
		return h
	}},
}

// newDigest returns the hash that a digest is of, nil for none.
func newDigest(digest string, size int64) (hash.Hash, error) {
	if digest == "" {
		return nil, nil
	}
	kind, text, _ := strings.Cut(digest, ":")
	d, ok := digests[kind]
	if _, err := hex.DecodeString(text); !ok || err != nil || len(text) != d.hex || text != strings.ToLower(text) {
		return nil, fmt.Errorf("%q is not a digest: want sha256:HEX or git:HEX", digest)
	}
	return d.hash(size), nil
}

// verifier hashes an entry from its front on. The hash is kept from one time to
// the next.
type verifier struct {
	digest string
	size   int64

	following atomic.Bool
	until     atomic.Int64 // where following ends
	pos       atomic.Int64 // what is hashed; whole cells, or all

	turn  chan struct{} // who has it may use what follows
	hash  hash.Hash
	seen  []byte // the bytes of the cells that were hashed
	epoch uint32 // when the first was
}

func newVerifier(digest string, size int64) *verifier {
	v := &verifier{digest: digest, size: size, turn: make(chan struct{}, 1)}
	v.reset()
	return v
}

func (v *verifier) reset() {
	v.hash, _ = newDigest(v.digest, v.size) // Store.Entry checked it
	v.pos.Store(0)
}

// take waits for the turn.
func (v *verifier) take(ctx context.Context) error {
	select {
	case v.turn <- struct{}{}: // also where ctx has ended, if it is free
		return nil
	default:
	}
	select {
	case v.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (v *verifier) give() { <-v.turn }

// got returns the digest, of the kind of another, of what was hashed.
func got(h hash.Hash, want string) string {
	kind, _, _ := strings.Cut(want, ":")
	return kind + ":" + hex.EncodeToString(h.Sum(nil))
}

// advance hashes local bytes up to until. It has the turn.
func (d *disk) advance(ctx context.Context, until int64) error {
	v := d.verify
	if v.seen == nil {
		v.seen = make([]byte, cellsOf(v.size))
	}
	if until < v.size {
		until = until / CellSize * CellSize
	}
	buf := make([]byte, min(1<<20, max(until-v.pos.Load(), 0)))
	for pos := v.pos.Load(); pos < until; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(int64(len(buf)), until-pos)]
		if pos == 0 {
			if err := d.cells.guard(func() error { v.epoch = d.cells.epoch(); return nil }); err != nil {
				return err
			}
		}
		err := d.read(b, pos, v.seen)
		if errors.Is(err, ErrAbsent) && len(b) > CellSize {
			b = b[:CellSize]
			err = d.read(b, pos, v.seen)
		}
		if err != nil {
			return err
		}
		v.hash.Write(b)
		pos += int64(len(b))
		v.pos.Store(pos)
	}
	return nil
}

// follow hashes what was written, if the file is being filled front to back, in
// the background and while it is in the page cache.
func (d *disk) follow(from, to int64) {
	v := d.verify
	pos := v.pos.Load()
	if pos == v.size || from > pos+followBehind || to <= pos {
		return
	}
	for until := v.until.Load(); until < to && !v.until.CompareAndSwap(until, to); until = v.until.Load() {
	}
	if !d.has(pos/CellSize) || !v.following.CompareAndSwap(false, true) {
		return
	}
	d.run(func() {
		for {
			err := d.hashUntil(d.ctx, v.until.Load())
			v.following.Store(false)
			if err != nil && !errors.Is(err, ErrAbsent) { // who verifies reads it again, and finds what is wrong
				return
			}
			// Others may have written while this came to its end.
			pos := v.pos.Load()
			if pos >= v.until.Load() || !d.has(pos/CellSize) || !v.following.CompareAndSwap(false, true) {
				return
			}
		}
	})
}

// hashUntil is advance for who has not the turn.
func (d *disk) hashUntil(ctx context.Context, until int64) error {
	if err := d.verify.take(ctx); err != nil {
		return err
	}
	defer d.verify.give()
	return d.advance(ctx, until)
}

// verifyWhole makes an entry whole whose bytes are all durable: verified where a
// digest is known. Bytes that are not hashed yet are read if read says so of their
// number.
func (d *disk) verifyWhole(ctx context.Context, read func(left int64) bool) error {
	deadline := time.Now().Add(lockPatience)
	wait := func() bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(lockPoll):
			return time.Now().Before(deadline)
		}
	}
	v := d.verify
	if v == nil {
		if d.whole.Load() {
			return nil
		}
		err := d.makeWhole(func(int64, byte) bool { return true }, wait)
		return notNow(err)
	}
	if err := v.take(ctx); err != nil {
		return err
	}
	defer v.give()
	for range 3 {
		if !read(v.size - v.pos.Load()) {
			return nil
		}
		if err := d.advance(ctx, v.size); err != nil {
			return err
		}
		if got := got(v.hash, v.digest); got != v.digest {
			return d.entry.mismatch(got)
		}
		if d.whole.Load() {
			return nil
		}
		err := d.makeWhole(func(i int64, b byte) bool { return (b^v.seen[i])&generationMask == 0 && d.cells.comparable(v.epoch) }, wait)
		if !errors.Is(err, errStale) {
			return notNow(err)
		}
		v.reset()
	}
	return nil // it is being swept as fast as it is read; the digest was right each time
}

// notNow takes away errors after which an entry is what it was, but not whole: all
// but that of its state.
func notNow(err error) error {
	if errors.Is(err, errStateLost) {
		return err
	}
	return nil
}

// Verify holds that the bytes of the file, which must be local, have its digest:
// it reads those that were not hashed since the entry was opened. Where there is
// no digest it holds only that all are local. Afterwards the entry is Whole, if its
// disk allows it. Bytes with another digest are forgotten: the error wraps
// tensorfs.ErrChanged.
func (e *Entry) Verify(ctx context.Context) error {
	if err := e.failed.Load(); err != nil {
		return *err
	}
	if d := e.disk.Load(); d != nil {
		err := d.sync()
		if err == nil && d.complete() {
			err = d.verifyWhole(ctx, func(int64) bool { return true })
			if err == nil || errors.Is(err, tensorfs.ErrChanged) || ctx.Err() != nil {
				return err
			}
		}
		if err != nil && !errors.Is(err, ErrAbsent) {
			e.abandon(d, err)
		}
	}
	return e.verifyMixed(ctx)
}

// verifyMixed verifies an entry that is not all on the disk.
func (e *Entry) verifyMixed(ctx context.Context) error {
	h, err := newDigest(e.id.Digest, e.id.Size)
	if err != nil {
		return err
	}
	if h == nil {
		if len(e.Missing(0, e.id.Size)) > 0 {
			return e.absent()
		}
		return nil
	}
	buf := make([]byte, min(1<<20, e.id.Size))
	for off := int64(0); off < e.id.Size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(int64(len(buf)), e.id.Size-off)]
		n, err := e.ReadAt(b, off)
		if n < len(b) {
			if errors.Is(err, ErrAbsent) {
				return e.absent()
			}
			return err
		}
		h.Write(b)
		off += int64(n)
	}
	if got := got(h, e.id.Digest); got != e.id.Digest {
		return e.mismatch(got)
	}
	return nil
}

// compare holds that p, all of the file, has its digest.
func (e *Entry) compare(p []byte) error {
	h, err := newDigest(e.id.Digest, e.id.Size)
	if err != nil {
		return err
	}
	h.Write(p)
	if got := got(h, e.id.Digest); got != e.id.Digest {
		return e.mismatch(got)
	}
	return nil
}

func (e *Entry) absent() error {
	return fmt.Errorf("%s: it cannot be verified: %w", tensorfs.Printable(e.id.Source), ErrAbsent)
}

// digestError says that the bytes that came are not those of the file.
type digestError struct{ source, got, want string }

func (e *digestError) Error() string {
	return fmt.Sprintf("%s: the bytes that came have the digest %s instead of %s and are forgotten; open it again to fetch them anew", tensorfs.Printable(e.source), e.got, e.want)
}

// Unwrap returns tensorfs.ErrChanged.
func (e *digestError) Unwrap() error { return tensorfs.ErrChanged }
