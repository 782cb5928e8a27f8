package server

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/nfsstate"
)

// errNoPlace is the error that the user's session has no directory.
var errNoPlace = errors.New("without XDG_RUNTIME_DIR there is no place for one of its own")

// runtimePlaces returns the directory of mounts that have only a name, and where umount finds them
// again: below the directory of the user's session, which goes with it.
func runtimePlaces() (string, error) {
	dir, err := nfsstate.RuntimeDir()
	if err == nil && dir == "" {
		err = errNoPlace
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, mounts.Program), nil
}

// PlaceFor makes the directory for mounts without a MOUNTPOINT, and returns the
// mount point of a model there. Another model of the same name gets another one.
func PlaceFor(model string) (string, error) {
	dir, err := runtimePlaces()
	if err == nil {
		if err = os.Mkdir(dir, 0o700); err == nil || errors.Is(err, iofs.ErrExist) {
			if err = nfsstate.Own(dir, nfsstate.Unshared); err != nil {
				err = fmt.Errorf("%s: %w", tensorfs.Printable(dir), err)
			}
		}
	}
	if err != nil {
		why := ""
		if !errors.Is(err, errNoPlace) || runtime.GOOS == "linux" { // macOS has no such directory
			why = ": " + err.Error()
		}
		return "", cli.UsageError{Err: errors.New("name a MOUNTPOINT, such as ~/m" + why + "; usage: tensorfs mount MODEL MOUNTPOINT")}
	}
	name := placeName(model)
	place := filepath.Join(dir, name)
	for n := 2; ; n++ {
		m, err := mounts.At(place)
		if err != nil || m == nil || m.Source == model {
			return place, nil // mounting there reports what is wrong with it
		}
		place = filepath.Join(dir, fmt.Sprintf("%s-%d", name, n))
	}
}

// maxPlace is how long the name of a mount may be, with room for a number.
const maxPlace = 240

// placeName is the name of a model's mount: its file or directory without the usual ends,
// or its name in the store. It is always one name of a directory: without one the mount
// would hide all others.
func placeName(model string) string {
	name := filepath.ToSlash(model)
	if formats.IsName(model) {
		name, _, _ = strings.Cut(name, "?")
		name, _, _ = strings.Cut(name, "#")
	}
	if slices.Contains(library.Stores, model) {
		name = strings.TrimSuffix(model, ":")
	}
	for _, cut := range formats.Stores() {
		name = strings.TrimPrefix(name, cut)
	}
	name = path.Base(name)
	for _, cut := range []string{".gguf", ".safetensors"} {
		if name != cut {
			name = strings.TrimSuffix(name, cut)
		}
	}
	if len(name) > maxPlace {
		name = strings.ToValidUTF8(name[:maxPlace], "")
	}
	if !isPlaceName(name) {
		return "model"
	}
	return name
}

// isPlaceName reports whether a text is the name of one directory in another.
func isPlaceName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.Contains(name, "/")
}

// MountpointOf returns the mount point that an argument of umount names: a directory,
// or the name of a mount in the place for those without one. It touches no mount,
// whose server may hang.
func MountpointOf(arg string) string {
	dir, err := runtimePlaces()
	if err != nil || !isPlaceName(arg) || isTensorfs(arg) {
		return arg
	}
	if place := filepath.Join(dir, arg); isTensorfs(place) {
		return place
	}
	return arg
}

func isTensorfs(path string) bool {
	m, err := mounts.At(path)
	return err == nil && m != nil
}
