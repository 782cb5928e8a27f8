package metal_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// smapsOf returns what of the mapping at addr a process has resident, and its
// share of that, in KiB.
func smapsOf(t *testing.T, pid string, addr uintptr) (rss, pss int) {
	t.Helper()
	f, err := os.Open("/proc/" + pid + "/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inside, found := false, 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var start, end uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &start, &end); n == 2 {
			inside = addr >= start && addr < end
		}
		for field, to := range map[string]*int{"Rss:": &rss, "Pss:": &pss} {
			if rest, ok := strings.CutPrefix(lines.Text(), field); ok && inside {
				if _, err := fmt.Sscan(rest, to); err != nil {
					t.Fatal(err)
				}
				found++
			}
		}
	}
	if found != 2 {
		t.Fatalf("no mapping at %#x of process %s", addr, pid)
	}
	return rss, pss
}

// resident returns how many pages of mapped memory the system has in memory,
// whether this process has touched them or not.
func resident(t *testing.T, mem []byte) int {
	t.Helper()
	state := make([]byte, (len(mem)+os.Getpagesize()-1)/os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)), uintptr(unsafe.Pointer(unsafe.SliceData(state))))
	if errno != 0 {
		t.Fatal(errno)
	}
	n := 0
	for _, s := range state {
		n += int(s & 1)
	}
	return n
}

// mapped returns an error while this process maps a file below a directory.
func mapped(dir string) error {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, dir+"/") {
			return fmt.Errorf("still mapped: %s", line)
		}
	}
	return nil
}
