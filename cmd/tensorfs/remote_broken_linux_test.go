package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testweb"
)

// Row 11: a server that is broken fails reads in time, and nothing else, until it is
// repaired.
func TestRemoteBroken(t *testing.T) {
	apart(t)
	const size = 20 << 20
	file := newMadeFile(2, size)
	s := testweb.New(t)
	s.Put("/m.safetensors", file)
	dir := mountedFar(t, s.URL+"/m.safetensors", "--timeout", "2s")
	read := func(i int, off int64) error { return file.sameIn(dir, i, size, off, os.O_RDONLY) }
	if err := read(0, 0); err != nil {
		t.Fatal(err)
	}
	s.Break(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	s.Reset()
	failed := make(chan error, 1)
	go func() { failed <- read(1, size-8192) }()
	testlimit.Wait(t, "request", func() bool { return len(s.Requests()) > 0 })
	if err := read(0, 8192); err != nil { // it came with the first
		t.Errorf("what is here: %v", err)
	}
	if err := <-failed; !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ETIMEDOUT) {
		t.Error(err)
	}
	s.Break(nil)
	testlimit.Wait(t, "repair", func() bool { return read(1, size-8192) == nil })
	says := func(st *mountStatus) bool { // the second where the time was over while it was asked once more
		return slices.ContainsFunc([]string{"the server answers 500 Internal Server Error", "the server sent nothing in time"}, func(text string) bool {
			return strings.Contains(st.Errors[0].Message, text)
		})
	}
	if st := statusOf(t, dir); st == nil || st.State != "ok" || len(st.Errors) == 0 || !says(st) {
		t.Errorf("status %+v", st)
	}
}

// Row 12: a server that does not answer stops only its own readers, and a signal ends the wait,
// although the kernel waits for its read-ahead.
func TestRemoteSilent(t *testing.T) {
	apart(t)
	const size = 64 << 20
	file := newMadeFile(2, size)
	s := testweb.New(t)
	s.Put("/m.safetensors", file)
	dir := mountedFar(t, s.URL+"/m.safetensors")
	near := filepath.Join(dir, "raw/t0")
	first := func() error {
		b, err := exec.Command("dd", "if="+near, "bs=4096", "count=1", "iflag=direct", "status=none").Output()
		if err == nil && !bytes.Equal(b, file.tensor(0, size, 0, 4096)) {
			err = errors.New("wrong bytes")
		}
		return err
	}
	if err := first(); err != nil {
		t.Fatal(err)
	}
	silent := make(chan struct{})
	s.Break(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
		return false
	})
	defer close(silent)
	s.Reset()
	for i := range 24 {
		c := exec.Command("dd", "if="+filepath.Join(dir, "raw/t1"), "bs=4096", "count=1", fmt.Sprintf("skip=%d", i*512), "status=none")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		}()
	}
	testlimit.Wait(t, "requests", func() bool { return len(s.Requests()) >= 8 })
	if err := first(); err != nil {
		t.Errorf("what is here: %v", err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Log("NOT TESTED: there is no python3 to interrupt")
		return
	}
	c := exec.Command(python, "-c", `
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    f = open(sys.argv[1], "rb", buffering=0)
    f.seek(1 << 20)
    print("reading", flush=True)
    f.read(1 << 20)
except KeyboardInterrupt:
    print("interrupted")
`, near)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("reading\n"))
	if _, err := io.ReadFull(out, line); err != nil {
		t.Fatal(err)
	}
	testlimit.Wait(t, "Python's read", func() bool { return waitsInRead(c.Process.Pid) })
	_ = c.Process.Signal(syscall.SIGINT)
	rest, _ := io.ReadAll(out)
	if err := c.Wait(); err != nil || string(rest) != "interrupted\n" {
		t.Errorf("Python: %q, %v", rest, err)
	}
}

// waitsInRead reports whether a process waits in read(2), as far as that can be seen.
func waitsInRead(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
	return err != nil || strings.HasPrefix(string(b), fmt.Sprint(syscall.SYS_READ)+" ")
}
