package cache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

const cell = CellSize

// TestMissing lists the ranges that are not local, for every range over a few cells, on the disk
// and in memory.
func TestMissing(t *testing.T) {
	const size = 5*cell + 100
	have := []bool{false, true, true, false, true, false}
	for name, budget := range map[string]int64{"disk": 0, "memory": -1} {
		t.Run(name, func(t *testing.T) {
			r := openRemote(t, openStore(t, t.TempDir(), budget), "k", size)
			defer r.e.Close()
			for i, h := range have {
				if h {
					check(t, r.fetchPart(Range{int64(i) * cell, 1}))
				}
			}
			edges := []int64{0, 1, cell - 1, cell, cell + 1, 2 * cell, 3*cell - 1, 3 * cell, 4 * cell, 5*cell - 1, 5 * cell, 5*cell + 1, size - 1, size, size + 1}
			for _, from := range edges {
				for _, to := range edges {
					if to < from {
						continue
					}
					var want []Range
					for i := range int64(len(have)) {
						at, end := i*cell, min((i+1)*cell, size)
						if have[i] || end <= from || at >= to || from == to {
							continue
						}
						if k := len(want) - 1; k >= 0 && want[k].Off+want[k].N == at {
							want[k].N += end - at
						} else {
							want = append(want, Range{at, end - at})
						}
					}
					if got := r.e.Missing(from, to-from); !slices.Equal(got, want) {
						t.Errorf("[%d, %d): %v, want %v", from, to, got, want)
					}
				}
			}
		})
	}
}

// TestReadAt holds the entry to the contract of io.ReaderAt for local ranges, and to ErrAbsent for
// missing ranges.
func TestReadAt(t *testing.T) {
	for _, size := range []int64{0, 1, cell, cell + 1, 2*cell + 5} {
		for name, budget := range map[string]int64{"disk": 0, "memory": -1} {
			r := openRemote(t, openStore(t, t.TempDir(), budget), "k", size)
			want := make([]byte, size)
			content("k", want, 0)
			if size > 0 {
				if _, err := r.e.ReadAt(make([]byte, 1), size-1); err != ErrAbsent {
					t.Errorf("%s of %d: an empty entry reads with %v", name, size, err)
				}
			}
			check(t, r.fetch(0, size, 2*cell))
			if err := iotest.TestReader(io.NewSectionReader(r.e, 0, size), want); err != nil {
				t.Errorf("%s of %d: %v", name, size, err)
			}
			if n, err := r.e.ReadAt(make([]byte, 9), size); n != 0 || err != io.EOF {
				t.Errorf("%s of %d: %d, %v at the end", name, size, n, err)
			}
			if _, err := r.e.ReadAt(make([]byte, 1), -1); err == nil {
				t.Errorf("%s of %d: it reads before the beginning", name, size)
			}
			check(t, r.e.Close())
		}
	}
}

// TestWriteAt keeps only complete cells.
func TestWriteAt(t *testing.T) {
	r := openRemote(t, openStore(t, t.TempDir(), 0), "k", 3*cell+10)
	defer r.e.Close()
	p := make([]byte, 3*cell+10)
	content("k", p, 0)
	for _, test := range []struct{ from, to, want int64 }{
		{0, cell - 1, 0}, {0, 2*cell - 1, cell}, {3 * cell, 3*cell + 9, 0}, {3 * cell, 3*cell + 10, 10}, {cell, cell, 0}, {cell, 3*cell + 10, 2*cell + 10},
	} {
		if n, err := r.e.WriteAt(p[test.from:test.to], test.from); int64(n) != test.want || err != nil {
			t.Errorf("[%d, %d): %d, %v, want %d", test.from, test.to, n, err, test.want)
		}
	}
	for _, off := range []int64{-cell, 1, cell + 1, 4 * cell} {
		if _, err := r.e.WriteAt(p[:cell], off); err == nil {
			t.Errorf("it takes a cell at %d", off)
		}
	}
	if n, err := r.local(); n != 3*cell+10 || err != nil {
		t.Error(n, err)
	}
}

// TestKept finds everything again: in another Store, and its first time.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	const size = 4*cell + 1
	s := openStore(t, dir, 0)
	r := openRemote(t, s, "k", size)
	check(t, r.read(0, size, size))
	again := openRemote(t, s, "k", size)
	if again.e != r.e {
		t.Error("two entries of one file in one Store")
	}
	check(t, r.e.Close())
	if n, err := again.local(); n != size || err != nil {
		t.Errorf("after one of two closed: %d, %v", n, err)
	}
	check(t, again.e.Close())
	check(t, s.Close())

	later := &remote{key: "k"}
	id := later.id(size)
	id.ModTime = time.Unix(2e9, 0)
	later.open(t, openStore(t, dir, 0), id)
	defer later.e.Close()
	if n, err := later.local(); n != size || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if got := later.e.ModTime(); !got.Equal(time.Unix(1e9, 0)) {
		t.Error("its time moved to", got)
	}
	for _, other := range []ID{{Key: "k", Size: size + 1}, {Key: "K", Size: size}, {Key: "p", Size: size, Private: true}} {
		o, err := later.e.s.Entry(other)
		check(t, err)
		if len(o.Missing(0, 1)) == 0 {
			t.Errorf("%+v has bytes of another", other)
		}
		check(t, o.Close())
	}
}

// TestModes holds that other users cannot read the cache, and that it contains no link and no
// device.
func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "cache")
	s := openStore(t, dir, 0)
	r := openRemote(t, s, "k", cell)
	check(t, r.read(0, cell, cell))
	check(t, s.Pin("hf:a/b@main", "commit"))
	check(t, r.e.Verify(context.Background()))
	check(t, r.e.Close())
	files := 0
	check(t, filepath.Walk(dir, func(path string, st os.FileInfo, err error) error {
		want := os.FileMode(0o600)
		if err == nil && st.IsDir() {
			want = 0o700 | os.ModeDir
		} else {
			files++
		}
		if err == nil && st.Mode() != want {
			t.Errorf("%s: %v", path, st.Mode())
		}
		return err
	}))
	if files < 6 {
		t.Errorf("%d files", files)
	}
	if b, err := os.ReadFile(filepath.Join(dir, version, tagName)); err != nil || !strings.HasPrefix(string(b), "Signature: 8a477f597d28d172789f06886806bc55") {
		t.Errorf("%q, %v", b, err)
	}
}

// TestWhole hands out the file when all is durable, and not before.
func TestWhole(t *testing.T) {
	dir := t.TempDir()
	const size = 3*cell + 7
	s := openStore(t, dir, 0)
	r := openRemote(t, s, "k", size)
	check(t, r.read(0, 3*cell, cell))
	if err := r.e.Verify(context.Background()); !errors.Is(err, ErrAbsent) {
		t.Error("an entry that lacks bytes is verified:", err)
	}
	check(t, r.read(0, size, cell))
	if _, ok := r.e.Whole(); ok {
		t.Error("whole before it is durable")
	}
	r.onDisk(t).finishIfComplete(false)
	f, ok := r.e.Whole()
	if !ok {
		t.Fatal("not whole")
	}
	defer f.Close()
	check(t, r.e.Forget()) // what was handed out stays
	check(t, r.e.Close())
	b, err := io.ReadAll(f)
	if err != nil || int64(len(b)) != size {
		t.Fatal(len(b), err)
	}
	check(t, r.compare(b, 0))
	if _, err := f.WriteAt([]byte{1}, 0); err == nil {
		t.Error("the whole file can be written to")
	}
}

// TestWholeFromAnother notices that another process made an entry whole.
func TestWholeFromAnother(t *testing.T) {
	dir := t.TempDir()
	a := openRemote(t, openStore(t, dir, 0), "k", 2*cell)
	b := openRemote(t, openStore(t, dir, 0), "k", 2*cell)
	defer a.e.Close()
	defer b.e.Close()
	check(t, a.read(0, 2*cell, cell))
	if _, ok := b.e.Whole(); ok {
		t.Error("whole too early")
	}
	check(t, a.e.Verify(context.Background()))
	b.onDisk(t).looked.Store(0)
	f, ok := b.e.Whole()
	if !ok {
		t.Fatal("not whole")
	}
	f.Close()
}

// TestNobodyWritesToWhole holds that an entry does not become whole while another
// process writes to it, and that nothing is written to it afterwards.
func TestNobodyWritesToWhole(t *testing.T) {
	dir := t.TempDir()
	a := openRemote(t, openStore(t, dir, 0), "k", 2*cell)
	b := openRemote(t, openStore(t, dir, 0), "k", 2*cell)
	defer a.e.Close()
	defer b.e.Close()
	check(t, a.read(0, 2*cell, cell))
	d := a.onDisk(t)
	made := make(chan error, 1)
	err := b.onDisk(t).exclusively(func() error {
		go func() { made <- d.verifyWhole(t.Context(), true) }()
		select {
		case err := <-made:
			t.Error("whole while another process writes:", err)
		case <-time.After(3 * lockPoll):
		}
		return nil
	})
	check(t, err)
	check(t, testlimit.Receive(t, "whole", made))
	if !d.whole.Load() {
		t.Fatal("it is not whole")
	}
	before, err := d.data.Stat()
	check(t, err)
	p := make([]byte, 2*cell)
	if n, err := b.e.WriteAt(p, 0); n != len(p) || err != nil {
		t.Error(n, err)
	}
	after, err := d.data.Stat()
	check(t, err)
	if !after.ModTime().Equal(before.ModTime()) {
		t.Error("a whole file was written to")
	}
	if n, err := b.local(); n != 2*cell || err != nil {
		t.Error(n, err)
	}
}

// TestForget removes an entry from the disk, and for others that have it open.
func TestForget(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 0)
	a := openRemote(t, s, "k", 2*cell)
	b := openRemote(t, openStore(t, dir, 0), "k", 2*cell)
	defer b.e.Close()
	check(t, a.read(0, 2*cell, cell))
	check(t, a.e.Forget())
	for _, r := range []*remote{a, b} {
		if n, err := r.local(); n != 0 || err != nil {
			t.Error(n, err)
		}
		check(t, r.read(0, 2*cell, cell)) // it goes on
	}
	fresh := openRemote(t, s, "k", 2*cell)
	if n, err := fresh.local(); n != 0 || err != nil || fresh.e == a.e {
		t.Error(n, err)
	}
	check(t, a.e.Close())
	check(t, fresh.e.Close())
	if list, err := s.List(); len(list) != 1 || err != nil {
		t.Error(list, err)
	}
}

// TestPrivate is gone when it is closed, and when its process was killed.
func TestPrivate(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 1<<30)
	r := &remote{key: "k"}
	id := r.id(2 * cell)
	id.Private = true
	r.open(t, s, id)
	check(t, r.read(0, 2*cell, cell))
	d := r.onDisk(t)
	other := (&remote{key: "k"}).open(t, s, id)
	if n, err := other.local(); n != 0 || err != nil {
		t.Error("two private files share bytes:", n, err)
	}
	check(t, other.e.Close())
	check(t, r.e.Close())
	if _, err := os.Lstat(d.place()); !errors.Is(err, os.ErrNotExist) {
		t.Error("it is still there:", err)
	}
	r.open(t, s, id)
	d = r.onDisk(t)
	check(t, d.die())
	if _, err := s.sweep(PruneOptions{Size: 1 << 30}); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(d.place()); !errors.Is(err, os.ErrNotExist) {
		t.Error("it is left over:", err)
	}
}

// TestEntryRefuses refuses files that cannot be cached.
func TestEntryRefuses(t *testing.T) {
	s := openStore(t, t.TempDir(), 0)
	for _, id := range []ID{
		{Key: "k", Size: -1}, {Key: "k", Size: MaxSize + 1}, {Size: 1},
		{Key: "k", Digest: "sha256:00"}, {Key: "k", Digest: "md5:00"}, {Key: "k", Digest: "sha256"},
		{Key: "k", Digest: "sha256:" + strings.Repeat("A", 64)}, {Key: "k", Digest: "git:" + strings.Repeat("a", 64)},
	} {
		if e, err := s.Entry(id); err == nil {
			t.Errorf("%+v is taken", id)
			e.Close()
		}
	}
	// A size that a liar gave costs no memory and little disk.
	var e *Entry
	if n := testlimit.Allocated(func() {
		var err error
		e, err = s.Entry(ID{Key: "k", Size: MaxSize})
		check(t, err)
	}); n > 64<<20 {
		t.Errorf("%d bytes of memory for an empty entry", n)
	}
	check(t, e.Close())
}

// TestWriter gives cells to readers before they are on the disk, and stores them together.
func TestWriter(t *testing.T) {
	const size = 11*cell + 5
	for name, budget := range map[string]int64{"disk": 0, "memory": -1, "full": 1} {
		t.Run(name, func(t *testing.T) {
			r := openRemote(t, openStore(t, t.TempDir(), budget), "k", size)
			defer r.e.Close()
			p := make([]byte, size)
			content("k", p, 0)
			w := r.e.Writer(0)
			var came []int64
			got, err := w.Fill(bytes.NewReader(p[:3*cell+9]), size, func(n int64) { came = append(came, n) })
			if got != 3*cell || err != io.ErrUnexpectedEOF || !slices.Equal(came, []int64{cell, cell, cell}) {
				t.Errorf("%d, %v, %v", got, err, came)
			}
			if n, err := r.local(); n != 3*cell || err != nil {
				t.Errorf("%d bytes can be read, %v", n, err)
			}
			if n := r.e.Stored(0, size); n != 0 {
				t.Errorf("%d bytes are on the disk", n)
			}
			got, err = w.Fill(bytes.NewReader(p[3*cell:]), size-3*cell, nil)
			if got != size-3*cell || err != nil {
				t.Errorf("%d, %v", got, err)
			}
			if n := r.e.Stored(0, size); n != map[string]int64{"disk": 8 * cell}[name] {
				t.Errorf("%d bytes are on the disk", n)
			}
			if n, err := r.local(); n != size || err != nil {
				t.Errorf("%d bytes can be read, %v", n, err)
			}
			check(t, w.Close())
			if n, err := r.local(); n != size || err != nil || len(r.e.coming.ranges()) > 0 {
				t.Errorf("%d bytes can be read, %v", n, err)
			}
		})
	}
}

// TestClaim lets one fetch a cell at a time: within a process, and between two.
func TestClaim(t *testing.T) {
	dir := t.TempDir()
	a := openRemote(t, openStore(t, dir, 0), "k", 8*cell)
	b := openRemote(t, openStore(t, dir, 0), "k", 8*cell) // it has files of its own, as another process
	defer a.e.Close()
	defer b.e.Close()
	for name, other := range map[string]*remote{"same": a, "other": b} {
		if runtime.GOOS == "darwin" { // there are no such locks
			continue
		}
		release, err := a.e.Claim(t.Context(), Range{cell, 2 * cell})
		check(t, err)
		free, err := other.e.Claim(t.Context(), Range{3 * cell, cell}) // others are free
		check(t, err)
		free()
		ctx, cancel := context.WithTimeout(t.Context(), 3*lockPoll)
		if _, err := other.e.Claim(ctx, Range{2*cell + 5, 1}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: two have a cell: %v", name, err)
		}
		cancel()
		got := make(chan error, 1)
		go func() {
			release, err := other.e.Claim(t.Context(), Range{0, 8 * cell})
			if err == nil {
				release()
			}
			got <- err
		}()
		release()
		check(t, testlimit.Receive(t, "claim", got))
	}
	// Who waits for bytes that come does not wait for more.
	release, err := a.e.Claim(t.Context(), Range{0, 8 * cell})
	check(t, err)
	got := make(chan error, 2)
	for _, r := range []*remote{a, b} {
		go func() {
			release, err := r.e.Claim(t.Context(), Range{5 * cell, 1})
			if err == nil {
				release()
			}
			got <- err
		}()
	}
	p := make([]byte, cell)
	content("k", p, 5*cell)
	_, err = a.e.WriteAt(p, 5*cell)
	check(t, err)
	check(t, testlimit.Receive(t, "claim", got))
	check(t, testlimit.Receive(t, "claim", got))
	release()
	free, err := b.e.Claim(t.Context(), Range{0, 8 * cell})
	check(t, err)
	free()
}

// TestMemory bounds what is kept without a disk.
func TestMemory(t *testing.T) {
	s := openStore(t, "", -1)
	s.memory.limit = 3 * cell
	a, b := openRemote(t, s, "a", 9*cell+3), openRemote(t, s, "b", cell)
	check(t, a.read(0, cell, cell))
	check(t, b.read(0, cell, cell))
	check(t, a.read(4*cell, cell, cell))
	check(t, a.read(0, cell, cell)) // used last
	check(t, a.read(9*cell, 3, cell))
	check(t, a.read(8*cell, cell, cell))
	if len(b.e.Missing(0, 1)) == 0 || len(a.e.Missing(0, 1)) > 0 || s.memory.bytes > s.memory.limit {
		t.Error("not those that were used last are kept:", a.e.Missing(0, a.e.Size()), s.memory.bytes)
	}
	check(t, a.fetch(0, a.e.Size(), 2*cell)) // more than there is room for
	if n, err := a.local(); n == 0 || n > s.memory.limit || err != nil {
		t.Error(n, err)
	}
	if err := a.e.Verify(t.Context()); !errors.Is(err, ErrAbsent) {
		t.Error(err)
	}
	check(t, a.e.Close())
	check(t, b.e.Close())
	if s.memory.bytes != 0 || len(s.memory.cells) != 0 || s.memory.order.Len() != 0 {
		t.Error("closed entries keep memory")
	}
	a.e.s.memory.put(a.e, 0, bytes.Repeat([]byte{1}, cell))
	if s.memory.bytes != 0 {
		t.Error("a closed entry takes memory")
	}
}

// TestPins keeps values of names.
func TestPins(t *testing.T) {
	type value struct{ Commit string }
	dir := t.TempDir()
	for name, budget := range map[string]int64{"disk": 0, "memory": -1} {
		s := openStore(t, dir, budget)
		var got value
		if _, ok := s.Pinned("n", &got); ok {
			t.Error(name, "a value that nobody kept")
		}
		check(t, s.Pin("n", value{"a"}))
		check(t, s.Pin("n", value{"b"}))
		at, ok := s.Pinned("n", &got)
		if !ok || got.Commit != "b" || time.Since(at) > time.Hour || at.IsZero() {
			t.Error(name, got, at, ok)
		}
		if _, ok := s.Pinned("n", new(int)); ok {
			t.Error(name, "a value of another type")
		}
		if err := s.Pin("n", func() {}); err == nil {
			t.Error(name, "a value that is no JSON")
		}
		if budget < 0 {
			continue
		}
		if _, ok := openStore(t, dir, 0).Pinned("n", &got); !ok {
			t.Error("it is not kept")
		}
		for _, text := range []string{"", "{", "null", `{"name":"other","value":{}}`, strings.Repeat("[", 1<<20)} {
			check(t, os.WriteFile(s.pinPath("n"), []byte(text), 0o600))
			if _, ok := s.Pinned("n", &got); ok {
				t.Errorf("%.20q is a value", text)
			}
		}
		check(t, os.Remove(s.pinPath("n")))
	}
}
