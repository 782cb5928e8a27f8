// Package fewfiles ends the program with one line if so few files may be open
// that it cannot start. Import it only for that effect.
//
// The Go runtime and go-fuse, which opens a pipe while it is initialised, would
// panic. Packages are initialised in the order of their paths, those first whose
// imports are done; this one imports nothing but syscall so that it is done
// before any package that opens something.
package fewfiles

import "syscall"

// needed is how many descriptors the program has to be able to open at least: two
// for the poller of the runtime, two for a pipe, and one that go-fuse keeps if it is
// number 3, whereupon it opens another pipe. What it cannot open later is an error
// like others.
const needed = 5

const message = "tensorfs: too few files may be open at a time; raise the limit with 'ulimit -n 64'\n"

func init() {
	if canOpen(needed) {
		return
	}
	var limit syscall.Rlimit // the runtime raises the soft limit too, but later
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && limit.Cur < limit.Max {
		limit.Cur = limit.Max
		if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && canOpen(needed) {
			return
		}
	}
	_, _ = syscall.Write(2, []byte(message)) // there is no log yet
	syscall.Exit(1)
}

// canOpen reports whether n more descriptors can be had.
func canOpen(n int) bool {
	fds := make([]int, 0, needed)
	defer func() {
		for _, fd := range fds {
			_ = syscall.Close(fd) // it was ours, and nothing was written
		}
	}()
	for range n {
		fd, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err == syscall.EMFILE {
			return false
		}
		if err == nil {
			fds = append(fds, fd)
		}
	}
	return true
}
