package cache

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const mib = 1 << 20

// TestSweepUnused removes entries that no process has open, the longest unused first, and never one
// in use.
func TestSweepUnused(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 1<<30)
	dirs := map[string]string{}
	for i, key := range []string{"old", "open", "new"} {
		r := openRemote(t, s, key, 8*cell)
		check(t, r.read(0, 8*cell, cell))
		d := r.onDisk(t)
		dirs[key] = d.place()
		check(t, r.e.Close())
		at := time.Unix(int64(1e9+i), 0)
		check(t, os.Chtimes(filepath.Join(d.place(), stateName), at, at))
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
				switch _, err := s.sweep(PruneOptions{}); err {
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
				if _, err := s.sweep(PruneOptions{}); err != nil && err != errSweeping {
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
		if linked, err := sameFile(d.state, filepath.Join(d.place(), stateName)); !linked || err != nil {
			t.Errorf("an open entry was removed: %v", err)
		}
		check(t, r.e.Close())
	}
	done.Store(true)
	wg.Wait()
}
