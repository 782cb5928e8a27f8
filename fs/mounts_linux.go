package fs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountTable is the mount table as this process sees it.
const mountTable = "/proc/self/mountinfo"

func readMounts() ([]MountInfo, error) {
	b, err := os.ReadFile(mountTable)
	if err != nil {
		return nil, fmt.Errorf("cannot read the mount table: %w", err)
	}
	var all []MountInfo
	for _, m := range parseMounts(string(b)) {
		m.port = m.number("port=")
		all = append(all, m.MountInfo)
	}
	return all, nil
}

// parseMounts reads the lines of mountinfo:
//
//	36 35 0:52 / /mnt/model ro,nosuid,nodev - fuse.tensorfs /models/a.gguf ro,user_id=0
//	id parent dev root mountpoint options [tags...] - type source options
//
// Fields are separated by one space. A space, tab, newline or backslash inside a
// field is escaped and everything else is as it was given: other white space, such
// as a carriage return or a no-break space, is part of a name. A field may be
// empty, such as the source of a mount made from "". Lines that do not look like
// this are skipped.
func parseMounts(table string) []mountLine {
	var all []mountLine
	for line := range strings.Lines(table) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		if !ok {
			continue
		}
		left, right := strings.Split(before, " "), strings.Split(after, " ")
		if len(left) < 6 || len(right) < 2 {
			continue
		}
		m := mountLine{root: unescape(left[3]), MountInfo: MountInfo{
			Mountpoint: unescape(left[4]),
			Source:     unescape(right[1]),
			Type:       unescape(right[0]),
			Device:     left[2],
		}}
		if len(right) > 2 {
			m.super = strings.Split(right[2], ",")
		}
		all = append(all, m)
	}
	return all
}

// mountLine is a line of mountinfo.
type mountLine struct {
	MountInfo
	root  string   // the directory of the file system that is mounted
	super []string // options of the file system, not only of this mount
}

// number returns the value of an option of the file system, 0 without one.
func (m *mountLine) number(key string) int {
	for _, opt := range m.super {
		if value, ok := strings.CutPrefix(opt, key); ok {
			n, _ := strconv.Atoi(value) // 0 for no number
			return n
		}
	}
	return 0
}

// unescape undoes the octal escapes of the mount table.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) {
			b.WriteByte(s[i+1]&7<<6 | s[i+2]&7<<3 | s[i+3]&7)
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(c byte) bool { return '0' <= c && c <= '7' }

// openParent opens a directory to lock it and to make and remove what is in it.
// One that cannot be read is not locked.
func openParent(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) {
		fd, err = unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	return fd, err
}

// dirID tells a directory from all others, also from later ones in its place.
func dirID(dir int, name string) (string, error) {
	var st unix.Statx_t
	if err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d %d %d.%09d", st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec), nil
}

// beneath opens the directory that is covered by what is mounted at a place.
func (p *place) beneath() (*os.File, error) {
	// A copy of the mount with the directory above has nothing mounted in it.
	above, err := unix.OpenTree(p.dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return nil, err
	}
	defer unix.Close(above)
	fd, err := unix.Openat(above, p.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), p.path), nil
}
