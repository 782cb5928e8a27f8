package source

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bringIn has the kernel read a range of the file into the page cache without waiting
// for it, unless it seems to be there already.
func (m *Mapped) bringIn(from, to int64) {
	if !m.cached(from, to) {
		advise(m.fd, m.step(), from, to)
	}
}

// advise has the kernel read the pages of a range that are not in the page cache.
func advise(fd int, step, from, to int64) {
	for ; from < to; from += step {
		_ = unix.Fadvise(fd, from, min(step, to-from), unix.FADV_WILLNEED) // it is only advice
	}
}

// readAheadOf returns how much the kernel reads for one call of advise: no more than
// the read-ahead of the file's disk, or than the disk's largest request, if that is
// more. Where the read-ahead is not known it is the usual one.
func readAheadOf(fd int) int64 {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return leastAdvised
	}
	text, _ := os.ReadFile(fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(st.Dev), unix.Minor(st.Dev)))
	kib, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
	return max(kib<<10, leastAdvised)
}

// leastRate is the least number of bytes per second that the kernel's read-ahead must reach.
const leastRate = 512 << 20

// Slow reports whether a program that the kernel gives this file's pages would wait most of
// the time: the file is not in memory, and its disk takes so long to answer that the kernel's
// read-ahead, one request at a time, stays below 512 MiB per second. Network disks are like
// that. It reads in two places, because a single read may be slow by chance.
func (m *Mapped) Slow() bool {
	longest := time.Duration(m.step()) * time.Second / leastRate
	slow := 0
	for i := int64(1); i < 8 && slow < 2 && m.Size() > 0; i += 2 {
		at := m.Size() / 8 * i
		if m.cachedAt(at) {
			continue
		}
		var b [1]byte
		began := time.Now()
		if _, err := unix.Pread(m.fd, b[:], at); err != nil || time.Since(began) < longest {
			return false // the reader meets the error
		}
		slow++
	}
	return slow > 0
}

// cachedStep is how far apart the pages are by which cached judges.
const cachedStep = 512 << 10

// cached reports whether the bytes [from, to), which must not be empty, seem to be in the
// page cache: it checks the last page, which is read last, and samples before it.
func (m *Mapped) cached(from, to int64) bool {
	for at := to - 1; at >= from; at -= cachedStep {
		if !m.cachedAt(at) {
			return false
		}
	}
	return true
}

// cachedAt reports whether the page at off is in the page cache. mincore tells that only to
// the file's owner and users who may write to it; for all other users it reports every page
// as present. For them, cachedAt tries a read that does not wait: if the page is missing,
// the kernel begins to read it, and treats the place as a possible continuation of a
// stream. Some file systems, such as tmpfs and overlayfs, lack such reads; mincore's answer
// has to do.
func (m *Mapped) cachedAt(off int64) bool {
	if m.tells() {
		return m.resident(off)
	}
	var b [1]byte
	part := unix.Iovec{Base: &b[0], Len: 1}
	n, _, err := unix.Syscall6(unix.SYS_PREADV2, uintptr(m.fd), uintptr(unsafe.Pointer(&part)), 1, uintptr(off), uintptr(off>>32), unix.RWF_NOWAIT)
	if err == unix.EOPNOTSUPP {
		return m.resident(off)
	}
	return err == 0 && n == 1
}

// resident asks mincore.
func (m *Mapped) resident(off int64) bool {
	var b [1]byte
	page := &m.mem[off&^int64(os.Getpagesize()-1)]
	_, _, err := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(page)), 1, uintptr(unsafe.Pointer(&b[0])))
	return err == 0 && b[0]&1 != 0
}

// tells reports whether mincore tells this process what is in memory.
func (m *Mapped) tells() bool {
	m.told.Do(func() {
		var st unix.Stat_t
		user := uint32(os.Geteuid())
		m.residing = user == 0 || unix.Fstat(m.fd, &st) == nil && st.Uid == user ||
			unix.Faccessat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(m.fd), unix.W_OK, unix.AT_EACCESS) == nil
	})
	return m.residing
}
