package views

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs"
)

func TestSpan(t *testing.T) {
	b := random(1, 40)
	section := mapped(t, "shard", b)
	for off := range int64(41) {
		for _, n := range []int64{0, 1, 7, 40} {
			n = min(n, 40-off)
			want := b[off : off+n]
			s := slice(section, off, n)
			checkData(t, s, want)
			checkData(t, slice(plain(b), off, n), want)
			var extents []tensorfs.Extent
			if n > 0 {
				extents = []tensorfs.Extent{{File: "shard", Offset: 9 + off, Bytes: n}}
			}
			if got := tensorfs.Extents(s); !slices.Equal(got, extents) {
				t.Errorf("[%d, %d) stands at %v, want %v", off, off+n, got, extents)
			}
			if e := tensorfs.Extents(slice(plain(b), off, n)); e != nil {
				t.Errorf("bytes of no file stand at %v", e)
			}
		}
	}
	if _, ok := slice(plain(b), 0, 3).(tensorfs.Slicer); ok {
		t.Error("a part of Data that is not mapped says that it is")
	}
	checkData(t, slice(slice(section, 10, 20), 5, 10), b[15:25])
	if _, err := slice(broken{plain(b), 30}, 20, 20).ReadAt(make([]byte, 20), 0); err != errBroken {
		t.Errorf("error of the source: %v", err)
	}
}

func TestCut(t *testing.T) {
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
			for _, x := range cut(e, off, n) {
				if x.Bytes <= 0 {
					t.Errorf("cut(%d, %d): %+v", off, n, x)
				}
				for i := range x.Bytes {
					got += fmt.Sprintf("%s%d ", x.File, x.Offset+i)
				}
			}
			if got != want {
				t.Errorf("cut(%d, %d) = %s, want %s", off, n, got, want)
			}
		}
	}
}
