package tensorfs_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
)

func TestJoined(t *testing.T) {
	for _, test := range []struct {
		rounds int
		sizes  []int // per round
	}{
		{1, []int{5}}, {1, []int{3, 4}}, {1, []int{1, 1, 1}}, {1, []int{0, 3, 0, 0, 2, 0}}, {1, []int{0, 0}}, {1, []int{0}},
		{2, []int{3, 4}}, {3, []int{1, 5, 2}}, {4, []int{0, 2, 0}}, {5, []int{1, 1}}, {3, []int{0, 0}}, {7, []int{3}}, {0, []int{0, 0}},
	} {
		t.Run(fmt.Sprint(test.rounds, test.sizes), func(t *testing.T) {
			var mem, dull []tensorfs.Data
			parts := make([][]byte, len(test.sizes))
			var want []byte
			for i, n := range test.sizes {
				parts[i] = datatest.Random(uint64(i), n*test.rounds)
				mem = append(mem, datatest.Stored(fmt.Sprint("file", i), 9, parts[i]))
				dull = append(dull, datatest.Plain(parts[i]))
			}
			var where []string // of each byte
			for round := range test.rounds {
				for i, n := range test.sizes {
					want = append(want, parts[i][round*n:][:n]...)
					for at := range n {
						where = append(where, fmt.Sprintf("file%d:%d", i, 9+round*n+at))
					}
				}
			}
			d := tensorfs.Interleave(int64(test.rounds), mem...)
			datatest.Check(t, d, want)
			if _, all, err := tensorfs.Slices(d, nil, 0, d.Size()); !all || err != nil {
				t.Errorf("mapped parts cannot be sliced: %v", err)
			}
			checkExtents(t, d, where)
			d = tensorfs.Interleave(int64(test.rounds), dull...)
			datatest.Check(t, d, want)
			if _, all, err := tensorfs.Slices(d, nil, 0, d.Size()); all && d.Size() > 0 || err != nil {
				t.Errorf("parts that are not mapped can be sliced: %v", err)
			}
			if tensorfs.Extents(d) != nil {
				t.Error("parts of no file have extents")
			}
			mixed := slices.Clone(mem)
			mixed[0] = dull[0]
			d = tensorfs.Interleave(int64(test.rounds), mixed...)
			datatest.Check(t, d, want)
			if len(parts[0]) > 0 && tensorfs.Extents(d) != nil {
				t.Error("a part of no file has extents")
			}
			if test.rounds == 1 {
				datatest.Check(t, tensorfs.Concat(mem...), want)
			}
		})
	}
}

// checkExtents holds d's extents to the file and place of each of its bytes.
func checkExtents(t *testing.T, d tensorfs.Data, where []string) {
	t.Helper()
	var got []string
	extents := tensorfs.Extents(d)
	for i, e := range extents {
		if e.Bytes <= 0 || i > 0 && e.File == extents[i-1].File && e.Offset == extents[i-1].Offset+extents[i-1].Bytes {
			t.Errorf("extents %v are not the fewest", extents)
		}
		for at := range e.Bytes {
			got = append(got, fmt.Sprintf("%s:%d", e.File, e.Offset+at))
		}
	}
	if !slices.Equal(got, where) {
		t.Errorf("extents %v, want %v", got, where)
	}
}

func TestJoinedNested(t *testing.T) {
	b := datatest.Random(1, 60)
	s := datatest.Stored("file", 9, b)
	d := tensorfs.Concat(tensorfs.Section(s, 0, 10), tensorfs.Interleave(2, tensorfs.Section(s, 10, 8), tensorfs.Section(s, 18, 4)), tensorfs.Section(s, 22, 5))
	want := slices.Concat(b[:14], b[18:20], b[14:18], b[20:27])
	datatest.Check(t, d, want)
	if got := tensorfs.Extents(d); len(got) != 4 || got[0].Bytes != 14 || got[3].Bytes != 7 {
		t.Errorf("extents %v", got)
	}
	datatest.Check(t, tensorfs.Section(d, 7, 15), want[7:22])
	if got := tensorfs.Extents(tensorfs.Section(d, 7, 15)); len(got) != 4 || got[0] != (tensorfs.Extent{File: "file", Offset: 16, Bytes: 7}) {
		t.Errorf("extents %v", got)
	}
}

func TestJoinedBroken(t *testing.T) {
	a, b := datatest.Random(1, 10), datatest.Random(2, 10)
	d := tensorfs.Interleave(2, datatest.Plain(a), datatest.Broken{Data: datatest.Plain(b), At: 7})
	want := slices.Concat(a[:5], b[:5], a[5:], b[5:])
	p := make([]byte, 20)
	n, err := d.ReadAt(p, 0)
	if err != datatest.ErrBroken || n < 15 || n > 17 || !bytes.Equal(p[:n], want[:n]) {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := d.ReadAt(p[:17], 0); n != 17 || err != nil {
		t.Errorf("before it: %d, %v", n, err)
	}
	short := tensorfs.Concat(datatest.Plain(a), liar{10})
	if n, err := short.ReadAt(p, 0); n != 10 || err != io.ErrUnexpectedEOF {
		t.Errorf("a part that ends early: %d, %v", n, err)
	}
}

// liar is Data that claims bytes and has none.
type liar struct{ size int64 }

func (l liar) Size() int64                       { return l.size }
func (l liar) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// TestJoinedHostile holds that shapes of a hostile file cost nothing.
func TestJoinedHostile(t *testing.T) {
	empty := datatest.Stored("file", 9, nil)
	for _, d := range []tensorfs.Data{
		tensorfs.Interleave(1<<40, empty, empty),
		tensorfs.Interleave(math.MaxInt64, empty),
		tensorfs.Interleave(1<<40, datatest.Plain(nil), datatest.Plain(nil)),
		tensorfs.Interleave(0, datatest.Plain(nil)),
		tensorfs.Interleave(3),
		tensorfs.Concat(),
	} {
		datatest.Check(t, d, nil)
		if e := tensorfs.Extents(d); e != nil {
			t.Errorf("extents %v", e)
		}
	}
	// Far out in something huge.
	d := tensorfs.Interleave(1<<40, liar{1 << 41}, liar{3 << 40}, liar{1 << 60})
	if want := int64(1<<41 + 3<<40 + 1<<60); d.Size() != want {
		t.Errorf("size %d, want %d", d.Size(), want)
	}
	if n, err := d.ReadAt(make([]byte, 10), d.Size()-5); n != 0 || err != io.ErrUnexpectedEOF {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := d.ReadAt(make([]byte, 10), math.MaxInt64); n != 0 || err != io.EOF {
		t.Errorf("%d, %v", n, err)
	}
}

// TestJoinedManyExtents holds that no caller gets a list of a million extents.
func TestJoinedManyExtents(t *testing.T) {
	s := datatest.Stored("file", 9, make([]byte, 4*tensorfs.MaxExtents))
	for _, test := range []struct {
		rounds int64
		want   int
	}{{tensorfs.MaxExtents / 2, tensorfs.MaxExtents}, {tensorfs.MaxExtents, 0}, {2 * tensorfs.MaxExtents, 0}} {
		a, b := tensorfs.Section(s, 0, test.rounds*2), tensorfs.Section(s, 2*tensorfs.MaxExtents-test.rounds, test.rounds)
		if test.rounds > tensorfs.MaxExtents {
			a, b = tensorfs.Section(s, 0, test.rounds), tensorfs.Section(s, test.rounds, test.rounds)
		}
		if got := tensorfs.Extents(tensorfs.Interleave(test.rounds, a, b)); len(got) != test.want {
			t.Errorf("%d rounds have %d extents, want %d", test.rounds, len(got), test.want)
		}
	}
}

// TestJoinedAllocates holds that reading mapped parts allocates nothing.
func TestJoinedAllocates(t *testing.T) {
	s := datatest.Stored("file", 9, datatest.Random(1, 3000))
	p := make([]byte, 3000)
	var mem [][]byte
	for name, d := range map[string]tensorfs.Data{
		"section":    tensorfs.Section(s, 5, 2000),
		"concat":     tensorfs.Concat(tensorfs.Section(s, 0, 1000), tensorfs.Section(s, 2000, 1000)),
		"interleave": tensorfs.Interleave(10, tensorfs.Section(s, 0, 1000), tensorfs.Section(s, 1000, 2000)),
	} {
		if n := testing.AllocsPerRun(50, func() {
			var err error
			if _, err = d.ReadAt(p[:d.Size()-7], 3); err != nil {
				t.Fatal(err)
			}
			var all bool
			if mem, all, err = tensorfs.Slices(d, mem[:0], 1, d.Size()-2); !all || err != nil {
				t.Fatal(all, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
