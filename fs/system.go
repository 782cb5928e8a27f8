package fs

import (
	"path"
	"runtime"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs/internal/mounts"
)

// system is what depends on the kernel that asks, and on the programs that come with
// it.
type system struct {
	// blksize is the st_blksize of everything.
	blksize uint32
	// opensBoth marks that the kernel may open files for reading and writing even if the
	// reader asked for less.
	opensBoth bool
	// options are mount options that every mount of a model has.
	options func(fsName string) []string
}

// systems has a row for every system.
var systems = map[string]*system{
	"linux": {
		blksize: block,
		options: func(string) []string { return nil }, // flags of mount(2)
	},
	"darwin": {
		// macFUSE reads in pieces of st_blksize bytes unless that is 0, and otherwise in
		// pieces of iosize bytes, an option of the mount, which is maxRequest.
		blksize: 0,
		// macFUSE's FSKit backend always does.
		opensBoth: true,
		options:   macOptions,
	},
}

// thisSystem is the row of the system that the program runs on.
var thisSystem = systems[runtime.GOOS]

// opens reports whether a file may be opened with these flags. The mount is
// read-only, and every write fails, however the file was opened.
func (s *system) opens(flags uint32) bool {
	switch flags & syscall.O_ACCMODE {
	case syscall.O_RDONLY:
		return true
	case syscall.O_RDWR:
		return s.opensBoth && flags&syscall.O_TRUNC == 0
	}
	return false
}

// macOptions are options of macFUSE. Finder neither lists the volume nor looks for
// places to keep its notes.
func macOptions(fsName string) []string {
	return []string{"rdonly", "nosuid", "nodev", "noexec", "nobrowse", "noappledouble", "noapplexattr", "volname=" + volumeName(fsName)}
}

// maxVolumeName is how many bytes of a volume's name macOS shows.
const maxVolumeName = 255

// volumeName is the name of a model's volume: its file or directory, or its name in the
// store, with a - for characters with a meaning in paths or options.
func volumeName(fsName string) string {
	name := path.Base(fsName)
	for _, cut := range []string{".gguf", ".safetensors"} {
		name = strings.TrimSuffix(name, cut)
	}
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/:,\`, r) || r == utf8.RuneError || !unicode.IsPrint(r) {
			return '-'
		}
		return r
	}, name)
	for len(name) > maxVolumeName {
		_, n := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-n]
	}
	if strings.Trim(name, "-. ") == "" {
		return mounts.Program
	}
	return name
}
