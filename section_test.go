package tensorfs_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
)

func TestSection(t *testing.T) {
	b := datatest.Random(1, 40)
	stored := datatest.Stored("shard", 9, b)
	for off := range int64(41) {
		for _, n := range []int64{0, 1, 7, 40} {
			n = min(n, 40-off)
			want := b[off : off+n]
			s := tensorfs.Section(stored, off, n)
			datatest.Check(t, s, want)
			datatest.Check(t, tensorfs.Section(datatest.Plain(b), off, n), want)
			var extents []tensorfs.Extent
			if n > 0 {
				extents = []tensorfs.Extent{{File: "shard", Offset: 9 + off, Bytes: n}}
			}
			if got := tensorfs.Extents(s); !slices.Equal(got, extents) {
				t.Errorf("[%d, %d) is at %v, want %v", off, off+n, got, extents)
			}
			if e := tensorfs.Extents(tensorfs.Section(datatest.Plain(b), off, n)); e != nil {
				t.Errorf("bytes without a file have the extents %v", e)
			}
		}
	}
	if _, ok, err := tensorfs.Slices(tensorfs.Section(datatest.Plain(b), 0, 3), nil, 0, 3); ok || err != nil {
		t.Errorf("a part of Data that is not mapped says that it is: %v", err)
	}
	datatest.Check(t, tensorfs.Section(tensorfs.Section(stored, 10, 20), 5, 10), b[15:25])
	if _, err := tensorfs.Section(datatest.Broken{Data: datatest.Plain(b), At: 30}, 20, 20).ReadAt(make([]byte, 20), 0); err != datatest.ErrBroken {
		t.Errorf("error of the source: %v", err)
	}
}

func TestCutExtents(t *testing.T) {
	e := []tensorfs.Extent{{File: "a", Offset: 100, Bytes: 10}, {File: "b", Offset: 0, Bytes: 5}, {File: "a", Offset: 200, Bytes: 1}}
	for off := range int64(17) {
		for n := range 17 - off {
			var want, got string
			at := int64(0)
			for _, x := range e {
				for i := range x.Bytes {
					if at >= off && at < off+n {
						want += fmt.Sprintf("%s%d ", x.File, x.Offset+i)
					}
					at++
				}
			}
			for _, x := range tensorfs.CutExtents(e, off, n) {
				if x.Bytes <= 0 {
					t.Errorf("cutExtents(%d, %d): %+v", off, n, x)
				}
				for i := range x.Bytes {
					got += fmt.Sprintf("%s%d ", x.File, x.Offset+i)
				}
			}
			if got != want {
				t.Errorf("cutExtents(%d, %d) = %s, want %s", off, n, got, want)
			}
		}
	}
}
