package source

import "golang.org/x/sys/unix"

// bringIn has the kernel read a range of the file fd into the page cache, without
// waiting for it, unless it seems to be there already.
func bringIn(fd int, from, to int64) {
	if !cached(fd, from) || !cached(fd, from+(to-from)/2) || !cached(fd, to-1) {
		advise(fd, from, to)
	}
}

// advise has the kernel read what is not in the page cache of a range.
func advise(fd int, from, to int64) {
	for ; from < to; from += advised {
		_ = unix.Fadvise(fd, from, min(advised, to-from), unix.FADV_WILLNEED) // it is only advice
	}
}

// cached reports whether the page at off is in the page cache. mincore would say
// that only to the file's owner.
func cached(fd int, off int64) bool {
	var b [1]byte
	n, err := unix.Preadv2(fd, [][]byte{b[:]}, off, unix.RWF_NOWAIT)
	return err == nil && n == 1
}
