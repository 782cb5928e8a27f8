package fs

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testlimit"
	"golang.org/x/sys/unix"
)

// clientForge opens a file for writing and, for each line of its input, does
// something with it.
func clientForge(args []string) error {
	f, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	fmt.Println("holding")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "map":
			copy(m, "forged")
			err = nil
		case "sync":
			err = unix.Msync(m, unix.MS_SYNC)
		case "write":
			_, err = f.WriteAt([]byte("forged"), 0)
		}
		fmt.Println(in.Text(), err)
	}
	return nil
}

// remountWritable is what mount -o remount,rw does.
func remountWritable(t *testing.T, at string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: a remount takes root")
	}
	if err := unix.Mount("", at, "", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
}

// TestForgedPages: what somebody writes after a remount is refused, and pages
// that he changed through a mapping are dropped when the kernel writes them back,
// which is when he syncs or closes the file, or after half a minute.
func TestForgedPages(t *testing.T) {
	s := serve(t, "model", newModel(t, 5<<20))
	s.run("readall", s.mountpoint, s.sizeArg())
	path := s.path("raw/e.aligned")
	remountWritable(t, s.mountpoint)
	restored := func() {
		t.Helper()
		testlimit.Wait(t, "the true bytes", func() bool { _, err := s.client("readall", s.mountpoint, s.sizeArg()); return err == nil })
	}
	h := s.startHolder("forge", path)
	fmt.Fprintln(h.in, "map")
	h.expect(t, "map <nil>")
	fmt.Fprintln(h.in, "sync")
	h.expect(t, "sync read-only file system")
	restored()
	fmt.Fprintln(h.in, "write")
	h.expect(t, "write write "+path+": read-only file system")
	restored()
	fmt.Fprintln(h.in, "map")
	h.expect(t, "map <nil>")
	h.end()
	_ = h.cmd.Wait()
	restored()
	if n := strings.Count(s.log.String(), "wrote to a file"); n != 1 {
		t.Errorf("%d lines about what was written:\n%s", n, s.log)
	}
	if got := s.ask("unmount"); got != "ok" {
		t.Error(got)
	}
}

// TestDropped: every node that is written to is dropped after that, however many
// are and while others are being dropped.
func TestDropped(t *testing.T) {
	var d dropped
	var mu sync.Mutex
	written, seen := map[uint64]int{}, map[uint64]int{}
	notify := func(id uint64) {
		mu.Lock()
		defer mu.Unlock()
		seen[id] = written[id]
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range uint64(1000) {
				mu.Lock()
				written[i%7]++
				mu.Unlock()
				d.drop(i%7, notify)
			}
		})
	}
	wg.Wait()
	testlimit.Wait(t, "every node to be dropped", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for id, n := range written {
			if seen[id] != n {
				return false
			}
		}
		return true
	})
}
