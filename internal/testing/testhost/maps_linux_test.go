package testhost

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"unsafe"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// The list and the query of single addresses say the same. The runtime may map
// memory next to ours at any time, so the list is read before and after.
func TestScanMaps(t *testing.T) {
	mem := pages(t, 4)
	heap := new([64]byte)
	type answer struct {
		start, end uintptr
		none       bool
	}
	list := func(addr uintptr) answer {
		f, err := os.Open("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		start, end, err := scanMaps(f, addr)
		return answer{start, end, errors.Is(err, fs.ErrNotExist)}
	}
	for _, p := range []unsafe.Pointer{unsafe.Pointer(&mem[0]), unsafe.Pointer(&mem[len(mem)-1]), unsafe.Pointer(heap), nil} {
		addr := uintptr(p)
		testlimit.Wait(t, "maps that stay as they are", func() bool {
			before := list(addr)
			start, end, err := mappingAt(addr)
			if before != list(addr) {
				return false
			}
			if got := (answer{start, end, errors.Is(err, fs.ErrNotExist)}); got != before {
				t.Errorf("%#x: list %+v, query %+v", addr, before, got)
			}
			if addr != 0 && (before.none || addr < start || addr >= end) {
				t.Errorf("%#x: %+v", addr, before)
			}
			return true
		})
	}
}
