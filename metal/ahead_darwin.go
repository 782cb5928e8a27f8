package metal

import "golang.org/x/sys/unix"

// aheadStep is how far apart the bytes are that readAhead waits for.
const aheadStep = 128 << 10

// readAhead has the system read a part of a file that is mapped, at most maxPiece
// bytes, and waits for it. The touch of a mapping would do that too, but a page
// fault keeps a processor of Go's scheduler waiting, which a system call does not.
//
// It opens the file again: a tree has more files than a process may have open. A failure
// here happens again when the mapping is touched, with an error that explains it.
func readAhead(file file, off, n int64) {
	f, err := file.Open()
	if err != nil {
		return
	}
	defer f.Close()
	// F_RDADVISE takes a struct radvisory: an offset of 64 bits and a count of 32,
	// which are Start and the lower half of Len.
	_ = unix.FcntlFlock(f.Fd(), unix.F_RDADVISE, &unix.Flock_t{Start: off, Len: n}) // only advice
	var b [1]byte
	for end := off + n; off < end && err == nil; off += aheadStep {
		_, err = f.ReadAt(b[:], off)
	}
}
