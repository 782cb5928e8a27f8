package mounts

import (
	"runtime"
	"testing"
)

// TestBSDMount reads rows of getfsstat as macFUSE makes them, and others.
func TestBSDMount(t *testing.T) {
	for _, c := range []struct {
		source, kind string
		want         Mount
		ours         bool
	}{
		{"tensorfs:/models/a.gguf", "macfuse", Mount{Mountpoint: "/m", Source: "/models/a.gguf", Type: Type}, true},
		{"tensorfs:hf:org/name", "osxfuse", Mount{Mountpoint: "/m", Source: "hf:org/name", Type: Type}, true},
		{"/dev/disk3s1", "apfs", Mount{Mountpoint: "/m", Source: "/dev/disk3s1", Type: "apfs"}, false},
		{"sshfs:host", "macfuse", Mount{Mountpoint: "/m", Source: "sshfs:host", Type: "macfuse"}, false},
		{"tensorfs", "macfuse", Mount{Mountpoint: "/m", Source: "tensorfs", Type: "macfuse"}, false},
	} {
		got := bsdMount(c.source, "/m", c.kind)
		if got != c.want || got.Ours() != c.ours {
			t.Errorf("%s: %+v (ours: %v)", c.source, got, got.Ours())
		}
	}
}

func TestInUseCommand(t *testing.T) {
	if inUse[runtime.GOOS] == "" {
		t.Errorf("no row for %s", runtime.GOOS)
	}
}
