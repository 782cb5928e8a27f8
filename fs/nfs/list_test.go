package nfs

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
)

// wide is a directory of many files, which counts how many were made.
type wide struct {
	n    int
	made atomic.Int64
}

func (w *wide) Len() int { return w.n }

func (w *wide) Entry(i int) tensorfs.Entry {
	w.made.Add(1)
	return file(fmt.Sprintf("tensor.%06d.weight", i), fmt.Sprint(i))
}

// TestManyFiles lists 50,000 files and counts the work: each entry is made once, but
// for one in each call that finds no room any more.
func TestManyFiles(t *testing.T) {
	const n = 50_000
	w := &wide{n: n}
	c, root, _ := mounted(t, tensorfs.Entries{{Name: "wide", Dir: w}}, Options{})
	h, _, err := c.Lookup(root, "wide")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		plus bool
		most int // calls
	}{{false, 40}, {true, 160}} {
		w.made.Store(0)
		calls, got, cookie := 0, 0, uint64(0)
		for eof := false; !eof; calls++ {
			var entries []testnfs.DirEntry
			if entries, eof, err = c.List(h, test.plus, cookie, 64<<10); err != nil {
				t.Fatal(err)
			}
			if len(entries) == 0 && !eof || calls > n {
				t.Fatalf("call %d gives nothing", calls)
			}
			for _, e := range entries {
				cookie = e.Cookie
				want := fmt.Sprintf("tensor.%06d.weight", got-2)
				switch got {
				case 0:
					want = "."
				case 1:
					want = ".."
				}
				if e.Name != want || e.Cookie != uint64(got+1) || test.plus && e.Attr.FileID != e.FileID {
					t.Fatalf("entry %d is %+v", got, e)
				}
				got++
			}
		}
		if got != n+2 {
			t.Errorf("%d entries", got)
		}
		if made := w.made.Load(); made > int64(n+calls) || calls > test.most {
			t.Errorf("with attributes: %v: %d entries were made for %d files, in %d calls", test.plus, made, n, calls)
		}
	}
	w.made.Store(0)
	found, _, err := c.Lookup(h, "tensor.049999.weight")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := c.ReadAll(found, 100); err != nil || string(b) != "49999" {
		t.Errorf("%q, %v", b, err)
	}
	if made := w.made.Load(); made > 25 {
		t.Errorf("%d entries were made to find one", made)
	}
}

// TestEveryRoom lists with every limit and from every place: what fits is what there is.
func TestEveryRoom(t *testing.T) {
	tree := small()
	c, root, _ := mounted(t, tree, Options{})
	names := []string{".", ".."}
	for i := range tree.Len() {
		names = append(names, tree.Entry(i).Name)
	}
	for _, plus := range []bool{false, true} {
		for cookie := range len(names) + 1 {
			last := -1 // how many there were with less room
			for room := uint32(0); room < 1500; room += 4 {
				entries, eof, err := c.List(root, plus, uint64(cookie), room) // it checks the size
				if err != nil {
					if ignore(err) != nil || last > 0 {
						t.Fatalf("from %d with %d bytes: %v", cookie, room, err)
					}
					continue
				}
				if len(entries) < last || eof != (cookie+len(entries) == len(names)) || len(entries) == 0 && !eof {
					t.Fatalf("from %d with %d bytes: %d entries, end %v", cookie, room, len(entries), eof)
				}
				last = len(entries)
				for i, e := range entries {
					if e.Name != names[cookie+i] {
						t.Fatalf("from %d with %d bytes: %q is entry %d", cookie, room, e.Name, i)
					}
				}
			}
			if last != len(names)-cookie {
				t.Errorf("from %d: %d entries at most", cookie, last)
			}
		}
	}
}

// TestListedHandles holds that READDIRPLUS and LOOKUP agree about a file.
func TestListedHandles(t *testing.T) {
	c, root, _ := mounted(t, small(), Options{})
	n := 0
	for _, path := range []string{".", "dir", "dir/deep", "later"} {
		dir, _, err := c.Find(root, path)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := c.ReadDirPlus(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			n++
			h, a, err := c.Lookup(dir, e.Name)
			if err != nil || !bytes.Equal(h, e.Handle) || a != e.Attr {
				t.Errorf("%s in %s: listed %+v, found %+v, %v", e.Name, path, e, a, err)
			}
		}
	}
	if n != 16 {
		t.Errorf("%d entries", n)
	}
}
