package mounts

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// What is in a directory cannot be seen while something is mounted on it. So a mount point
// is empty, unless the user explicitly allows otherwise, and is never a directory that the
// system or a session needs.

// forMounts are the directories below the root that are made to be mounted on.
var forMounts = []string{"/mnt", "/media", "/srv", "/opt"}

// passwd has the home directories of the users of this machine.
const passwd = "/etc/passwd"

// needed returns why no model is ever mounted at a path without links, "" if it may be.
func needed(path string) string {
	switch {
	case path == "/":
		return "a model mounted there could not be reached"
	case slices.Contains(forMounts, path):
		if isEmpty(path) != nil {
			return "it is not empty, and others mount below it"
		}
	case filepath.Dir(path) == "/":
		return "a directory at the top belongs to the system"
	}
	users, _ := os.ReadFile(passwd) // there may be none
	if slices.Contains(homes(os.Getenv("HOME"), string(users)), path) {
		return "it is a home directory, and a mount would hide what is in it"
	}
	return ""
}

// homes are the home directories of this process and of all users, without links.
func homes(own, passwd string) []string {
	all := []string{own}
	for line := range strings.Lines(passwd) {
		if f := strings.Split(line, ":"); len(f) == 7 {
			all = append(all, f[5])
		}
	}
	var known []string
	for _, home := range all {
		if !filepath.IsAbs(home) {
			continue
		}
		known = append(known, filepath.Clean(home))
		if real, err := filepath.EvalSymlinks(home); err == nil {
			known = append(known, real)
		}
	}
	return known
}

var (
	// ErrNotEmpty is the error that a directory is not empty.
	ErrNotEmpty = errors.New("it is not empty")
	// errUnseen is the error that it cannot be read.
	errUnseen = errors.New("it cannot be seen whether it is empty")
)

// isEmpty returns why a directory is not empty, or not known to be.
func isEmpty(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return errUnseen
	}
	defer d.Close()
	return holdsNothing(d)
}

// holdsNothing is isEmpty for an open directory.
func holdsNothing(d *os.File) error {
	switch _, err := d.Readdirnames(1); {
	case err == nil:
		return ErrNotEmpty
	case err != io.EOF:
		return errUnseen
	}
	return nil
}

// isEmpty returns why the directory of a mount point is not empty. Where an automounter waits,
// that is what it covers: to look inside would wake it.
func (p *Point) isEmpty(automounted bool) error {
	if !automounted {
		return isEmpty(p.Path)
	}
	d, err := p.beneath()
	if err != nil { // only root and newer systems can look there
		return nil
	}
	defer d.Close()
	return holdsNothing(d)
}

// refusedPlace is the error for a path on which no model is mounted.
func refusedPlace(path, why string) error {
	return fmt.Errorf("%s: %s; choose another directory, such as /mnt/model or ~/m", tensorfs.Printable(path), why)
}
