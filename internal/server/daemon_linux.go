package server

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// replace replaces a standard file.
func replace(standard, f *os.File) error { return unix.Dup3(int(f.Fd()), int(standard.Fd()), 0) }

// unnamed returns a file of this text that is nowhere but in memory.
func unnamed(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("tensorfs", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "tensorfs")
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// startConfined starts the server without the descriptors that this process was
// given by its parent: a lock or a pipe among them would be held for as long as
// the mount lives.
//
// Root's server also gives up the right to gain privileges from programs that it
// runs (no_new_privs). An ordinary user's keeps it, because it unmounts through
// fusermount3, which is setuid. The server is not confined by landlock: the kernel
// refuses mount(2) and umount(2) to confined processes, so root's could not unmount,
// and for others landlock requires no_new_privs.
func startConfined(server *exec.Cmd) error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		if err := closeOnExec("/proc/self/fd"); err != nil { // before Linux 5.11
			return err
		}
	}
	if os.Geteuid() != 0 {
		return server.Start()
	}
	started := make(chan error)
	go func() {
		// The flag belongs to a thread, and a child inherits it from the thread that starts
		// it. The thread is not unlocked: it ends with this goroutine.
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			started <- fmt.Errorf("no_new_privs: %w", err)
			return
		}
		started <- server.Start()
	}()
	return <-started
}
