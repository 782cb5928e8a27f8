package cache

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"strings"
	"sync/atomic"

	"github.com/tensorfs/tensorfs"
)

const (
	// verifyFirst is the size up to which all of a file is verified before any of it is
	// given out: most files but weights are smaller.
	verifyFirst = 16 << 20
	// verifyAlone is how large a file may be that is read in the background to
	// verify it.
	verifyAlone = 4 << 30
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
	// Checksums, which tell damaged bytes and identify no file: others may have the same.
	"md5":    {32, func(int64) hash.Hash { return md5.New() }},
	"crc32c": {8, func(int64) hash.Hash { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) }},
}

// NewHash returns the hash algorithm of a digest, nil without a digest.
func NewHash(digest string, size int64) (hash.Hash, error) {
	if digest == "" {
		return nil, nil
	}
	kind, text, _ := strings.Cut(digest, ":")
	d, ok := digests[kind]
	if _, err := hex.DecodeString(text); !ok || err != nil || len(text) != d.hex || text != strings.ToLower(text) {
		return nil, fmt.Errorf("%q is not a digest: want sha256:HEX, git:HEX, md5:HEX or crc32c:HEX", digest)
	}
	return d.hash(size), nil
}

// verifier hashes an entry from its front on. The hash is kept from one time to
// the next.
type verifier struct {
	digest string
	size   int64
	pos    atomic.Int64  // what is hashed; whole cells, or all
	turn   chan struct{} // the goroutine that has it may use what follows

	hash    hash.Hash // nil: no digest is known
	dropped uint32    // of the disk, when the first cell was hashed
}

func newVerifier(digest string, size int64) *verifier {
	v := &verifier{digest: digest, size: size, turn: make(chan struct{}, 1)}
	v.reset()
	return v
}

func (v *verifier) reset() {
	v.hash, _ = NewHash(v.digest, v.size) // Store.Entry checked it
	v.pos.Store(0)
}

// take waits until no other goroutine hashes.
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

// advance hashes local bytes as far as they go. It returns ErrAbsent unless they reach the
// end. The caller has the turn.
func (d *disk) advance(ctx context.Context) (err error) {
	v := d.verify
	if v.pos.Load() == 0 {
		if v.dropped, err = d.dropped(); err != nil {
			return err
		}
	}
	buf := make([]byte, min(1<<20, d.size))
	for pos := v.pos.Load(); pos < d.size; pos = v.pos.Load() {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := d.read(buf[:min(int64(len(buf)), d.size-pos)], pos)
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrAbsent
		}
		v.hash.Write(buf[:n])
		v.pos.Add(int64(n))
	}
	return nil
}

// scrub compares all cells with their sums, so that all that the disk changed are absent.
func (d *disk) scrub(ctx context.Context) (err error) {
	look := d.eachCell(0, cellsOf(d.size), func(i int64, sum uint32) bool {
		if sum != 0 && !d.isProven(i) {
			_, err = d.readProven(i, sum)
		}
		return err == nil && ctx.Err() == nil
	})
	return errors.Join(err, look)
}

// hash is advance for callers that do not have the turn.
func (d *disk) hash(ctx context.Context) error {
	if err := d.verify.take(ctx); err != nil {
		return err
	}
	defer d.verify.give()
	return d.advance(ctx)
}

// Verify checks that the bytes of the file, which must be local, have its digest: it reads
// the bytes that were not hashed since the entry was opened. Without a digest it only
// checks that all are local. Afterwards the entry is Whole, if its disk allows it. Bytes
// with another digest are forgotten: the error wraps tensorfs.ErrChanged.
func (e *Entry) Verify(ctx context.Context) error {
	if err := e.failed.Load(); err != nil {
		return *err
	}
	if d := e.disk.Load(); d != nil {
		all, err := d.complete()
		if all && err == nil && d.verify.hash == nil {
			if err = d.scrub(ctx); err == nil {
				all, err = d.complete()
			}
		}
		if all && err == nil {
			err = d.verifyWhole(ctx, true)
			if err == nil || errors.Is(err, tensorfs.ErrChanged) || ctx.Err() != nil {
				return err
			}
		}
		if errors.Is(err, ErrAbsent) {
			err = d.scrub(ctx)
		}
		if err != nil && ctx.Err() == nil {
			e.abandon(d, err)
		}
	}
	return e.verifyMixed(ctx)
}

// verifyMixed verifies an entry that is not all on the disk.
func (e *Entry) verifyMixed(ctx context.Context) error {
	h, err := NewHash(e.id.Digest, e.id.Size)
	if err != nil {
		return err
	}
	if h == nil {
		if len(e.Missing(0, e.id.Size)) > 0 {
			return e.absentError()
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
				return e.absentError()
			}
			return err
		}
		h.Write(b)
		off += int64(n)
	}
	return e.compare(h)
}

// compare holds that what was hashed, which is all of the file, has its digest.
func (e *Entry) compare(h hash.Hash) error {
	kind, _, _ := strings.Cut(e.id.Digest, ":")
	if got := kind + ":" + hex.EncodeToString(h.Sum(nil)); got != e.id.Digest {
		return e.mismatch(got)
	}
	return nil
}

func (e *Entry) absentError() error {
	return fmt.Errorf("%s: it cannot be verified: %w", tensorfs.Printable(e.id.Source), ErrAbsent)
}

// digestError is the error that the received bytes are not the file's.
type digestError struct{ source, got, want string }

func (e *digestError) Error() string {
	return fmt.Sprintf("%s: the bytes that came have the digest %s instead of %s and are forgotten; open the model again, which fetches them again", tensorfs.Printable(e.source), e.got, e.want)
}

// Unwrap returns tensorfs.ErrChanged.
func (e *digestError) Unwrap() error { return tensorfs.ErrChanged }
