package metal

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"unsafe"
)

// The list and the query of single addresses say the same.
func TestScanMaps(t *testing.T) {
	mem := pages(t, 4)
	heap := new([64]byte)
	for _, p := range []unsafe.Pointer{unsafe.Pointer(&mem[0]), unsafe.Pointer(&mem[len(mem)-1]), unsafe.Pointer(heap), nil} {
		addr := uintptr(p)
		f, err := os.Open("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		start, end, err := scanMaps(f, addr)
		f.Close()
		qstart, qend, qerr := mappingAt(addr)
		if start != qstart || end != qend || errors.Is(err, fs.ErrNotExist) != errors.Is(qerr, fs.ErrNotExist) {
			t.Errorf("%#x: list %#x-%#x %v, query %#x-%#x %v", addr, start, end, err, qstart, qend, qerr)
		}
		if addr != 0 && (err != nil || addr < start || addr >= end) {
			t.Errorf("%#x: %#x-%#x %v", addr, start, end, err)
		}
	}
}
