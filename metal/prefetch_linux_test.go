package metal

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
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

// After Prefetch the pages of a mapping that is in use are present, so that
// nobody faults on them.
func TestPrefetchMakesPagesPresent(t *testing.T) {
	tree, _, _ := bigTree()
	l, _, _ := openTree(t, tree, Options{})
	for _, ref := range []Ref{{"f16", "b"}, {"raw", "b"}} {
		b := get(t, l, ref.View, ref.Name)
		at := uintptr(unsafe.Pointer(&b.Contents[0]))
		if before, _ := smapsOf(t, "self", at); before > 1024 {
			t.Errorf("%s: %d KiB are present before", ref, before)
		}
		if err := l.Prefetch(t.Context(), []Ref{ref}, nil); err != nil {
			t.Fatal(err)
		}
		if after, _ := smapsOf(t, "self", at); int64(after) < b.Size/1024 {
			t.Errorf("%s: %d KiB of %d bytes are present", ref, after, b.Size)
		}
	}
}
