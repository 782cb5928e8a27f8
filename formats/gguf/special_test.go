package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// TestNoRegularFiles opens directories, FIFOs and devices, without waiting for them.
func TestNoRegularFiles(t *testing.T) {
	dir := t.TempDir()
	fifo, socket, loop := filepath.Join(dir, "fifo"), filepath.Join(dir, "socket"), filepath.Join(dir, "loop")
	if err := syscall.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, socket, loop, dir, "/dev/zero", filepath.Join(dir, "absent")} {
		testlimit.Return("opening "+path, func() {
			m, err := Open(path)
			if err == nil {
				m.Close()
				t.Errorf("%s opens", path)
				return
			}
			if s := err.Error(); !strings.HasPrefix(s, path+": ") || strings.Contains(s, "\n") {
				t.Errorf("%q", s)
			}
		})
	}
}

// control returns a sound file and where the bytes of its last tensor end.
func control(t *testing.T) (b []byte, end int) {
	b, err := os.ReadFile(filepath.Join(hostileDir, "valid/control.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	return b, 240
}

// TestEveryPrefix cuts a sound file at each byte.
func TestEveryPrefix(t *testing.T) {
	b, end := control(t)
	path := filepath.Join(t.TempDir(), "m.gguf")
	for n := range len(b) + 1 {
		if err := os.WriteFile(path, b[:n], 0o666); err != nil {
			t.Fatal(err)
		}
		m, err := Open(path)
		if (err == nil) != (n >= end) {
			t.Errorf("%d bytes: %v", n, err)
		}
		if err == nil {
			readModel(t, m)
			m.Close()
		} else {
			checkRefusal(t, filepath.Dir(path), err)
		}
	}
}

// TestEveryByte sets each byte of a sound header to each value.
func TestEveryByte(t *testing.T) {
	b, _ := control(t)
	path := filepath.Join(t.TempDir(), "m.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	accepted, step := 0, 1
	if testing.Short() {
		step = 3 // reaches 255
	}
	for i := range 187 {
		for v := 0; v < 256; v += step {
			if _, err := f.WriteAt([]byte{byte(v)}, int64(i)); err != nil {
				t.Fatal(err)
			}
			m, err := Open(path)
			if err != nil {
				checkRefusal(t, filepath.Dir(path), err)
				continue
			}
			accepted++
			readModel(t, m)
			m.Close()
		}
		if _, err := f.WriteAt(b[i:i+1], int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if accepted < 187 || accepted > 187*256/step/2 {
		t.Errorf("%d files opened", accepted)
	}
}

// sparse writes head and makes the rest of the file a hole.
func sparse(t testing.TB, head []byte, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, head, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Skipf("the filesystem has no files of %d bytes: %v", size, err)
	}
	return path
}

// cheap holds that opening a file takes little time and memory, whatever the
// file's size.
func cheap(t *testing.T, open func()) {
	t.Helper()
	testlimit.Work(t, 20, func() {
		if n := testlimit.Allocated(open); n > 1<<20 {
			t.Errorf("allocated %d bytes", n)
		}
	})
}

// TestSparseGiant opens a tensor of 2^40 bytes at once.
func TestSparseGiant(t *testing.T) {
	g := testmodel.GGUF{Tensors: []testmodel.GGUFTensor{{Name: "t", Shape: []int64{1 << 40}, Type: 24}}}
	head := g.Bytes()
	path := sparse(t, head, int64(len(head))+1<<40)
	open := func() {
		m, err := Open(path)
		if err != nil {
			t.Error(err)
			return
		}
		defer m.Close()
		x := &m.Tensors[0]
		b := []byte{1}
		if n, err := x.Data.ReadAt(b, 1<<40-1); n != 1 || b[0] != 0 || x.Data.Size() != 1<<40 {
			t.Errorf("%d bytes %v of %d: %v", n, b, x.Data.Size(), err)
		}
	}
	testlimit.Return("opening", func() { cheap(t, open) })
}

func le64(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }

// TestSparseHeaders opens headers that are all hole: zeros are the lengths of
// empty strings and empty arrays, so a walk could go on for hours.
func TestSparseHeaders(t *testing.T) {
	const size = 1 << 40
	key := le64(1) + "k"
	for name, head := range map[string]string{
		"strings":  le64(0) + le64(1) + key + "\x09\x00\x00\x00\x08\x00\x00\x00" + le64(1<<36),
		"arrays":   le64(0) + le64(1) + key + "\x09\x00\x00\x00\x09\x00\x00\x00" + le64(1<<36),
		"bytes":    le64(0) + le64(1) + key + "\x09\x00\x00\x00\x00\x00\x00\x00" + le64(1<<39),
		"string":   le64(0) + le64(1) + key + "\x08\x00\x00\x00" + le64(1<<39),
		"in array": le64(0) + le64(1) + key + "\x09\x00\x00\x00\x08\x00\x00\x00" + le64(1) + le64(1<<39),
		"keys":     le64(0) + le64(1<<35),
		"tensors":  le64(1<<35) + le64(0),
		"name":     le64(1) + le64(0) + le64(1<<39),
	} {
		t.Run(name, func(t *testing.T) {
			path := sparse(t, []byte("GGUF\x03\x00\x00\x00"+head), size)
			testlimit.Return("opening", func() {
				cheap(t, func() {
					m, err := Open(path)
					if err == nil {
						m.Close()
						t.Error("it opens")
						return
					}
					checkRefusal(t, filepath.Dir(path), err)
				})
			})
		})
	}
}

// TestAnnounced holds how many tensors and metadata entries a header may
// announce: as many as fit what is left, at the least bytes that one takes.
func TestAnnounced(t *testing.T) {
	const announced = "are announced, but only"
	for _, c := range []struct {
		version               string
		count                 func(n uint64) string
		leastTensor, leastKey int
	}{
		{"\x01", func(n uint64) string { return le64(n)[:4] }, 4 + 4 + 4 + 8, 4 + 1 + 4 + 1}, // name, dimensions, type, offset; key of a letter, type, bool
		{"\x03", le64, 8 + 4 + 4 + 8, 8 + 1 + 4 + 1},
	} {
		const n = 7
		for _, h := range []struct {
			what   string
			counts string // tensors and entries
			after  int    // bytes that follow the count
			fits   bool
		}{
			{"tensors", c.count(n), n*c.leastTensor - 1, false},
			{"tensors", c.count(n), n * c.leastTensor, true},
			{"metadata entries", c.count(0) + c.count(n), n*c.leastKey - 1, false},
			{"metadata entries", c.count(0) + c.count(n), n * c.leastKey, true},
		} {
			path := filepath.Join(t.TempDir(), "m.gguf")
			head := "GGUF" + c.version + "\x00\x00\x00" + h.counts
			if err := os.WriteFile(path, []byte(head+strings.Repeat("\x00", h.after)), 0o666); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path)
			if err == nil || strings.Contains(err.Error(), fmt.Sprintf("7 %s %s %d bytes", h.what, announced, h.after)) == h.fits {
				t.Errorf("version %q, %s, %d bytes: %v", c.version, h.what, h.after, err)
			}
		}
	}
}

// TestChangedFile truncates and rewrites a file under an open model: reads fail,
// arrays end, nothing panics.
func TestChangedFile(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"cut":     func(path string) error { return os.Truncate(path, 4096) },
		"rewritten": func(path string) error {
			st, err := os.Stat(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path, bytes.Repeat([]byte{0xff}, int(st.Size())), 0o666); err != nil {
				return err
			}
			return os.Chtimes(path, time.Time{}, st.ModTime().Add(time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeModel(t, everything())
			m := open(t, path)
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			for i := range m.Tensors {
				x := &m.Tensors[i]
				if n, err := x.Data.ReadAt(make([]byte, 1), 0); x.Data.Size() > 0 && (n != 0 || !errors.Is(err, tensorfs.ErrChanged)) {
					t.Errorf("%s: %d bytes, %v", x.Name, n, err)
				}
			}
			for _, e := range m.Metadata {
				if a, ok := e.Value.(tensorfs.Array); ok {
					for v := range a.Values() {
						t.Errorf("%s has %v", e.Key, v)
						break
					}
				}
			}
		})
	}
}

// TestDamagedArray rewrites an array under an open model with the time of the
// file as it was, which nothing can tell: values are wrong, and nothing is read
// beyond the array.
func TestDamagedArray(t *testing.T) {
	path := writeModel(t, everything())
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	m := open(t, path)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, filler := range []byte{0xff, 0x09, 0x01, 0x00} {
		for _, e := range m.Metadata {
			a, ok := e.Value.(*array)
			if !ok {
				continue
			}
			if _, err := f.WriteAt(bytes.Repeat([]byte{filler}, int(a.end-a.pos)), a.pos); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, time.Time{}, st.ModTime()); err != nil {
				t.Fatal(err)
			}
			if n := len(e.AppendText(nil)); n > 4<<20 {
				t.Errorf("%s: %d bytes", e.Key, n)
			}
		}
	}
}

// TestDeepArrays checks the limit of nesting from both sides.
func TestDeepArrays(t *testing.T) {
	for depth := 1; depth <= 20; depth++ {
		var v any = []uint8{1}
		for range depth - 1 {
			v = []any{v}
		}
		m, err := Open(writeModel(t, testmodel.GGUF{Meta: []tensorfs.Meta{{Key: "k", Value: v}}}))
		if (err == nil) != (depth <= maxNesting) {
			t.Errorf("depth %d: %v", depth, err)
		}
		if err != nil {
			continue
		}
		want := strings.Repeat("[", depth) + "1" + strings.Repeat("]", depth)
		if got := string(m.Metadata[0].AppendJSON(nil)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		m.Close()
	}
}

// TestManyAtOneOffset checks that a crowd of tensors in one place is refused,
// and that a larger crowd costs no more than in proportion.
func TestManyAtOneOffset(t *testing.T) {
	paths := map[int]string{}
	for _, n := range []int{25_000, 100_000} {
		g := testmodel.GGUF{}
		for i := range n {
			g.Tensors = append(g.Tensors, testmodel.GGUFTensor{Name: fmt.Sprint(i), Shape: []int64{1}, Type: 200})
		}
		g.Tensors = append(g.Tensors, testmodel.GGUFTensor{Name: "last", Shape: []int64{1}, Data: make([]byte, 4)})
		paths[n] = writeModel(t, g)
	}
	testlimit.Growth(t, 25_000, func(n int) {
		if m, err := Open(paths[n]); err == nil {
			m.Close()
			t.Error("it opens")
		}
	})
}
