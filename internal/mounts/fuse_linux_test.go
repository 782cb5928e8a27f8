package mounts

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A helper is in a process group of its own, so that what ends the server's (a
// Ctrl-C) does not end it between mounting and handing over the device.
func TestHelperIsApart(t *testing.T) {
	err := run(exec.Command("sh", "-c", `read -r pid name state parent group rest </proc/$$/stat; echo "group $group"; exit 1`))
	if err == nil || !strings.HasPrefix(err.Error(), "group ") || err.Error() == "group "+strconv.Itoa(unix.Getpgrp()) {
		t.Errorf("%v, ours is %d", err, unix.Getpgrp())
	}
}

func TestMountErrors(t *testing.T) {
	for err, want := range map[error]string{
		deviceError(unix.ENOENT):                                    fuseDevice,
		run(exec.Command("sh", "-c", "echo a; echo b >&2; exit 1")): "b",
		run(exec.Command("false")):                                  "exit status 1",
	} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want something of %q", err, want)
		}
	}
	if err := run(exec.Command("sh", "-c", "echo Device or resource busy; exit 1")); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("%v", err)
	}
	if err := run(exec.Command("true")); err != nil {
		t.Error(err)
	}
	if got := escapeOption(`a,b\c`); got != `a\,b\\c` {
		t.Error(got)
	}
}

// Advice is the end of a message: the text of an errno behind it is a riddle.
func TestAdviceIsTheEnd(t *testing.T) {
	for err, cause := range map[error]syscall.Errno{
		deviceError(unix.ENOENT):                 unix.ENOENT,
		deviceError(unix.EACCES):                 unix.EACCES,
		deviceError(unix.EMFILE):                 unix.EMFILE,
		unmountError("/m", unix.EBUSY):           unix.EBUSY,
		mountpointError("/a/b/c", unix.EACCES):   unix.EPERM, // any that is os.ErrPermission
		Advised{"leave it out", unix.EOPNOTSUPP}: unix.EOPNOTSUPP,
	} {
		text := err.Error()
		if !errors.Is(err, cause) && !errors.Is(err, os.ErrPermission) {
			t.Errorf("%s: not %v", text, cause)
		}
		if strings.HasSuffix(text, cause.Error()) && cause != unix.EMFILE || strings.HasSuffix(text, "permission denied") {
			t.Errorf("%s", text)
		}
	}
}

// TestDeviceAdvice: the advice to load the module is given only if it can help.
func TestDeviceAdvice(t *testing.T) {
	for _, c := range []struct {
		err               error
		container, loaded bool
		want              string
	}{
		{unix.ENOENT, false, false, "modprobe fuse"},
		{unix.ENODEV, false, false, "modprobe fuse"},
		{unix.ENOENT, false, true, "mknod"},
		{unix.ENOENT, true, false, "--device /dev/fuse"},
		{unix.ENOENT, true, true, "--device /dev/fuse"},
		{unix.EPERM, true, true, "--device /dev/fuse"},
		{unix.EACCES, false, true, "run as root"},
		{unix.EMFILE, true, true, fuseDevice},
	} {
		got := deviceAdvice(c.err, c.container, c.loaded)
		if !strings.Contains(got, c.want) || strings.Contains(got, "modprobe") && (c.container || c.loaded) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
