package server

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// replace replaces a standard file.
func replace(standard, f *os.File) error { return unix.Dup2(int(f.Fd()), int(standard.Fd())) }

// unnamed returns a file of this text that is nowhere but in memory: a pipe, which must
// have room for it.
func unnamed(text []byte) (*os.File, error) {
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		return nil, err
	}
	syscall.CloseOnExec(p[0])
	defer unix.Close(p[1])
	r := os.NewFile(uintptr(p[0]), "tensorfs")
	n := 0
	err := unix.SetNonblock(p[1], true)
	if err == nil {
		n, err = unix.Write(p[1], text)
	}
	if err == nil && n < len(text) {
		err = fmt.Errorf("the %d bytes of the variables for servers are too many", len(text))
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// startConfined starts the server without the descriptors that this process was
// given by its parent: a lock or a pipe among them would be held for as long as
// the mount lives.
func startConfined(server *exec.Cmd) error {
	if err := closeOnExec("/dev/fd"); err != nil {
		return err
	}
	return server.Start()
}
