package web

import (
	"fmt"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
)

// A member of an archive is a file of its own: its bytes, its offsets, and headers that are read
// like a file's, at any offset in the archive.
func TestPart(t *testing.T) {
	s := newServer(t, 100*mib)
	f, _ := testFile(t, s, Options{})
	const base, size = 60*mib + 12345, 10*mib + 77
	f.Only(base, size)
	if f.Size() != size {
		t.Errorf("%d bytes", f.Size())
	}
	readRight(t, f, base, 0, 100)
	var first, last int64
	if _, err := fmt.Sscanf(s.requests()[0], "bytes=%d-%d", &first, &last); err != nil || last-first > block+cache.CellSize {
		t.Errorf("%q for the first of a header: %v", s.requests()[0], err)
	}
	d := f.Section(1000, size-1000)
	readRight(t, d, base+1000, size-2000, 1000)
	if e := tensorfs.Extents(d); len(e) != 1 || e[0].Offset != 1000 || e[0].Bytes != size-1000 {
		t.Errorf("%v", e)
	}
	if err := f.Fetch(t.Context(), 0, size); err != nil {
		t.Fatal(err)
	}
	if sent := s.sent.Load(); sent > size+2*block {
		t.Errorf("%d bytes were sent for a member of %d", sent, size)
	}
	asked := len(s.requests())
	readRight(t, d, base+1000, 0, size-1000)
	if n := len(s.requests()); n != asked {
		t.Errorf("%d more requests", n-asked)
	}
	want := make([]byte, 5000)
	fill(want, base+1000)
	datatest.Check(t, f.Section(1000, 5000), want)
	for _, r := range [][2]int64{{-1, 1}, {0, 100*mib + 1}, {100 * mib, 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v is not inside, and is taken", r)
				}
			}()
			g, _ := testFile(t, s, Options{})
			g.Only(r[0], r[1])
		}()
	}
}
