package cache

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestDirectory refuses directories that are not fit, with what to do.
func TestDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o600))
	open := t.TempDir()
	check(t, os.Chmod(open, 0o777))
	group := t.TempDir()
	s := openStore(t, group, 0)
	check(t, os.Chmod(s.path(filesDir), 0o770))
	for dir, want := range map[string]string{
		file:                          "name another directory",
		filepath.Join(file, "below"):  "name another directory",
		open:                          "chmod go-w",
		group:                         "chmod go-w",
		"/proc/nothing":               "name another directory",
		filepath.Join(open, "\x00\n"): "name another directory",
	} {
		_, err := Open(Options{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", dir, err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: the directory of another user, because that takes root")
	}
	other := t.TempDir()
	check(t, os.Chown(other, 12345, -1))
	if _, err := Open(Options{Dir: other}); err == nil || !strings.Contains(err.Error(), "another user (12345)") {
		t.Error(err)
	}
	// A link that another user planted, with and without a slash; the user's own links are
	// followed.
	target, links := t.TempDir(), t.TempDir()
	check(t, os.Chmod(target, 0o700))
	planted, own := filepath.Join(links, "planted"), filepath.Join(links, "own")
	check(t, errors.Join(os.Symlink(target, planted), os.Lchown(planted, 12345, -1), os.Symlink(target, own)))
	for _, dir := range []string{planted, planted + "/", planted + "/."} {
		if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "symbolic link of another user (12345)") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if names, err := os.ReadDir(target); err != nil || len(names) > 0 {
		t.Errorf("made in the directory of a planted link: %v, %v", names, err)
	}
	openStore(t, own, 0)
}

// TestDefaultDir finds the directory.
func TestDefaultDir(t *testing.T) {
	wd, err := os.Getwd()
	check(t, err)
	for _, test := range []struct{ variable, xdg, home, want string }{
		{"/a", "/b", "/c", "/a"},
		{"a", "/b", "/c", filepath.Join(wd, "a")},
		{"", "/b", "/c", "/b/tensorfs"},
		{"", "b", "/c", "/c/.cache/tensorfs"},
		{"", "", "/c", "/c/.cache/tensorfs"},
		{"", "", "", "/var/cache/tensorfs"},
		{"", "", "/", "/var/cache/tensorfs"},
	} {
		t.Setenv(dirVariable, test.variable)
		t.Setenv("XDG_CACHE_HOME", test.xdg)
		t.Setenv("HOME", test.home)
		if test.want == "/var/cache/tensorfs" && os.Geteuid() != 0 {
			continue
		}
		if got, err := DefaultDir(); got != test.want || err != nil {
			t.Errorf("%+v: %s, %v", test, got, err)
		}
	}
}

// TestLeftovers removes half-made entries of killed processes, and keeps entries that a running
// process may be making.
func TestLeftovers(t *testing.T) {
	s := openStore(t, t.TempDir(), 1<<30)
	for i, name := range []string{"gone-1", "new-1", "new-2", "file-1"} {
		check(t, os.Mkdir(s.path(tmpDir, name), 0o700))
		check(t, os.WriteFile(s.path(tmpDir, name, "data"), []byte("x"), 0o600))
		if i > 1 {
			old := time.Now().Add(-making - time.Second)
			check(t, os.Chtimes(s.path(tmpDir, name), old, old))
		}
	}
	left := func(when string) {
		t.Helper()
		list, err := os.ReadDir(s.path(tmpDir))
		if err != nil || len(list) != 1 || list[0].Name() != "new-1" {
			t.Error(when, list, err)
		}
	}
	used, _ := s.keeper.count()
	left("counted:")
	if used == 0 {
		t.Error("what is being made takes nothing")
	}
	check(t, os.Mkdir(s.path(tmpDir, "gone-2"), 0o700))
	_, err := s.Prune(PruneOptions{Size: math.MaxInt64})
	check(t, err)
	left("pruned:")
}

// TestAccounting counts the blocks of files on the disk, and not their holes.
func TestAccounting(t *testing.T) {
	s := openStore(t, t.TempDir(), 1<<30)
	r := openRemote(t, s, "k", 1<<40)
	check(t, r.read(1<<39, 8*mib, mib))
	check(t, s.Pin("n", strings.Repeat("x", mib)))
	used, _ := s.keeper.count()
	if most := int64(10 * mib); used < 9*mib || used > most { // the state has a hole, too
		t.Errorf("%d bytes", used)
	}
	check(t, r.e.Close())
	_, err := s.Prune(PruneOptions{Size: 0, Names: true})
	check(t, err)
	if used, _ := s.keeper.count(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

// TestTwoProcesses (row 7) lets two fill the same entries: each byte is fetched once, or
// nearly.
func TestTwoProcesses(t *testing.T) {
	const size = 24*mib + 5
	spec := fillerSpec{Dir: t.TempDir(), Budget: 1 << 30, Keys: []string{"a", "b"}, Size: size, Most: 8 * cell, Rounds: 1}
	a := startFiller(t, spec)
	b := startFiller(t, spec)
	fetched := a.wait(t) + b.wait(t)
	if most := int64(2 * size * 105 / 100); fetched > most && runtime.GOOS != "darwin" || fetched < 2*size {
		t.Errorf("%d bytes were fetched, of %d", fetched, 2*size)
	}
	s := openStore(t, spec.Dir, 1<<30)
	list, err := s.List()
	check(t, err)
	for _, info := range list {
		if !info.Whole || info.Cached != size || info.InUse {
			t.Errorf("%+v", info)
		}
	}
	if len(list) != 2 {
		t.Error(list)
	}
}

// TestBudget (row 24) keeps a cache below its budget while two processes read more than it
// holds, twice, and a third prunes it.
func TestBudget(t *testing.T) {
	const budget, size = 16 * mib, 24 * mib
	dir := t.TempDir()
	keys := []string{"a", "b"}
	spec := fillerSpec{Dir: dir, Budget: budget, Keys: keys, Size: size, Most: 8 * cell, Rounds: 2}
	most := int64(0)
	var list []*filler
	for i := range 2 {
		spec.Seed = uint64(i)
		spec.Reads = i * 300
		list = append(list, startFiller(t, spec))
	}
	s := openStore(t, dir, budget)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if _, err := s.Prune(PruneOptions{Size: -1}); err != nil && err != errSweeping {
				t.Error(err)
				return
			}
			most = max(most, diskUse(t, dir))
		}
	})
	fetched := int64(0)
	for _, f := range list {
		fetched += f.wait(t)
	}
	close(stop)
	wg.Wait()
	most = max(most, diskUse(t, dir))
	t.Logf("at most %.1f MiB of %d on the disk, %d MiB fetched", float64(most)/mib, int64(budget)/mib, fetched/mib)
	if most > budget*5/4 {
		t.Errorf("%d bytes on the disk, %d are allowed", most, int64(budget))
	}
	if most < budget/2 {
		t.Errorf("only %d bytes were ever on the disk", most)
	}
}
