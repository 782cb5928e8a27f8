package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// The requests to an automounter, from linux/auto_fs.h.
const (
	autofsReady = 0x9360 // AUTOFS_IOC_READY
	autofsFail  = 0x9361 // AUTOFS_IOC_FAIL
)

// TestAutomount mounts at an automounter's mount point, as systemd does for lines of fstab with
// x-systemd.automount. Until the automounter reports that the mount is ready, only its process
// group may pass, so a server with a session of its own would wait for itself.
func TestAutomount(t *testing.T) {
	dir := mountDir(t)
	below := openCovered(t, dir)
	var pipe [2]int
	must(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	asked := os.NewFile(uintptr(pipe[0]), "pipe")
	defer asked.Close()
	err := unix.Mount("test", dir, "autofs", 0, fmt.Sprintf("fd=%d,pgrp=%d,minproto=5,maxproto=5,direct", pipe[1], unix.Getpgrp()))
	must(t, unix.Close(pipe[1])) // the mount has it
	if err != nil {
		t.Skipf("NOT TESTED: an automounter, because autofs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	trap, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(trap)

	for _, hidden := range []bool{false, true, false} {
		below.put(t, hidden)
		cat := exec.CommandContext(t.Context(), "cat", filepath.Join(dir, "config.json"))
		cat.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // for it the automounter mounts
		read := make(chan []byte, 1)
		go func() {
			out, _ := cat.Output()
			read <- out
		}()
		token := make(chan uint32, 1)
		go func() {
			packet := make([]byte, 304) // struct autofs_v5_packet
			if _, err := asked.Read(packet); err != nil {
				t.Error(err)
			}
			token <- binary.NativeEndian.Uint32(packet[8:])
		}()
		number := int(testlimit.Receive(t, "request of the automounter", token))

		c := program(t, "mount", q8, dir)
		c.SysProcAttr = nil // it is in the group of the automounter
		mounted := make(chan error, 1)
		go func() {
			out, err := c.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			mounted <- err
		}()
		err := testlimit.Receive(t, "end of the mount command", mounted)
		answer := uint(autofsReady)
		if err != nil {
			answer = autofsFail
		}
		must(t, unix.IoctlSetInt(trap, answer, number))
		if hidden {
			if err == nil || !strings.Contains(err.Error(), "exit status 1: tensorfs: "+dir+": it is not empty; a mount hides") {
				t.Errorf("over what an automounter covers: %v", err)
			}
			testlimit.Receive(t, "cat", read)
			continue
		}
		must(t, err)
		_, want, _ := command("cat", q8, "config.json")
		if got := testlimit.Receive(t, "cat", read); string(got) != want {
			t.Errorf("read %q", got)
		}
		server := statusOf(t, dir).PID
		if session, err := unix.Getsid(server); err != nil || session != server {
			t.Errorf("the server is in session %d, %v; it is process %d", session, err, server)
		}
		if code, _, stderr := command("umount", dir); code != 0 || stderr != "" {
			t.Fatal(code, stderr)
		}
		ended(t, server)
	}
}

// covered is a directory on which an automounter waits.
type covered struct{ fd int }

func openCovered(t *testing.T, dir string) covered {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return covered{fd}
}

// put makes a directory in it, or removes it.
func (c covered) put(t *testing.T, there bool) {
	t.Helper()
	if there {
		must(t, unix.Mkdirat(c.fd, "mine", 0o755))
	} else if err := unix.Unlinkat(c.fd, "mine", unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		t.Fatal(err)
	}
}
