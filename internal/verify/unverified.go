package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
)

// Unverified counts what came from other machines and was not compared with its
// digest, because not all of a file is here. Small files are never among it.
type Unverified struct {
	Files int   `json:"files"`
	Here  int64 `json:"here"`  // bytes that are in the cache
	Bytes int64 `json:"bytes"` // of these files
}

// String describes them in a few words; "" if all was compared.
func (u *Unverified) String() string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("not verified (%s of %s here)", cli.Size(u.Here), cli.Size(u.Bytes))
}

// UnverifiedOf counts the open files of a model, which are the files being read; or
// nil.
func UnverifiedOf(m *tensorfs.Model) *Unverified {
	var all Unverified
	seen := map[string]bool{} // members of one archive have the digest of that
	for _, d := range m.Opened() {
		f, u := unverifiedFile(d)
		if u.Files == 0 || seen[f.Digest()] {
			continue
		}
		seen[f.Digest()] = true
		all.Files, all.Here, all.Bytes = all.Files+u.Files, all.Here+u.Here, all.Bytes+u.Bytes
	}
	if all.Files == 0 {
		return nil
	}
	return &all
}

func unverifiedFile(d tensorfs.Data) (f FarFile, u Unverified) {
	f, ok := d.(FarFile)
	if !ok {
		return nil, u
	}
	if bytes, absent := f.Unverified(); bytes > 0 {
		u = Unverified{1, bytes - absent, bytes}
	}
	return f, u
}

// Confirm compares files with their digests before a command that gave out their bytes
// reports success. It returns the files that cannot be compared.
func Confirm(ctx context.Context, m *tensorfs.Model) (*Unverified, error) {
	for _, d := range m.Opened() {
		if f, u := unverifiedFile(d); u.Files > 0 && u.Here == u.Bytes {
			switch err := f.Verify(ctx, nil); {
			case ctx.Err() != nil:
				return nil, errors.New("interrupted before the bytes that came were compared with their digests")
			case err != nil:
				return nil, err
			}
		}
	}
	return UnverifiedOf(m), nil
}

// sound returns an error where what was read of a model is not what it was when it was
// opened, or not right.
func sound(ctx context.Context, m *tensorfs.Model) error {
	if err := m.Check(); err != nil {
		return err
	}
	_, err := Confirm(ctx, m)
	return err
}

// FinishRead ends work on models that ended with err: with an error where it was interrupted,
// or where what was read of them is not what it was.
func FinishRead(ctx context.Context, b *cli.ProgressBar, err error, what, of string, models ...*tensorfs.Model) error {
	b.Clear()
	if err != nil && ctx.Err() != nil {
		return b.Interrupted(what, "of a part of the "+of+" nothing is printed")
	}
	for _, m := range models {
		if err == nil {
			err = sound(ctx, m)
		}
	}
	if changed, ok := errors.AsType[*tensorfs.ChangedError](err); ok {
		return fmt.Errorf("%s: the file changed while it was read; run the command again", tensorfs.Printable(changed.File))
	}
	return err
}

// UnverifiedSource returns the digest of a file of the model, if that is a whole file
// of another machine which was not compared with it.
func UnverifiedSource(m *tensorfs.Model, name string) (want digest, u Unverified) {
	d, err := m.File(name)
	if err != nil {
		return "", u
	}
	f, u := unverifiedFile(d)
	if u.Files == 0 || u.Bytes != f.Size() { // a member of an archive has no digest
		return "", Unverified{}
	}
	return digest(f.Digest()), u
}

// FarFile is a file that comes through the cache.
type FarFile interface {
	Size() int64
	Stored() int64
	Digest() string
	Unverified() (bytes, absent int64)
	Verify(ctx context.Context, came func(n int64)) error
}
