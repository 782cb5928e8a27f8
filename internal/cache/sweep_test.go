package cache

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testlimit"
)

const mib = 1 << 20

// TestSweepUnused removes what nobody has open, those that were not used for
// longest first, and never what is in use.
func TestSweepUnused(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 1<<30)
	dirs := map[string]string{}
	for i, key := range []string{"old", "open", "new"} {
		r := openRemote(t, s, key, 8*cell)
		check(t, r.read(0, 8*cell, cell))
		d := r.onDisk(t)
		dirs[key] = d.dir
		check(t, r.e.Close())
		at := time.Unix(int64(1e9+i), 0)
		check(t, os.Chtimes(filepath.Join(d.dir, stateName), at, at))
	}
	open := openRemote(t, openStore(t, dir, 1<<30), "open", 8*cell)
	defer open.e.Close()
	there := func() (list []string) {
		for _, key := range []string{"old", "open", "new"} {
			if _, err := os.Lstat(dirs[key]); err == nil {
				list = append(list, key)
			}
		}
		return list
	}
	all, _ := s.keeper.count()
	for _, step := range []struct {
		target int64
		want   []string
		swept  Swept
	}{
		{all, []string{"old", "open", "new"}, Swept{}},
		{all - 1, []string{"open", "new"}, Swept{Entries: 1}},
		{0, []string{"open"}, Swept{Entries: 1, InUse: 1}},
	} {
		swept, err := s.Prune(PruneOptions{Size: step.target})
		check(t, err)
		if swept.Entries > 0 && swept.Bytes < mib {
			t.Errorf("%d bytes were swept", swept.Bytes)
		}
		swept.Bytes = 0
		if got := there(); strings.Join(got, " ") != strings.Join(step.want, " ") || swept != step.swept {
			t.Errorf("down to %d: %v are there, %+v; want %v, %+v", step.target, got, swept, step.want, step.swept)
		}
	}
	if n, err := open.local(); n != 8*cell || err != nil {
		t.Error(n, err)
	}
	if after, _ := s.keeper.count(); after > mib+mib/4 || after < mib {
		t.Errorf("%d bytes are left", after)
	}
}

// TestPrune removes by name.
func TestPrune(t *testing.T) {
	s := openStore(t, t.TempDir(), 1<<30)
	for _, key := range []string{"a", "b"} {
		r := openRemote(t, s, key, cell)
		check(t, r.read(0, cell, cell))
		check(t, r.e.Close())
	}
	check(t, s.Pin("n", 1))
	swept, err := s.Prune(PruneOptions{Size: math.MaxInt64, Match: func(source string) bool { return source == "test:a" }})
	check(t, err)
	list, err := s.List()
	if err != nil || swept.Entries != 1 || len(list) != 1 || list[0].Source != "test:b" || list[0].Cached != cell || !list[0].Whole || list[0].InUse {
		t.Errorf("%+v, %+v, %v", swept, list, err)
	}
	if _, ok := s.Pinned("n", new(int)); !ok {
		t.Error("the pin is gone")
	}
	_, err = s.Prune(PruneOptions{Names: true})
	check(t, err)
	if _, ok := s.Pinned("n", new(int)); ok {
		t.Error("the pin is there")
	}
}

// needHoles skips a test of what is only done where parts of a file can be given
// back.
func needHoles(t *testing.T) {
	t.Helper()
	if !canPunch {
		t.Skip("NOT TESTED: sweeps of files in use, because no holes can be made here")
	}
}

// TestPunch takes the cells that were not used since the last sweep from an entry
// that is in use, and gives their room back.
func TestPunch(t *testing.T) {
	needHoles(t)
	s := openStore(t, t.TempDir(), 1<<30)
	const n = 16
	r := openRemote(t, s, "k", n*cell)
	defer r.e.Close()
	check(t, r.read(0, (n-1)*cell, cell)) // not whole
	d := r.onDisk(t)
	punch := func(need int64) int64 {
		t.Helper()
		freed, err := s.punchEntry(d.dir, need)
		check(t, err)
		return freed
	}
	if freed := punch(n * cell); freed != 0 {
		t.Errorf("%d bytes of used cells were swept", freed)
	}
	check(t, r.read(2*cell, 2*cell, cell)) // used again
	if freed := punch(3 * cell); freed != 3*cell {
		t.Errorf("%d bytes were freed", freed)
	}
	if got := r.e.Missing(0, n*cell); len(got) != 3 || got[0] != (Range{0, 2 * cell}) || got[1] != (Range{4 * cell, cell}) {
		t.Error(got)
	}
	check(t, r.read(0, n*cell, cell))
	check(t, r.e.Verify(t.Context()))
	punch(n * cell)
	if freed := punch(n * cell); freed != 0 || len(r.e.Missing(0, n*cell)) > 0 {
		t.Errorf("a whole entry lost %d bytes", freed)
	}
}

// TestSweepWhileReading reads without a pause while every cell is swept again and
// again: what is read is right, or absent.
func TestSweepWhileReading(t *testing.T) {
	needHoles(t)
	s := openStore(t, t.TempDir(), 1<<30)
	const n = 12
	r := openRemote(t, s, "k", n*cell)
	defer r.e.Close()
	d := r.onDisk(t)
	var done atomic.Bool
	var wg sync.WaitGroup
	var reads, gone atomic.Int64
	for range 3 {
		wg.Go(func() {
			mine := &remote{e: r.e, key: "k"}
			p := make([]byte, 3*cell)
			for i := int64(0); !done.Load(); i++ {
				off := i * 7777 % ((n - 3) * cell)
				if _, err := r.e.ReadAt(p, off); err == nil {
					reads.Add(1)
					if err := mine.compare(p, off); err != nil {
						t.Error(err)
						return
					}
				} else if errors.Is(err, ErrAbsent) {
					gone.Add(1)
					if err := mine.fetch(off, int64(len(p)), cell); err != nil {
						t.Error(err)
						return
					}
				} else {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		defer done.Store(true)
		for range 1000 {
			if _, err := s.punchEntry(d.dir, n*cell/2); err != nil {
				t.Error(err)
				return
			}
			if t.Failed() {
				return
			}
		}
	})
	testlimit.Return("reading", wg.Wait)
	if reads.Load() == 0 || gone.Load() == 0 {
		t.Errorf("%d reads, %d of them found nothing", reads.Load(), gone.Load())
	}
}

// TestGeneration notices a sweep between two looks at a cell.
func TestGeneration(t *testing.T) {
	needHoles(t)
	s := openStore(t, t.TempDir(), 1<<30)
	r := openRemote(t, s, "k", 2*cell)
	defer r.e.Close()
	check(t, r.read(0, cell, cell))
	d := r.onDisk(t)
	var seen byte
	check(t, d.cells.guard(func() error { seen = d.cells.load(0); return nil }))
	for range 2 {
		_, err := s.punchEntry(d.dir, cell)
		check(t, err)
	}
	check(t, r.read(0, cell, cell))
	check(t, d.cells.guard(func() error {
		if b := d.cells.load(0); b == seen || !isLocal(b) || d.cells.swap(0, seen, seen) {
			t.Errorf("%#x after %#x", b, seen)
		}
		return nil
	}))
	for b := range 256 {
		next := emptied(byte(b))
		if isLocal(next) || next&stateMask != absent || next&used != 0 || next&generationMask == byte(b)&generationMask {
			t.Errorf("%#x is %#x when it is emptied", b, next)
		}
	}
}

// TestSwept holds that a cell that is being swept is neither read nor stored, and
// that a sweep that was killed is ended by the next.
func TestSwept(t *testing.T) {
	needHoles(t)
	s := openStore(t, t.TempDir(), 1<<30)
	r := openRemote(t, s, "k", 2*cell)
	defer r.e.Close()
	check(t, r.read(0, cell, cell))
	d := r.onDisk(t)
	check(t, d.cells.guard(func() error {
		d.cells.change(0, func(b byte) (byte, bool) { return b | swept, true })
		return nil
	}))
	if len(r.e.Missing(0, cell)) != 1 {
		t.Error("a cell that is being swept is local")
	}
	check(t, r.read(0, cell, cell)) // by memory
	if got := d.states(t); got != [4]int{1, 0, 0, 1} {
		t.Error(got)
	}
	freed, err := s.punchEntry(d.dir, cell)
	check(t, err)
	if got := d.states(t); got != [4]int{2, 0, 0, 0} || freed != cell {
		t.Error(got, freed)
	}
}

// TestSweepers lets many sweep at once: one does.
func TestSweepers(t *testing.T) {
	dir := t.TempDir()
	r := openRemote(t, openStore(t, dir, 1<<30), "k", 20*cell)
	defer r.e.Close()
	var wg sync.WaitGroup
	var swept, busy atomic.Int64
	for range 4 {
		s := openStore(t, dir, 1<<30)
		wg.Go(func() {
			for range 50 {
				switch _, err := s.sweep(sweepOptions{target: 0, punch: true}); err {
				case nil:
					swept.Add(1)
				case errSweeping:
					busy.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		check(t, r.read(0, 19*cell, cell))
	}
	wg.Wait()
	if swept.Load() == 0 {
		t.Error("nobody swept")
	}
	t.Logf("%d sweeps, %d found another", swept.Load(), busy.Load())
}
