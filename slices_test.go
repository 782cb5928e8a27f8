package tensorfs_test

import (
	"bytes"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// plain hides what Data can do.
type plain struct{ tensorfs.Data }

// TestSlicesOfParts holds that composed Data gives the memory of those ranges that
// are in memory, and of no others.
func TestSlicesOfParts(t *testing.T) {
	mem := tensorfs.Bytes("abcdefgh")
	for name, c := range map[string]struct {
		d      tensorfs.Data
		mapped func(off, n int64) bool
	}{
		"all":         {tensorfs.Concat(mem, mem), func(int64, int64) bool { return true }},
		"none":        {plain{mem}, func(int64, int64) bool { return false }},
		"first":       {tensorfs.Concat(mem, plain{mem}), func(off, n int64) bool { return off+n <= 8 }},
		"middle":      {tensorfs.Concat(plain{mem}, mem, plain{mem}), func(off, n int64) bool { return off >= 8 && off+n <= 16 }},
		"a section":   {tensorfs.Section(tensorfs.Concat(plain{mem}, mem), 4, 12), func(off, n int64) bool { return off >= 4 }},
		"alternating": {tensorfs.Interleave(2, mem, plain{mem}), func(off, n int64) bool { return off/4%2 == 0 && off%4+n <= 4 }},
	} {
		whole := make([]byte, c.d.Size())
		if err := tensorfs.ReadFull(c.d, whole, 0); err != nil {
			t.Fatal(err)
		}
		for off := int64(0); off < c.d.Size(); off++ {
			for n := int64(1); off+n <= c.d.Size(); n++ {
				kept := [][]byte{{1}}
				got, all, err := tensorfs.Slices(c.d, kept, off, n)
				if err != nil || all != c.mapped(off, n) || all && !bytes.Equal(bytes.Join(got[1:], nil), whole[off:off+n]) || !all && len(got) != 1 {
					t.Fatalf("%s, %d bytes at %d: %q, %v, %v", name, n, off, got, all, err)
				}
			}
		}
		if name != "none" {
			if _, _, err := tensorfs.Slices(c.d, nil, c.d.Size()-1, 2); err == nil {
				t.Errorf("%s: beyond the end", name)
			}
		}
	}
}
