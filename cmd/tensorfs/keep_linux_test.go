package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/keep"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

var kills = flag.Int("kills", 10, "how often TestTakenOver kills a server")

// readersOfKilled read from a mount whose servers are killed.
const readersOfKilled = 8

func killed(t *testing.T, c *exec.Cmd) {
	t.Helper()
	must(t, c.Process.Kill())
	end := make(chan error, 1)
	go func() { end <- c.Wait() }()
	testlimit.Receive(t, "end of a killed server", end)
}

// Readers of a mount see nothing of servers that are killed at any moment and followed by others.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	for _, by := range keepings {
		t.Run(by.name, func(t *testing.T) {
			dir := mountDir(t)
			model := largeModel(t)
			k := by.start(t)
			server := k.server(t, model, dir)
			firstLine(t, server)
			var all []*soakReader
			for i := range readersOfKilled {
				all = append(all, startReader(t, dir, model, uint64(time.Now().UnixNano())+uint64(i), false, &memoryLimit{}))
			}
			for range *kills {
				time.Sleep(rand.N(600 * time.Millisecond)) // with a server that may not be ready yet
				killed(t, server)
				time.Sleep(rand.N(50 * time.Millisecond))
				server = k.server(t, model, dir)
				server.Stderr = new(bytes.Buffer)
				must(t, server.Start())
			}
			testlimit.Wait(t, "server", func() bool { st := statusOf(t, dir); return st != nil && st.PID == server.Process.Pid })
			sum := stopReaders(t, all)
			st := statusOf(t, dir)
			t.Logf("%d kills, %d times taken over, %d reads, %s compared", *kills, st.TakenOver, sum.Operations, cli.Size(sum.Bytes))
			if st.TakenOver == 0 || st.TakenOver > *kills || !st.Healthy || st.LastError != nil || len(st.Warnings) > 0 {
				t.Errorf("status: %+v\n%s", st, server.Stderr)
			}
			must(t, mounts.Unmount(dir, false))
			must(t, server.Wait())
		})
	}
}

// A server that is killed while it mounts, or whose mount is detached while it is gone, leaves nothing that stops
// the next servers.
func TestKilledWhileMounting(t *testing.T) {
	t.Parallel()
	dir := mountDir(t)
	k := startKeeper(t, filepath.Join(t.TempDir(), "keep"))
	for i := range 3 * *kills {
		server := k.server(t, q8, dir)
		var out bytes.Buffer
		server.Stdout, server.Stderr = &out, &out
		must(t, server.Start())
		time.Sleep(rand.N(100 * time.Millisecond))
		_ = server.Process.Kill() // it should be there
		if err := server.Wait(); server.ProcessState.Exited() {
			t.Fatalf("server %d ended by itself: %v, %s", i, err, &out)
		}
		if rand.IntN(2) == 0 {
			_ = mounts.Unmount(dir, true) // it may not have been mounted
		}
	}
	server := k.server(t, q8, dir)
	firstLine(t, server)
	if st := statusOf(t, dir); st == nil || !st.Healthy || st.PID != server.Process.Pid {
		t.Errorf("status: %+v", st)
	}
	must(t, mounts.Unmount(dir, false))
	must(t, server.Wait())
}

// stopReaders ends readers, and holds that they have seen no error.
func stopReaders(t *testing.T, all []*soakReader) (sum soaked) {
	t.Helper()
	for _, r := range all {
		end := make(chan soaked, 1)
		go func() { end <- r.stop(t) }()
		s := testlimit.Receive(t, "end of a reader", end)
		if s.Wrong != "" || s.Operations == 0 {
			t.Errorf("%d reads, %s", s.Operations, s.Wrong)
		}
		sum.Operations += s.Operations
		sum.Bytes += s.Bytes
	}
	return sum
}

// keptPath is a file of all models of these tests that is larger than what the kernel reads ahead.
const keptPath = "f32/output.weight"

// openKept mounts a model with a keeper and opens a file without a page in memory.
func openKept(t *testing.T, k keeping, model, dir string) (server *exec.Cmd, f *os.File) {
	t.Helper()
	server = k.server(t, model, dir)
	firstLine(t, server)
	f, err := os.Open(filepath.Join(dir, keptPath))
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return server, f
}

// readKept reads from a file in another goroutine.
func readKept(f *os.File, off int64) <-chan error {
	end := make(chan error, 1)
	go func() {
		_, err := f.ReadAt(make([]byte, 4096), off)
		end <- err
	}()
	return end
}

// shows checks that a file of a mount has the bytes that the model has now.
func shows(t *testing.T, dir, model string, flags ...string) {
	t.Helper()
	code, want, stderr := command(slices.Concat([]string{"cat"}, flags, []string{model, keptPath})...)
	if code != 0 {
		t.Fatal(stderr)
	}
	got, err := os.ReadFile(filepath.Join(dir, keptPath))
	if err != nil || string(got) != want {
		t.Errorf("%d bytes, %v; want %d others", len(got), err, len(want))
	}
}

// A fresh mount is made if the model, or what is shown of it, changed while there was no server.
func TestNotTakenOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		flags  []string // of the second server
		change func(t *testing.T, model string)
	}{
		{"other views", []string{"--views", "raw,f32"}, func(*testing.T, string) {}},
		{"other owner", []string{"-o", "uid=1"}, func(*testing.T, string) {}},
		{"overwritten", nil, func(t *testing.T, model string) {
			f, err := os.OpenFile(model, os.O_WRONLY, 0)
			must(t, err)
			st, err := f.Stat()
			must(t, err)
			_, err = f.WriteAt(bytes.Repeat([]byte{1}, 1<<20), st.Size()/2)
			must(t, err)
			must(t, f.Close())
			must(t, os.Chtimes(model, time.Time{}, st.ModTime())) // as if nothing had been
		}},
		{"replaced", nil, func(t *testing.T, model string) {
			must(t, os.Rename(copyOf(t, model), model))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := mountDir(t)
			model := largeModel(t)
			k := startKeeper(t, filepath.Join(t.TempDir(), "keep"))
			server, f := openKept(t, k, model, dir)
			killed(t, server)
			waiting := readKept(f, 0)
			c.change(t, model)
			again := k.server(t, append(slices.Clone(c.flags), model, dir)...)
			firstLine(t, again)
			if err := testlimit.Receive(t, "answer to a read", waiting); !errors.Is(err, syscall.ESTALE) {
				t.Errorf("a reader that waited got %v, want ESTALE", err)
			}
			if err := testlimit.Receive(t, "answer to a read", readKept(f, 2<<20)); !errors.Is(err, syscall.ESTALE) {
				t.Errorf("another read: %v, want ESTALE", err)
			}
			shows(t, dir, model)
			if st := statusOf(t, dir); st.TakenOver != 0 || st.PID != again.Process.Pid {
				t.Errorf("status: %+v", st)
			}
			if all, err := mounts.List(); err != nil || len(slices.DeleteFunc(all, func(m mounts.Mount) bool { return m.Mountpoint != dir })) != 1 {
				t.Errorf("%v is mounted, %v; want one mount", all, err)
			}
			killed(t, again) // which is kept as well
			third := k.server(t, append(slices.Clone(c.flags), model, dir)...)
			firstLine(t, third)
			if st := statusOf(t, dir); st.TakenOver != 1 {
				t.Errorf("status: %+v", st)
			}
			f.Close()
			must(t, mounts.Unmount(dir, false))
			must(t, third.Wait())
		})
	}
}

// A file in passthrough that is still open can be opened again after a takeover, immediately and after it was closed,
// with any number of later servers.
func TestTakenOverStored(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: the kernel reads files past root's servers alone")
	}
	dir := mountDir(t)
	model := largeModel(t)
	want, err := os.ReadFile(model)
	must(t, err)
	k := startKeeper(t, filepath.Join(t.TempDir(), "keep"))
	server := k.server(t, model, dir)
	firstLine(t, server)
	path := filepath.Join(dir, "gguf/model.gguf")
	reads := func(when string, f *os.File, err error) *os.File {
		t.Helper()
		must(t, err)
		t.Cleanup(func() { f.Close() })
		got := make([]byte, len(want))
		if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: %v, or other bytes", when, err)
		}
		return f
	}
	open := func(when string) *os.File {
		t.Helper()
		f, err := os.Open(path)
		return reads(when, f, err)
	}
	all := []*os.File{open("at first")}
	for i := range 4 {
		killed(t, server)
		if fsys := new(unix.Statfs_t); unix.Statfs(model, fsys) == nil && fsys.Type != unix.OVERLAYFS_SUPER_MAGIC { // which has no passthrough
			must(t, unix.Fadvise(int(all[0].Fd()), 0, 0, unix.FADV_DONTNEED))
			reads("without a server", all[0], nil)
		}
		server = k.server(t, model, dir)
		firstLine(t, server)
		all = append(all, open(fmt.Sprintf("after takeover %d", i+1)))
	}
	for _, f := range all {
		must(t, f.Close())
	}
	must(t, open("when nobody had it open").Close())
	killed(t, server)
	server = k.server(t, model, dir)
	firstLine(t, server)
	must(t, open("after the last takeover").Close())
	if st := statusOf(t, dir); st.TakenOver != 5 || st.LastError != nil {
		t.Errorf("status: %+v", st)
	}
	must(t, mounts.Unmount(dir, false))
	must(t, server.Wait())
}

// If the model is gone, readers do not wait for a server that will never come.
func TestTakeoverWithoutModel(t *testing.T) {
	dir := mountDir(t)
	model := largeModel(t)
	k := startKeeper(t, filepath.Join(t.TempDir(), "keep"))
	server, f := openKept(t, k, model, dir)
	killed(t, server)
	waiting := readKept(f, 0)
	must(t, os.Remove(model))
	again := k.server(t, model, dir)
	out, err := again.CombinedOutput()
	if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), "no such file") {
		t.Errorf("%v: %s", err, out)
	}
	if err := testlimit.Receive(t, "answer to a read", waiting); err == nil {
		t.Error("a reader got bytes")
	}
}

// A keeper may be killed: the next one gets what it needs from servers that are there.
func TestKilledKeeper(t *testing.T) {
	dir := mountDir(t)
	model := largeModel(t)
	socket := filepath.Join(t.TempDir(), "keep")
	k := startKeeper(t, socket)
	server, f := openKept(t, k, model, dir)
	killed(t, k.cmd)
	if err := testlimit.Receive(t, "answer to a read", readKept(f, 0)); err != nil {
		t.Errorf("without a keeper: %v", err)
	}
	k = startKeeper(t, socket)
	testlimit.Wait(t, "keeper that has the mount", func() bool { return keeps(t, socket, dir) })
	isSaid := func(w fs.Fault) bool { return strings.Contains(w.Message, "the keeper of this mount is gone") }
	if st := statusOf(t, dir); !slices.ContainsFunc(st.Warnings, isSaid) {
		t.Errorf("status: %+v, want a warning", st)
	}
	killed(t, server)
	waiting := readKept(f, 1<<20)
	server = k.server(t, model, dir)
	firstLine(t, server)
	if err := testlimit.Receive(t, "answer to a read", waiting); err != nil {
		t.Errorf("taken over by way of the second keeper: %v", err)
	}
	if st := statusOf(t, dir); st.TakenOver != 1 {
		t.Errorf("status: %+v", st)
	}

	killed(t, k.cmd)
	killed(t, server)
	if err := testlimit.Receive(t, "answer to a read", readKept(f, 2<<20)); !errors.Is(err, syscall.ENOTCONN) && !errors.Is(err, syscall.ECONNABORTED) {
		t.Errorf("without keeper and server: %v", err)
	}
	server = k.server(t, model, dir) // without a keeper
	firstLine(t, server)
	shows(t, dir, model)
	startKeeper(t, socket)
	testlimit.Wait(t, "keeper that has the mount", func() bool { return keeps(t, socket, dir) })
	f.Close()
	must(t, mounts.Unmount(dir, false))
	must(t, server.Wait())
	if keeps(t, socket, dir) {
		t.Error("the keeper has a mount that is gone")
	}
}

// keeps reports whether a keeper has a mount.
func keeps(t *testing.T, socket, dir string) bool {
	t.Helper()
	all, err := keep.List(socket)
	must(t, err)
	return slices.ContainsFunc(all, func(k keep.Kept) bool { return k.Key == dir && len(k.Names) >= 2 })
}

// A second server of a mount is refused, and what a keeper cannot do is said.
func TestTakeoverRefused(t *testing.T) {
	t.Parallel()
	dir := mountDir(t)
	k := startKeeper(t, filepath.Join(t.TempDir(), "keep"))
	firstLine(t, k.server(t, q8, dir))
	for _, c := range []struct {
		words []string
		code  int
		want  string
	}{
		{[]string{"mount", "-f", "--takeover", k.socket, q8, dir}, 1, "serves this mount"},
		{[]string{"mount", "-f", "--takeover", k.socket, ggufDir, t.TempDir()}, 2, "this is a library"},
		{[]string{"mount", "-f", "--takeover", "systemd", q8, t.TempDir()}, 1, "NOTIFY_SOCKET"},
		{[]string{"keep"}, 2, "--socket"},
		{[]string{"keep", "--socket", k.socket}, 1, "a keeper listens there already"},
		{[]string{"keep", "--socket", filepath.Join(t.TempDir(), "none", "s")}, 1, "no such file"},
	} {
		out, err := program(t, c.words...).CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.ExitCode() != c.code || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v, %s", c.words, err, out)
		}
	}
}
