package erofs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestRead holds that every part of an image is that part of the whole, and that bytes of files are asked for
// from the file that has them.
func TestRead(t *testing.T) {
	sizes := []int64{0, 1, Block - 1, 0, 0, Block, Block + 1, 3 * Block, 0}
	l := New(sizes)
	contents := make([][]byte, len(sizes))
	random := rand.NewChaCha8([32]byte{1})
	for i, n := range sizes {
		contents[i] = make([]byte, n)
		random.Read(contents[i])
	}
	read := func(i int, p []byte, off int64) error {
		if off < 0 || off+int64(len(p)) > sizes[i] {
			t.Fatalf("%d bytes at %d of file %d, which has %d", len(p), off, i, sizes[i])
		}
		copy(p, contents[i][off:])
		return nil
	}
	whole := make([]byte, l.Size())
	if err := l.Read(whole, 0, read); err != nil {
		t.Fatal(err)
	}
	for i, want := range contents {
		at := int64(l.first[i]) * Block
		if !bytes.Equal(whole[at:at+sizes[i]], want) {
			t.Errorf("file %d is not where its inode says", i)
		}
	}
	for off := range l.Size() {
		if off > 4*Block && off < (margin-1)*Block || off > l.Size()-(margin-2)*Block && off < l.Size()-Block {
			continue // amid nothing
		}
		for _, n := range []int64{0, 1, 31, Block, 2*Block + 1, 12 * Block} {
			got := bytes.Repeat([]byte{0xAA}, int(min(n, l.Size()-off)))
			if err := l.Read(got, off, read); err != nil || !bytes.Equal(got, whole[off:off+int64(len(got))]) {
				t.Fatalf("%d bytes at %d: %v, or other bytes", len(got), off, err)
			}
		}
	}
	after := []byte{1, 2, 3}
	if err := l.Read(after, l.Size(), read); err != nil || !bytes.Equal(after, make([]byte, 3)) {
		t.Errorf("after the end: %v, %v", after, err)
	}
}

// TestFile holds that a range belongs to a file if reading it asks only that file.
func TestFile(t *testing.T) {
	sizes := []int64{0, 1, Block - 1, 0, 0, Block, Block + 1, 3 * Block, 0}
	for _, l := range []*Layout{New(sizes), New(nil)} {
		for off := int64(0); off < l.Size(); off += Block / 2 {
			for _, n := range []int64{1, Block / 2, Block, 2 * Block} {
				file, at, bytes := -1, int64(0), int64(0)
				if len(l.sizes) > 0 {
					err := l.Read(make([]byte, n), off, func(i int, p []byte, off int64) error {
						file, at, bytes = i, off, int64(len(p))
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				i, from, ok := l.File(off, n)
				if ok != (bytes == n) || ok && (i != file || from != at) {
					t.Fatalf("%d bytes at %d: %d bytes at %d of file %d; File returns %d, %d, %v", n, off, bytes, at, file, i, from, ok)
				}
			}
		}
	}
}

// TestMargins holds that the first and the last bytes, by which programs tell what a block device has, are of no file.
func TestMargins(t *testing.T) {
	for _, sizes := range [][]int64{{1}, {5 << 20, 0, 7}, make([]int64, 100000)} {
		l := New(sizes)
		p := make([]byte, 1<<20)
		for _, off := range []int64{0, l.Size() - int64(len(p))} {
			if err := l.Read(p, off, func(i int, _ []byte, _ int64) error { return fmt.Errorf("file %d is read", i) }); err != nil {
				t.Errorf("%d files, at %d: %v", len(sizes), off, err)
			}
		}
	}
}

// TestReadFails holds that a file's error becomes the read's error.
func TestReadFails(t *testing.T) {
	bad := errors.New("bad")
	l := New([]int64{10, 20})
	err := l.Read(make([]byte, l.Size()), 0, func(i int, _ []byte, _ int64) error {
		if i == 1 {
			return bad
		}
		return nil
	})
	if !errors.Is(err, bad) {
		t.Errorf("%v", err)
	}
}

// TestLarge holds where the numbers of blocks end.
func TestLarge(t *testing.T) {
	const most = (maxBlock - 2*margin) * Block
	if l := New([]int64{most}); l == nil || l.Size() != maxBlock*Block {
		t.Error("the largest file that there may be")
	}
	for _, sizes := range [][]int64{{most + 1}, {most, 1}, {1 << 62, 1 << 62, 1 << 62}, {-1}} {
		if New(sizes) != nil {
			t.Errorf("%v: an image", sizes)
		}
	}
}
