package verify

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/source"
)

// digest is a store's digest of a file: "sha256:HEX" or "git:HEX", "" if it has none.
type digest string

// DigestOf returns a store's digest of a file, from the file's name.
func DigestOf(path string) digest { return digest(source.StoredDigest(path)) }

// maxRecord bounds the record of a download, of some 130 bytes.
const maxRecord = 4096

// recordOf returns what "hf download --local-dir" noted of a file that it put into
// a directory, unless the file was written to since:
//
//	DIR/config.json
//	DIR/.cache/huggingface/download/config.json.metadata    commit, digest and time, in lines
func recordOf(path string) digest {
	st, err := os.Stat(path)
	if err != nil {
		return ""
	}
	dir, name := filepath.Split(path)
	for range 3 { // a file may be in a folder of the repository
		b, err := source.ReadRegular(filepath.Join(dir, ".cache/huggingface/download", name+".metadata"), maxRecord)
		if err != nil {
			dir, name = filepath.Dir(filepath.Clean(dir)), filepath.Join(filepath.Base(dir), name)
			continue
		}
		fields := strings.Fields(string(b))
		if len(fields) != 3 {
			return ""
		}
		seconds, err := strconv.ParseFloat(fields[2], 64)
		if written := float64(st.ModTime().UnixNano()) / 1e9; err != nil || written > seconds+1 { // as huggingface_hub has it
			return ""
		}
		return digest(source.ParseDigest(fields[1]))
	}
	return ""
}

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
