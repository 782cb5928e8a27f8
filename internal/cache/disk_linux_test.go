package cache

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tmpfs mounts a small file system in memory.
func tmpfs(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tensorfs-test", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Skipf("NOT TESTED: a full disk, because no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// TestDiskFull (row 24) reads more than the disk holds: with a budget that it cannot have,
// and with room that another program takes.
func TestDiskFull(t *testing.T) {
	dir := tmpfs(t, "16m")
	spec := fillerSpec{Dir: dir, Budget: 1 << 30, Keys: []string{"a", "b"}, Size: 24 * mib, Most: 8 * cell, Rounds: 2}
	startFiller(t, spec).wait(t)

	log := &logs{}
	s, err := Open(Options{Dir: dir, Budget: 1 << 30, Logger: log.logger()})
	check(t, err)
	defer s.Close()
	_, err = s.Prune(PruneOptions{Size: 0})
	check(t, err)
	r := openRemote(t, s, "k", 12*mib)
	check(t, r.read(0, 4*mib, cell))
	// The whole disk is taken at once, before the keeper looks again.
	hog, err := os.Create(filepath.Join(dir, "hog"))
	check(t, err)
	for p := make([]byte, mib); err == nil; {
		_, err = hog.Write(p)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	s.keeper.limit.Store(1 << 30)
	for off := int64(0); off < 24*mib; off += mib {
		check(t, r.read(off%(12*mib), mib, cell))
	}
	// No room for another entry either.
	other := openRemote(t, s, "other", 2*mib)
	check(t, other.read(0, mib, cell))
	check(t, other.read(mib, mib, cell))
	check(t, other.e.Close())
	check(t, s.Pin("n", strings.Repeat("x", mib)))
	var text string
	if _, ok := s.Pinned("n", &text); !ok || len(text) != mib {
		t.Error("what could not be written is lost")
	}
	full := 0
	for _, line := range log.lines() {
		if strings.Contains(line, "it goes on in memory") {
			full++
		}
	}
	if full != 1 || len(log.lines()) > 4 {
		t.Errorf("logged %d times: %s", full, log.lines())
	}
	check(t, hog.Close())
	check(t, os.Remove(hog.Name()))
	s.keeper.tidy()
	check(t, r.read(0, 12*mib, cell))
	check(t, r.e.Close())
	r = openRemote(t, openStore(t, dir, 1<<30), "k", 12*mib)
	defer r.e.Close()
	if n, err := r.local(); n == 0 || err != nil {
		t.Error("nothing was stored once there was room:", n, err)
	}
}

// TestLimit leaves a twentieth of the disk free, whatever the budget.
func TestLimit(t *testing.T) {
	dir := tmpfs(t, "20m")
	for budget, want := range map[int64]int64{0: 2 * mib, 4 * mib: 4 * mib, 1 << 30: 19 * mib} {
		s := openStore(t, dir, budget)
		// Directories take room on some systems.
		if got, _ := s.keeper.limitAt(0); got > want || got < want-mib/4 {
			t.Errorf("budget %d: %d, want %d", budget, got, want)
		}
	}
}

// TestReadOnlyDisk continues in memory after one warning.
func TestReadOnlyDisk(t *testing.T) {
	dir := tmpfs(t, "1m")
	check(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	log := &logs{}
	s, err := Open(Options{Dir: filepath.Join(dir, "cache"), Logger: log.logger()})
	check(t, err)
	defer s.Close()
	r := openRemote(t, s, "k", 3*cell)
	defer r.e.Close()
	check(t, r.read(0, 3*cell, cell))
	if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "memory only") || s.Dir() != "" {
		t.Error(lines, s.Dir())
	}
	if list, err := s.List(); len(list) != 0 || err != nil {
		t.Error(list, err)
	}
	if _, err := s.Prune(PruneOptions{}); err != nil {
		t.Error(err)
	}
}

// TestRemoteFileSystem knows file systems that are not of this machine.
func TestRemoteFileSystem(t *testing.T) {
	var st unix.Statfs_t
	check(t, unix.Statfs(t.TempDir(), &st))
	if name := remoteFileSystem(&st); name != "" {
		t.Error("the directory of the tests is on", name)
	}
	for _, magic := range []uint32{0x6969, 0xff534d42, 0xfe534d42, 0x517b, 0x65735546} {
		st.Type = int64(magic)
		if remoteFileSystem(&st) == "" {
			t.Errorf("%#x is taken", magic)
		}
	}
}
