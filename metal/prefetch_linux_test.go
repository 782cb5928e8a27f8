package metal

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// smaps returns a field of /proc/PID/smaps, in KiB, of the mapping at addr.
func smaps(t *testing.T, pid string, addr uintptr, field string) int {
	t.Helper()
	f, err := os.Open("/proc/" + pid + "/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inside := false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var start, end uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &start, &end); n == 2 {
			inside = addr >= start && addr < end
			continue
		}
		if rest, ok := strings.CutPrefix(lines.Text(), field+":"); ok && inside {
			var kib int
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				t.Fatal(err)
			}
			return kib
		}
	}
	t.Fatalf("no %s of the mapping at %#x", field, addr)
	return 0
}

// After Prefetch the pages of a mapping that is in use are present, so that
// nobody faults on them.
func TestPrefetchMakesPagesPresent(t *testing.T) {
	tree, _, _ := bigTree()
	l, _, _ := openTree(t, tree, Options{})
	for _, ref := range []Ref{{"f16", "b"}, {"raw", "b"}} {
		b := get(t, l, ref.View, ref.Name)
		at := uintptr(unsafe.Pointer(&b.Contents[0]))
		if before := smaps(t, "self", at, "Rss"); before > 1024 {
			t.Errorf("%s: %d KiB are present before", ref, before)
		}
		if err := l.Prefetch(t.Context(), []Ref{ref}, nil); err != nil {
			t.Fatal(err)
		}
		if after := smaps(t, "self", at, "Rss"); int64(after) < b.Size/1024 {
			t.Errorf("%s: %d KiB of %d bytes are present", ref, after, b.Size)
		}
	}
}
