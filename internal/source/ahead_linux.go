package source

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// bringIn has the kernel read a range of the file fd into the page cache, step bytes
// at a time and without waiting for it, unless it seems to be there already.
func bringIn(fd int, step, from, to int64) {
	if !cached(fd, from) || !cached(fd, from+(to-from)/2) || !cached(fd, to-1) {
		advise(fd, step, from, to)
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

// cached reports whether the page at off is in the page cache. mincore would say
// that only to the file's owner.
func cached(fd int, off int64) bool {
	var b [1]byte
	n, err := unix.Preadv2(fd, [][]byte{b[:]}, off, unix.RWF_NOWAIT)
	return err == nil && n == 1
}
