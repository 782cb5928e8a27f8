package tensorfs

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestClipRange(t *testing.T) {
	for _, test := range []struct {
		size, off int64
		p, n      int
		err       error
	}{
		{10, 0, 4, 4, nil}, {10, 6, 4, 4, nil}, {10, 7, 4, 3, io.EOF}, {10, 10, 4, 0, io.EOF}, {10, 11, 4, 0, io.EOF},
		{10, 1 << 62, 4, 0, io.EOF}, {10, 0, 0, 0, nil}, {10, 10, 0, 0, io.EOF}, {0, 0, 4, 0, io.EOF}, {1<<63 - 1, 1<<63 - 3, 4, 2, io.EOF},
	} {
		if n, err := ClipRange(test.size, make([]byte, test.p), test.off); n != test.n || err != test.err {
			t.Errorf("%+v: %d, %v", test, n, err)
		}
	}
	if n, err := ClipRange(10, make([]byte, 4), -1); n != 0 || err == nil || err == io.EOF {
		t.Errorf("before the start: %d, %v", n, err)
	}
}

func TestCheckRange(t *testing.T) {
	d := strings.NewReader("0123456789")
	for _, r := range [][2]int64{{0, 0}, {0, 10}, {10, 0}, {3, 7}} {
		if err := CheckRange(d, r[0], r[1]); err != nil {
			t.Error(err)
		}
	}
	for _, r := range [][2]int64{{0, 11}, {10, 1}, {11, 0}, {-1, 1}, {1, -1}, {1, 1<<63 - 1}, {1<<63 - 1, 1}, {-1 << 63, 1 << 62}} {
		if err := CheckRange(d, r[0], r[1]); err == nil {
			t.Errorf("%v is inside", r)
		}
	}
}

// scripted is Data with prepared answers.
type scripted struct {
	n   int
	err error
}

func (s scripted) Size() int64                           { return 100 }
func (s scripted) ReadAt(p []byte, _ int64) (int, error) { return min(s.n, len(p)), s.err }

func TestReadFull(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		d    scripted
		want error
	}{
		{scripted{8, nil}, nil},
		{scripted{8, io.EOF}, nil},
		{scripted{8, broken}, nil},
		{scripted{7, nil}, io.ErrUnexpectedEOF},
		{scripted{7, io.EOF}, io.ErrUnexpectedEOF},
		{scripted{7, broken}, broken},
	} {
		if err := ReadFull(test.d, make([]byte, 8), 0); err != test.want {
			t.Errorf("%+v: %v", test.d, err)
		}
	}
}

func TestExtentsOfNoFile(t *testing.T) {
	if Extents(scripted{}) != nil {
		t.Error("extents of Data without files")
	}
}
