package main

import (
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

func replaceStderr(f *os.File) error { return unix.Dup2(int(f.Fd()), int(os.Stderr.Fd())) }

// startConfined starts the server without the descriptors that this process was
// given by its parent: a lock or a pipe among them would be held for as long as
// the mount lives.
func startConfined(server *exec.Cmd) error {
	if err := closeOnExec("/dev/fd"); err != nil {
		return err
	}
	return server.Start()
}
