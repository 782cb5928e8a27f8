package source

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/source/direct"
	"github.com/tensorfs/tensorfs/internal/testing/testslow"
)

// onSlowDisk writes a file and returns its path on a slow disk.
func onSlowDisk(t *testing.T) (path string, content []byte, disk *testslow.Mounted) {
	t.Helper()
	dir, mnt := t.TempDir(), t.TempDir()
	content = make([]byte, streamed)
	rand.NewChaCha8([32]byte{7}).Read(content)
	if err := os.WriteFile(filepath.Join(dir, "file"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	disk, err := testslow.Disk{Latency: 40 * time.Millisecond, Rate: 1e9, AtOnce: 64}.Mount(dir, mnt)
	if err != nil {
		t.Skipf("NOT TESTED: there is no slow disk: %v", err)
	}
	t.Cleanup(func() {
		if err := disk.Unmount(); err != nil {
			t.Errorf("unmounting a slow disk: %v", err)
		}
	})
	return filepath.Join(mnt, "file"), content, disk
}

// Many requests of a slow disk are under way at once in servers and commands, for each way of reading, and its bytes are
// right.
func TestSlowDisk(t *testing.T) {
	for name, allow := range map[string]func(func() int64){"a server": ReadDirect, "a command": ReadSlowDirect} {
		for how, read := range readers {
			t.Run(name+" by "+how, func(t *testing.T) {
				allow(func() int64 { return 12 * direct.Size })
				t.Cleanup(func() { streams.Forbid() })
				path, want, disk := onSlowDisk(t)
				m := open(t, path)
				t.Cleanup(func() { m.Close() }) // before the disk is unmounted
				if !m.Slow() {
					t.Error("the file is not slow")
				}
				const step = 1 << 20
				for off := int64(0); off < streamed; off += step {
					n := min(step, streamed-off)
					if b, err := read(m.Section(0, streamed), off, n); err != nil || !bytes.Equal(b, want[off:][:n]) {
						t.Fatalf("%d bytes at %d: %v, or other bytes", n, off, err)
					}
				}
				if most := disk.Most(); most < 8 {
					t.Errorf("at most %d requests were under way at once, want 8 or more", most)
				}
			})
		}
	}
}

// A slow disk's file that is in memory is not slow.
func TestSlowInMemory(t *testing.T) {
	path, want, _ := onSlowDisk(t)
	m := open(t, path)
	t.Cleanup(func() { m.Close() })
	b, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(b, want) {
		t.Fatalf("%v, or other bytes", err)
	}
	if m.Slow() {
		t.Error("the file is slow, though it is in the page cache")
	}
}
