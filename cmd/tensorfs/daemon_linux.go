package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

func replaceStderr(f *os.File) error { return unix.Dup3(int(f.Fd()), int(os.Stderr.Fd()), 0) }

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
		// The flag belongs to a thread, and a child inherits that of the thread
		// which starts it. The thread is not unlocked: it ends with this goroutine.
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			started <- fmt.Errorf("no_new_privs: %w", err)
			return
		}
		started <- server.Start()
	}()
	return <-started
}
