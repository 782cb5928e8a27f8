package source

import "golang.org/x/sys/unix"

// bringIn has the kernel read a range of the file fd into the page cache, without
// waiting for it. The pages that are there already cost nothing.
func bringIn(fd int, from, to int64) {
	if cached(fd, from) && cached(fd, from+(to-from)/2) && cached(fd, to-1) {
		return
	}
	for ; from < to; from += advised {
		_ = unix.Fadvise(fd, from, min(advised, to-from), unix.FADV_WILLNEED) // it is only advice
	}
}

// advised is how much is asked for at a time: the kernel reads no more for one call
// than its read-ahead or the disk's largest request, whichever is more.
const advised = 128 << 10

// cached reports whether the page at off is in the page cache. mincore would say
// that only to the file's owner.
func cached(fd int, off int64) bool {
	var b [1]byte
	n, err := unix.Preadv2(fd, [][]byte{b[:]}, off, unix.RWF_NOWAIT)
	return err == nil && n == 1
}
