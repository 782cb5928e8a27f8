package fs

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
)

// unserved mounts at a new directory, and returns what a server leaves behind. Nothing may access the mount,
// because no server answers.
func unserved(t *testing.T) (device int, was state) {
	t.Helper()
	dir := filepath.Join(tempDir(t), "m")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	device, err := mounts.MountFUSE(dir, "test", maxRequest, mounts.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Close(device)
		_ = (&mounts.Mount{Mountpoint: dir}).Unmount(true) // it may be gone
	})
	m, err := mounts.Top(dir)
	if err != nil || m == nil {
		t.Fatalf("%v, %v", m, err)
	}
	return device, state{Mountpoint: dir, Device: m.Device}
}

// A wrong state must not detach a mount: the state has to match the mount point and the device that came with it.
func TestOwnMount(t *testing.T) {
	needFUSE(t)
	a, ofA := unserved(t)
	b, ofB := unserved(t)
	link := filepath.Join(tempDir(t), "link")
	if err := os.Symlink(filepath.Dir(ofA.Mountpoint), link); err != nil {
		t.Fatal(err)
	}
	fresh, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fresh)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	_, known := mounts.Connection(a)
	for _, c := range []struct {
		name    string
		state   state
		device  int
		at      string
		own     bool
		strange bool
	}{
		{"its own", ofA, a, ofA.Mountpoint, true, false},
		{"its own by a link", ofA, a, filepath.Join(link, "m"), true, false},
		{"at another place", ofA, a, ofB.Mountpoint, false, true},
		{"device of another mount", ofA, b, ofA.Mountpoint, false, known},
		{"number of another mount", state{Mountpoint: ofA.Mountpoint, Device: ofB.Device}, a, ofA.Mountpoint, false, known},
		{"device of no mount", ofA, fresh, ofA.Mountpoint, false, false},
		{"no device", ofA, null, ofA.Mountpoint, false, true},
	} {
		if c.name == "device of another mount" && !known {
			continue // the kernel does not say it
		}
		m, err := c.state.ownMount(c.device, c.at)
		if (m != nil) != c.own || errors.Is(err, errStrange) != c.strange || (err != nil) != c.strange {
			t.Errorf("%s: %+v, %v", c.name, m, err)
		}
	}
	kept, err := newStateFile(ofA)
	if err != nil {
		t.Fatal(err)
	}
	device, err := unix.FcntlInt(uintptr(b), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	retire(kept, device, ofB.Mountpoint, slog.New(slog.DiscardHandler))
	for _, s := range []state{ofA, ofB} {
		if m, err := mounts.Top(s.Mountpoint); err != nil || m == nil {
			t.Errorf("%s was detached: %v", s.Mountpoint, err)
		}
	}
}

// FuzzState reads what another server left: anything. What it costs follows from its size.
func FuzzState(f *testing.F) {
	s, err := encodeState(1, state{Identity: "it", Init: []byte("init"), Later: map[uint64]string{1: "x"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s)
	f.Add([]byte("x"))
	f.Add(make([]byte, 4*openSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if _, err := unix.Pwrite(fd, b, 0); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = openStateFile(fd)
		opens, err := openOpensFile(fd)
		if err == nil && len(opens.opens) != len(b)/openSize {
			t.Errorf("%d opens in %d bytes", len(opens.opens), len(b))
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20+64*uint64(len(b)) {
			t.Errorf("%d bytes took %d", len(b), n)
		}
	})
}
