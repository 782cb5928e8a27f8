package cache

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
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
	gone := int64(0)
	for _, m := range r.e.Missing(0, n*cell) {
		gone += m.N
	}
	if gone != 4*cell || len(r.e.Missing(2*cell, 2*cell)) > 0 { // one was never there
		t.Error(r.e.Missing(0, n*cell))
	}
	check(t, r.read(0, n*cell, cell))
	check(t, r.e.Verify(t.Context()))
	punch(n * cell)
	if freed := punch(n * cell); freed != 0 || len(r.e.Missing(0, n*cell)) > 0 {
		t.Errorf("a whole entry lost %d bytes", freed)
	}
}

// sweepCell sweeps a cell at once, also if it was just used.
func (d *disk) sweepCell(i int64) error {
	return d.cells.guard(func() error {
		d.cells.begin()
		if !d.cells.change(i, func(b byte) (byte, bool) { return b | swept, isLocal(b) }) {
			return nil
		}
		if err := punch(d.data, i*cell, cell); err != nil {
			return err
		}
		d.cells.change(i, func(b byte) (byte, bool) { return emptied(b), b&stateMask == swept })
		return nil
	})
}

// TestSweepWhileReading reads and writes without a pause while every cell is swept
// again and again: what is read is right, or absent.
func TestSweepWhileReading(t *testing.T) {
	needHoles(t)
	s := openStore(t, t.TempDir(), 1<<30)
	s.memory.limit = 0 // what is not stored is fetched again
	const n = 4
	enough := int64(1000)
	if testing.Short() {
		enough = 300
	}
	r := openRemote(t, s, "k", (n+1)*cell) // it is never whole
	defer r.e.Close()
	d := r.onDisk(t)
	all := make([]byte, n*cell)
	content("k", all, 0)
	var wg sync.WaitGroup
	var reads, gone atomic.Int64
	done := func() bool { return reads.Load() >= enough && gone.Load() >= enough || t.Failed() }
	for range 3 {
		wg.Go(func() {
			p := make([]byte, cell+cell/2)
			for i := int64(0); !done(); i++ {
				off := i * 7777 % (n*cell - int64(len(p)))
				_, err := r.e.ReadAt(p, off)
				switch {
				case err == nil:
					reads.Add(1)
					if k := different(p, all[off:off+int64(len(p))]); k >= 0 {
						err = fmt.Errorf("wrong bytes at %d", off+int64(k))
					}
				case errors.Is(err, ErrAbsent):
					gone.Add(1)
					for _, m := range r.e.Missing(off, int64(len(p))) { // without a claim: several write
						if _, err = r.e.WriteAt(all[m.Off:m.Off+m.N], m.Off); err != nil {
							break
						}
					}
				}
				if err != nil && err != ErrAbsent {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		random := rand.New(rand.NewPCG(1, 2))
		for !done() {
			i := random.Int64N(n)
			if !d.has(i) {
				runtime.Gosched()
				continue
			}
			for range random.IntN(200) { // at any time of a read
				d.has(i)
			}
			if err := d.sweepCell(i); err != nil {
				t.Error(err)
			}
		}
	})
	testlimit.Return("reading", wg.Wait)
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
		epoch := d.cells.epoch()
		for i := range generations {
			if d.cells.comparable(epoch) != (i < generations-1) {
				t.Errorf("after %d times: comparable is %t", i, d.cells.comparable(epoch))
			}
			d.cells.begin()
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

// TestPruneWhileOpening removes everything while entries are opened and closed: an
// entry that is open is the one of its name.
func TestPruneWhileOpening(t *testing.T) {
	dir := t.TempDir()
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		s := openStore(t, dir, 1<<30)
		wg.Go(func() {
			for !done.Load() {
				if _, err := s.sweep(sweepOptions{}); err != nil && err != errSweeping {
					t.Error(err)
					return
				}
			}
		})
	}
	s := openStore(t, dir, 1<<30)
	for range 500 {
		r := openRemote(t, s, "k", cell)
		d := r.onDisk(t)
		if linked, err := sameFile(d.state, filepath.Join(d.dir, stateName)); !linked || err != nil {
			t.Errorf("an open entry was removed: %v", err)
		}
		check(t, r.e.Close())
	}
	done.Store(true)
	wg.Wait()
}
