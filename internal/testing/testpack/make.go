package testpack

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

func init() {
	dir, ok := Testdata()
	if !ok {
		return // a program that a test starts, in another directory
	}
	if err := MakeAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "testpack: cannot make the files of testdata/packed/list.txt:", err)
		os.Exit(1)
	}
}

// Testdata returns the module's testdata, seen from the directory of any of its packages.
func Testdata() (string, bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for range 8 {
		if _, err := os.Stat(filepath.Join(dir, "testdata", list)); err == nil {
			return filepath.Join(dir, "testdata"), true
		}
		dir = filepath.Dir(dir)
	}
	return "", false
}

const (
	list = "packed/list.txt" // SHA-256 and name of each file to be made
	made = "packed/made.txt" // the list as it was when the files were made; git ignores it
)

// List returns the files to be made with their SHA-256.
func List(testdata string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(testdata, list))
	return parse(text), err
}

func parse(text []byte) map[string]string {
	files := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		files[name] = sum
	}
	return files
}

// MakeAll makes the missing files, and removes files whose recipe was removed.
func MakeAll(testdata string) error {
	if want, have, err := state(testdata); err != nil || complete(testdata, want, have) {
		return err
	}
	lock, err := os.Open(filepath.Join(testdata, list))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	want, have, err := state(testdata) // another process may have made them
	if err != nil || complete(testdata, want, have) {
		return err
	}
	files, old := parse(want), parse(have)
	for name := range old {
		if files[name] == "" {
			if err := os.Remove(filepath.Join(testdata, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	m := &Maker{}
	done := map[string][]byte{}
	m.File = func(name string) ([]byte, error) {
		if b, ok := done[name]; ok {
			return b, nil
		}
		if files[name] == "" {
			return os.ReadFile(filepath.Join(testdata, name))
		}
		path := filepath.Join(testdata, name)
		b, err := os.ReadFile(path)
		if err != nil || sum(b) != files[name] {
			if b, err = unpack(m, testdata, name); err == nil && sum(b) != files[name] {
				err = errors.New("its recipe gives other bytes")
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if err := write(path, b); err != nil {
				return nil, err
			}
		}
		done[name] = b
		return b, nil
	}
	for name := range files {
		if _, err := m.File(name); err != nil {
			return err
		}
	}
	return write(filepath.Join(testdata, made), want)
}

// state returns the list, and the list of the files that were made last.
func state(testdata string) (want, have []byte, err error) {
	if want, err = os.ReadFile(filepath.Join(testdata, list)); err != nil {
		return nil, nil, err
	}
	if have, err = os.ReadFile(filepath.Join(testdata, made)); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return want, have, err
}

// complete reports whether the files of the list were made, and exist. Git removes them
// when it comes from a commit that has them.
func complete(testdata string, want, have []byte) bool {
	if !bytes.Equal(want, have) {
		return false
	}
	for name := range parse(want) {
		if _, err := os.Stat(filepath.Join(testdata, name)); err != nil {
			return false
		}
	}
	return true
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func unpack(m *Maker, testdata, name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(testdata, "packed", name+".pack"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	recipe, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	return m.Make(recipe)
}

// write makes a file complete or not at all.
func write(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".testpack-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
