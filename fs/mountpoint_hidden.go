package fs

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

// What is in a directory cannot be seen while something is mounted on it. So a mount
// point is empty, unless its user says that he knows better, and is never a directory
// that the system or somebody's session needs.

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

// errNotEmpty says that a directory has something in it.
var errNotEmpty = errors.New("it is not empty")

// isEmpty returns why a directory is not empty, or not known to be.
func isEmpty(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("it cannot be seen whether it is empty")
	}
	defer d.Close()
	switch _, err := d.Readdirnames(1); {
	case err == nil:
		return errNotEmpty
	case err != io.EOF:
		return fmt.Errorf("it cannot be seen whether it is empty")
	}
	return nil
}

// refusedPlace is the error for a path on which no model is mounted.
func refusedPlace(path, why string) error {
	return fmt.Errorf("%s: %s; choose another directory, such as /mnt/model or ~/m", tensorfs.Printable(path), why)
}
