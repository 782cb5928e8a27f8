package mounts

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The relation of processes to a mount is looked up in /proc, because a hanging server
// cannot be asked. Only root sees it for other users' processes.

// processes calls do for every process that can be inspected, until it returns
// false.
func processes(do func(pid int, dir string) bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && !do(pid, filepath.Join("/proc", e.Name())) {
			return
		}
	}
}

// Server returns the process that serves a mount, without asking it; 0 if unknown.
func (m *Mount) Server() int {
	if m.Token != "" {
		return m.nfsServer()
	}
	found := 0
	_, connection, _ := strings.Cut(m.Device, ":") // FUSE numbers its connections by the device
	processes(func(pid int, dir string) bool {
		fds, err := filepath.Glob(dir + "/fd/*")
		if err != nil {
			return true
		}
		for _, fd := range fds {
			if target, err := os.Readlink(fd); err != nil || target != fuseDevice {
				continue
			}
			if serves(dir, filepath.Base(fd), connection, m.Mountpoint) {
				found = pid
				return false
			}
		}
		return true
	})
	return found
}

// serves reports whether a descriptor of the device belongs to a connection. Older kernels
// do not tell: then it uses the command line that mount starts its server with, which ends
// in the mount point.
func serves(dir, fd, connection, mountpoint string) bool {
	info, err := os.ReadFile(filepath.Join(dir, "fdinfo", fd))
	if err != nil {
		return false
	}
	if _, rest, ok := bytes.Cut(info, []byte("fuse_connection:")); ok {
		number, _, _ := bytes.Cut(rest, []byte("\n"))
		return string(bytes.TrimSpace(number)) == connection
	}
	args, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	return err == nil && bytes.HasSuffix(args, []byte("\x00"+mountpoint+"\x00"))
}

// Elsewhere returns where else the file system of a mount is mounted: bind mounts,
// and copies in the mount namespaces of other processes. Its server goes on as
// long as there is one.
func (m *Mount) Elsewhere() []Copy {
	var copies []Copy
	seen := map[string]bool{}
	look := func(pid int, dir string) bool {
		namespace, err := os.Readlink(dir + "/ns/mnt")
		if err != nil || seen[namespace] {
			return true
		}
		seen[namespace] = true
		table, err := os.ReadFile(dir + "/mountinfo")
		if err != nil {
			return true
		}
		for _, other := range ParseTable(string(table)) {
			// A new mount of another model may have got the number of one that ended.
			if other.Device == m.Device && other.Source == m.Source && (pid != 0 || other.Mountpoint != m.Mountpoint) {
				copies = append(copies, Copy{other.Mountpoint, pid})
			}
		}
		return true
	}
	look(0, "/proc/self")
	processes(look)
	return copies
}
