package main

import (
	"errors"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/mounts"
)

// runtimePlace returns where a mount goes by its name alone, and where umount finds
// it again: below the directory of the user's session, which is his alone and goes
// with it. It is "" if the user has no such directory.
func runtimePlace(name string) string {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) { // as its specification says
		return ""
	}
	return filepath.Join(dir, "tensorfs", name)
}

// placeFor makes the directory for mounts without a MOUNTPOINT, and returns the
// mount point of a model there.
func placeFor(model string) (string, error) {
	place := runtimePlace(placeName(model))
	if place == "" {
		return "", usageError{errors.New("name a MOUNTPOINT, such as ~/m" + messages[runtime.GOOS].noPlace + "; usage: tensorfs mount MODEL MOUNTPOINT")}
	}
	if err := os.Mkdir(filepath.Dir(place), 0o700); err != nil && !errors.Is(err, iofs.ErrExist) {
		return "", err
	}
	return place, nil
}

// placeName is the name of a model's mount: that of its file or directory without
// what all have, or that in the store.
func placeName(model string) string {
	name := path.Base(filepath.ToSlash(model))
	for _, cut := range formats.Stores() {
		name = strings.TrimPrefix(name, cut)
	}
	for _, cut := range []string{".gguf", ".safetensors"} {
		name = strings.TrimSuffix(name, cut)
	}
	return name
}

// mountpointOf returns the mount point that an argument of umount names: a directory,
// or the name of a mount in the place for those without one. It touches no mount,
// whose server may hang.
func mountpointOf(arg string) string {
	place := runtimePlace(arg)
	if place == "" || strings.Contains(arg, "/") || isTensorfs(arg) || !isTensorfs(place) {
		return arg
	}
	return place
}

func isTensorfs(path string) bool {
	m, err := mounts.At(path)
	return err == nil && m != nil
}
