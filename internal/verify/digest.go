package verify

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	iofs "io/fs"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/source"
)

// digest is a store's digest of a file: "sha256:HEX" or "git:HEX", "" if it has none.
type digest string

// DigestOf returns a store's digest of a file, from the file's name.
func DigestOf(path string) digest { return digest(source.StoredDigest(path)) }

// of returns the digest of this kind of bytes.
func (want digest) of(ctx context.Context, d tensorfs.Data, read func(n int64)) (digest, error) {
	h, sum := want.Hash(d.Size())
	err := source.Hash(ctx, h, d, read)
	return sum(), err
}

// Hash returns a hash for a file of that size, and a function that returns its digest.
func (want digest) Hash(size int64) (h hash.Hash, sum func() digest) {
	kind, _, _ := strings.Cut(string(want), ":")
	h, _ = cache.NewHash(string(want), size) // it was parsed
	return h, func() digest { return digest(kind + ":" + hex.EncodeToString(h.Sum(nil))) }
}

// WrongBytes is the error of bytes that have another digest.
type WrongBytes struct{ Err error }

func (w WrongBytes) Error() string { return w.Err.Error() }

func (want digest) Differs(name string, got digest) error {
	return WrongBytes{fmt.Errorf("%s: the bytes that came have the digest %s instead of %s", tensorfs.Printable(name), got, want)}
}

// Compare holds that a file has the digest.
func (want digest) Compare(ctx context.Context, path string) error {
	f, err := source.Map(path, "")
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := want.of(ctx, f, func(int64) {})
	if err == nil && got != want {
		err = want.Differs(path, got)
	}
	return err
}

// openSource returns the content of a file of the model, as the model has it open
// if it has.
func openSource(m *tensorfs.Model, s tensorfs.Source) (d tensorfs.Data, closed func(), err error) {
	d, err = m.File(s.Name)
	if !errors.Is(err, iofs.ErrNotExist) || s.Open != nil {
		return d, func() {}, err
	}
	f, err := source.Map(s.Path, s.Name)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil // it was only read
}
