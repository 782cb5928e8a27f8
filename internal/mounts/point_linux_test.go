package mounts

import (
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLeave: only the directory that was made is removed, and not with something
// in it.
func TestLeave(t *testing.T) {
	if !hasMarks(t) {
		t.Skip("NOT TESTED: no user attributes here")
	}
	dir := t.TempDir()
	take := func(name string) *Point {
		p, err := Take(filepath.Join(dir, name), true, false)
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		return p
	}
	made := take("made")
	var mark [128]byte
	n, err := unix.Getxattr(made.Path, madeAttr, mark[:])
	if err != nil {
		t.Fatal(err)
	}

	other := filepath.Join(dir, "copy")
	if err := errors.Join(os.Mkdir(other, 0o755), unix.Setxattr(other, madeAttr, mark[:n], 0)); err != nil {
		t.Fatal(err)
	}
	Leave(other, "")
	Leave(other, made.Made)
	if !isThere(other) {
		t.Error("a copy of the mark is believed")
	}
	inside := filepath.Join(made.Path, "file")
	if err := os.WriteFile(inside, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	Leave(made.Path, made.Made)
	if !isThere(inside) {
		t.Error("a file is removed")
	}
	if err := os.Remove(inside); err != nil {
		t.Fatal(err)
	}
	Leave(made.Path, "")
	if isThere(made.Path) {
		t.Error("a marked directory is left")
	}

	again := take("made")
	if err := errors.Join(os.Rename(again.Path, other+"2"), os.Mkdir(again.Path, 0o755)); err != nil {
		t.Fatal(err)
	}
	Leave(again.Path, again.Made)
	if !isThere(again.Path) {
		t.Error("another directory in its place is removed")
	}
}

// hasMarks reports whether directories here can be marked.
func hasMarks(t *testing.T) bool {
	dir := t.TempDir()
	return unix.Setxattr(dir, madeAttr, []byte("x"), 0) == nil
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, iofs.ErrNotExist)
}
