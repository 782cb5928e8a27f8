package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testweb"
	"golang.org/x/sys/unix"
)

// onDisk is what the files below a directory take.
func onDisk(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var st fs.FileInfo
			if st, err = d.Info(); err == nil {
				n += st.Sys().(*syscall.Stat_t).Blocks * 512
			}
		}
		if errors.Is(err, fs.ErrNotExist) { // it was pruned during the walk
			return nil
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return n
}

// readThrough reads tensor i, of size bytes, in a mount, past the kernel's pages, and
// compares some of each mebibyte.
func (s madeFile) readThrough(dir string, i int, size int64) error {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("raw/t%d", i)), os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 1<<20)
	for off := int64(0); off < size; off += int64(len(b)) {
		n, err := f.ReadAt(b[:min(int64(len(b)), size-off)], off)
		if err != nil && err != io.EOF {
			return err
		}
		for _, at := range []int{0, n - 512} {
			if !bytes.Equal(b[at:at+512], s.tensor(i, size, off+int64(at), 512)) {
				return fmt.Errorf("t%d differs after %d bytes", i, off+int64(at))
			}
		}
	}
	return nil
}

// Row 24: two mounts read a model twice that is four times as large as their cache,
// while another process prunes it: what they read is right, and the cache stays small.
func TestRemoteCacheBudget(t *testing.T) {
	dir := apart(t)
	budget := int64(64 << 20)
	if raceFactor > 1 {
		budget /= 4
	}
	const tensors = 4
	each := budget
	file := newMadeFile(tensors, each)
	s := testweb.New(t)
	s.Put("/m.safetensors", file)
	var mounts []string
	for range 2 {
		mounts = append(mounts, mountedFar(t, s.URL+"/m.safetensors", "--cache-size", fmt.Sprint(budget)))
	}
	var readers sync.WaitGroup
	for reader, mnt := range mounts {
		readers.Go(func() {
			for i := range 2 * tensors {
				if err := file.readThrough(mnt, (i+reader*tensors/2)%tensors, each); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { readers.Wait(); close(ended) }()
	most, pruned := int64(0), 0
	for going := true; going; {
		select {
		case <-ended:
			going = false
		case <-time.After(20 * time.Millisecond):
		}
		most = max(most, onDisk(t, dir))
		c := program(t, "cache", "prune", "--size", fmt.Sprint(budget*3/4))
		if out, err := c.CombinedOutput(); err == nil {
			pruned++
		} else if !strings.Contains(string(out), "another process") {
			t.Errorf("prune: %v, %s", err, out)
		}
	}
	t.Logf("at most %.1f MiB on the disk, pruned %d times, %d MiB sent", float64(most)/(1<<20), pruned, s.Sent()>>20)
	if most > budget*5/4 || most < budget/4 {
		t.Errorf("%d bytes were on the disk, %d are allowed", most, budget)
	}
	if pruned == 0 {
		t.Error("it was never pruned")
	}
	for _, mnt := range mounts {
		if st := statusOf(t, mnt); st == nil || st.State != "ok" || len(st.Errors) > 0 {
			t.Errorf("status %+v", st)
		}
	}
}

// Row 24: a mount whose cache has no room on its disk still reads, and one line reports this.
func TestRemoteCacheDiskFull(t *testing.T) {
	apart(t)
	disk := t.TempDir()
	if err := unix.Mount("tensorfs-test", disk, "tmpfs", 0, "mode=0700,size=16m"); err != nil {
		t.Skipf("NOT TESTED: a full disk, because no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	const each = 12 << 20
	file := newMadeFile(2, each)
	s := testweb.New(t)
	s.Put("/m.safetensors", file)
	logged := filepath.Join(t.TempDir(), "log")
	mnt := mountedFar(t, s.URL+"/m.safetensors", "--cache", filepath.Join(disk, "cache"), "--cache-size", "64M", "--log", logged)
	hog, err := os.Create(filepath.Join(disk, "hog"))
	for p := make([]byte, 1<<20); err == nil; {
		_, err = hog.Write(p)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	hog.Close()
	for range 2 {
		for i := range 2 {
			if err := file.readThrough(mnt, i, each); err != nil {
				t.Error(err)
			}
		}
	}
	var text []byte
	testlimit.Wait(t, "log", func() bool { // the server writes it
		text, _ = os.ReadFile(logged)
		return len(text) > 0
	})
	if strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), "it goes on in memory") {
		t.Errorf("log %q", text)
	}
	if st := statusOf(t, mnt); st == nil || st.State != "ok" || len(st.Errors) > 0 {
		t.Errorf("status %+v", st)
	}
}

// Row 7: two processes read one model with an empty cache, and all of it is sent once.
func TestRemoteTwoProcesses(t *testing.T) {
	apart(t)
	const each = 24 << 20
	file := newMadeFile(1, each)
	s := testweb.New(t)
	s.Put("/m.safetensors", file)
	both := make(chan struct{}) // closed when both have asked
	s.Break(func(i int, _ http.ResponseWriter, _ *http.Request) bool {
		if i == 1 {
			close(both)
		}
		testlimit.Receive(t, "request of the other", both)
		return false
	})
	var group sync.WaitGroup
	want := file.tensor(0, each, 0, each)
	for range 2 {
		c := program(t, "cat", s.URL+"/m.safetensors", "raw/t0")
		group.Go(func() {
			if got, err := c.Output(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	group.Wait()
	t.Logf("%d requests, %d bytes for %d", len(s.Requests()), s.Sent(), file.size)
	if sent := s.Sent(); sent > file.size+file.size/20 {
		t.Errorf("%d bytes were sent of a file of %d", sent, file.size)
	}
}
