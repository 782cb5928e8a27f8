package fs

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// mountTable is the mount table as this process sees it.
const mountTable = "/proc/self/mountinfo"

// Mounts lists the tensorfs mounts in the order of mounting. It touches none of
// them, so it does not hang on one whose server does.
func Mounts() ([]MountInfo, error) {
	all, err := readMounts()
	if err != nil {
		return nil, err
	}
	var ours []MountInfo
	for _, m := range all {
		if m.ours() {
			ours = append(ours, m)
		}
	}
	return ours, nil
}

func readMounts() ([]MountInfo, error) {
	b, err := os.ReadFile(mountTable)
	if err != nil {
		return nil, fmt.Errorf("cannot read the mount table: %w", err)
	}
	var all []MountInfo
	for _, m := range parseMounts(string(b)) {
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

// resolve returns the absolute path without links. It does not touch a mount at
// the path itself, whose server may be gone.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return path, err
	}
	for range 40 { // as many links as the kernel follows
		if path == "/" {
			return path, nil
		}
		parent, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return path, err
		}
		path = filepath.Join(parent, filepath.Base(path))
		if m, err := mountedAt(path); err != nil || m != nil {
			return path, err
		}
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil // not a link, or not there: the caller finds out
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(parent, target)
		}
		path = target
	}
	return path, fmt.Errorf("%s: %w", path, syscall.ELOOP)
}

// cleanStale is CleanStale without removing the directory.
func cleanStale(mountpoint string) (bool, error) {
	path, err := resolve(mountpoint)
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, mountpointError(path, err)
	}
	m, err := mountedAt(path)
	if err != nil || m == nil || !m.ours() || !stale(path) {
		return false, err
	}
	// Lazily: a program that has its working directory there would be in the way,
	// and there is nothing to wait for.
	if err := unmountNow(path, true); err != nil {
		return false, fmt.Errorf("%s: its server is gone and the mount cannot be removed: %w", tensorfs.Printable(path), err)
	}
	return true, nil
}

// stale reports whether the server of a mount is gone. A server that hangs is not
// gone: the probe waits for it no longer than probeTime.
func stale(path string) bool {
	gone := make(chan bool, 1)
	go func() {
		var st unix.Statfs_t // never answered from a cache
		err := unix.Statfs(path, &st)
		if errors.Is(err, unix.ECONNABORTED) { // it ended while it was asked
			err = unix.Statfs(path, &st)
		}
		gone <- errors.Is(err, unix.ENOTCONN)
	}()
	select {
	case g := <-gone:
		return g
	case <-time.After(probeTime):
		return false
	}
}

// MountAt returns the tensorfs mount at a path, nil where there is none. It does
// not touch the mount.
func MountAt(path string) (*MountInfo, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, mountpointError(path, err)
	}
	m, err := mountedAt(path)
	if err != nil || m == nil || !m.ours() {
		return nil, err
	}
	return m, nil
}

// UnmountPath unmounts the tensorfs at a path, which another process may be
// serving. It fails with an error that wraps syscall.EBUSY while the mount is
// in use, unless lazy. A directory that the server made for the mount is removed.
func UnmountPath(mountpoint string, lazy bool) error {
	path, err := resolve(mountpoint)
	if err != nil {
		return mountpointError(path, err)
	}
	m, err := mountedAt(path)
	if err != nil {
		return err
	}
	if m == nil || !m.ours() {
		if _, err := os.Lstat(path); err != nil {
			return mountpointError(path, err)
		}
		return fmt.Errorf("%s: no tensorfs is mounted there; tensorfs status lists the mounts", tensorfs.Printable(path))
	}
	if err := unmount(path, lazy); err != nil {
		return err
	}
	leavePlace(path, "")
	return nil
}

// ours reports whether it is a tensorfs.
func (m *MountInfo) ours() bool { return m.Type == fsType }

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
