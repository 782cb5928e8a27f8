package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tensorfs/tensorfs"
)

// unverified counts what came from other machines and was not compared with its
// digest, because not all of a file is here. Small files are never among it.
type unverified struct {
	Files int   `json:"files"`
	Here  int64 `json:"here"`  // bytes that are in the cache
	Bytes int64 `json:"bytes"` // of these files
}

// String says it, "" where there is nothing.
func (u *unverified) String() string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("not verified (%s of %s here)", size(u.Here), size(u.Bytes))
}

// unverifiedOf counts the files of a model; nil where there are none.
func unverifiedOf(m *tensorfs.Model) (*unverified, error) {
	list, err := farFiles(m)
	if err != nil {
		return nil, err
	}
	var all unverified
	for _, f := range list {
		u := unverifiedFile(f)
		all.Files, all.Here, all.Bytes = all.Files+u.Files, all.Here+u.Here, all.Bytes+u.Bytes
	}
	if all.Files == 0 {
		return nil, nil
	}
	return &all, nil
}

func unverifiedFile(f farFile) (u unverified) {
	bytes, absent := f.Unverified()
	if bytes > 0 {
		u = unverified{1, bytes - absent, bytes}
	}
	return u
}

// confirm compares files with their digests before a command that gave out their
// bytes says that it succeeded. It returns what cannot be compared.
func confirm(ctx context.Context, m *tensorfs.Model) (*unverified, error) {
	list, err := farFiles(m)
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		if u := unverifiedFile(f); u.Files > 0 && u.Here == u.Bytes {
			switch err := f.Verify(ctx, nil); {
			case ctx.Err() != nil:
				return nil, errors.New("interrupted before the bytes that came were compared with their digests")
			case err != nil:
				return nil, err
			}
		}
	}
	return unverifiedOf(m)
}

// sound returns an error where what was read of a model is not what it was when it was
// opened, or not right.
func sound(ctx context.Context, m *tensorfs.Model) error {
	if err := m.Check(); err != nil {
		return err
	}
	_, err := confirm(ctx, m)
	return err
}

// unverifiedSource returns the digest of a file of the model, if that is a whole file
// of another machine which was not compared with it.
func unverifiedSource(m *tensorfs.Model, name string) (want digest, u unverified) {
	d, err := m.File(name)
	f, ok := d.(farFile)
	if err != nil || !ok {
		return "", u
	}
	if u = unverifiedFile(f); u.Bytes != f.Size() { // what was, or a member of an archive
		return "", unverified{}
	}
	return digest(f.Digest()), u
}
