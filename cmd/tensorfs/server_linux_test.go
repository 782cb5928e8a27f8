package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// A server in the background keeps nothing of the process that started it: no
// descriptor, no environment, and as root no way to more rights.
func TestServerKeepsNothing(t *testing.T) {
	dir := mountDir(t)
	lock, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	c := program(t, "mount", q8, dir)
	c.ExtraFiles = []*os.File{lock, lock}
	c.Env = append(c.Env, "SECRET=tiger", "OLLAMA_MODELS=/models", "HF_TOKEN=tiger")
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	pid := statusOf(t, dir).PID
	proc := "/proc/" + strconv.Itoa(pid)

	lock.Close()
	again, err := os.Open(lock.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := unix.Flock(int(again.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("the server holds a lock: %v", err)
	}
	environ, err := os.ReadFile(proc + "/environ")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(environ), "tiger") || !strings.Contains(string(environ), "OLLAMA_MODELS=/models") || !strings.Contains(string(environ), "PATH=") {
		t.Errorf("environment: %q", environ)
	}
	threads, err := filepath.Glob(proc + "/task/*/status")
	if err != nil || len(threads) == 0 {
		t.Fatal(err, len(threads))
	}
	want := "NoNewPrivs:\t0"
	if os.Geteuid() == 0 {
		want = "NoNewPrivs:\t1"
	}
	for _, path := range threads {
		b, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(b), want) {
			t.Errorf("%s lacks %q", path, want)
		}
	}
}

// A reader of a mount command's output reaches its end, whatever descriptors
// the command was given.
func TestMountInSubstitution(t *testing.T) {
	dir := mountDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), testlimit.Patience)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(ctx, "sh", "-c", `x=$("$@" 3>&1 4>&1); echo "done$x"`, "sh", self, "mount", q8, dir)
	c.WaitDelay = time.Second
	if out, err := c.CombinedOutput(); err != nil || string(out) != "done\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// Many readers at once do not make many threads.
func TestThreads(t *testing.T) {
	dir := mounted(t, q8)
	pid := statusOf(t, dir).PID
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			view := []string{"raw", "f16", "fused-f16", "npy"}[i%4]
			files, err := filepath.Glob(filepath.Join(dir, view, "*"))
			if err != nil || len(files) == 0 {
				t.Errorf("%s: %d files, %v", view, len(files), err)
			}
			for range 3 {
				for _, path := range files {
					fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT, 0) // past the kernel's cache
					if err != nil {
						t.Error(err)
						return
					}
					f := os.NewFile(uintptr(fd), path)
					if _, err := io.Copy(io.Discard, f); err != nil {
						t.Error(err)
					}
					f.Close()
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	most := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(2 * time.Millisecond):
		}
		threads, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(threads))
	}
	if most == 0 || most > 48 {
		t.Errorf("%d threads for 64 readers", most)
	}
}

// However few files may be open, the answer is either the right one or a one-line error.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	dir := mountDir(t)
	refused := 0
	for n := 5; n <= 24; n++ {
		for i, args := range [][]string{{"ls", q8}, {"mount", q8, dir}, {"ls", q8}} {
			c := program(t, args...)
			if i == 2 {
				// Where the runtime keeps a file of its control group open, that is descriptor 3;
				// where it does not, go-fuse takes 3 and needs one more.
				c.Env = append(c.Env, "GODEBUG=containermaxprocs=0")
			}
			c.Args = append([]string{"sh", "-c", `ulimit -n "$0"; exec "$@"`, strconv.Itoa(n), c.Path}, args...)
			c.Path = "/bin/sh"
			var stderr bytes.Buffer
			c.Stderr = &stderr
			err := c.Run()
			switch text := stderr.String(); {
			case err == nil && text == "":
			case c.ProcessState.ExitCode() == 1 && strings.HasPrefix(text, "tensorfs: ") && strings.Count(text, "\n") == 1:
				refused++
			case strings.Contains(text, "shared libraries"): // the system cannot even load it
			default:
				t.Errorf("ulimit -n %d, %s: %v\n%s", n, args[0], err, text)
			}
			if isMounted(t, dir) {
				workingOrNone(t, dir)
			}
		}
	}
	if refused == 0 {
		t.Error("no limit was too small")
	}
}
