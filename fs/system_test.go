package fs

import (
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs/internal/mounts"
)

// TestSystems holds what the kernel of each system gets from the same tree.
func TestSystems(t *testing.T) {
	if thisSystem == nil {
		t.Fatalf("no row for %s", runtime.GOOS)
	}
	const both, truncate = syscall.O_RDWR, syscall.O_RDWR | syscall.O_TRUNC
	for name, want := range map[string]struct {
		blksize uint32
		opens   map[uint32]fuse.Status
	}{
		"linux":  {4096, map[uint32]fuse.Status{syscall.O_RDONLY: fuse.OK, syscall.O_WRONLY: fuse.EROFS, both: fuse.EROFS, truncate: fuse.EROFS}},
		"darwin": {0, map[uint32]fuse.Status{syscall.O_RDONLY: fuse.OK, syscall.O_WRONLY: fuse.EROFS, both: fuse.OK, truncate: fuse.EROFS}},
	} {
		f := newTest(t, nested(), Options{system: systems[name]})
		if got := walkTo(t, f, "b/f").Attr.Blksize; got != want.blksize {
			t.Errorf("%s: st_blksize %d, want %d", name, got, want.blksize)
		}
		for flags, want := range want.opens {
			if st := f.Open(nil, &fuse.OpenIn{InHeader: header(8), Flags: flags}, &fuse.OpenOut{}); st != want {
				t.Errorf("%s: opened with %#x: %v, want %v", name, flags, st, want)
			}
		}
		if _, st := f.Write(nil, &fuse.WriteIn{InHeader: header(8)}, []byte("x")); st != fuse.EROFS {
			t.Errorf("%s: a write: %v", name, st)
		}
	}
	if got := systems["linux"].options("m"); len(got) > 0 {
		t.Errorf("Linux has these as flags: %q", got)
	}
	mac := systems["darwin"].options("/models/a b.gguf")
	for _, want := range []string{"rdonly", "nosuid", "nodev", "noexec", "nobrowse", "noappledouble", "volname=a b"} {
		if !slices.Contains(mac, want) {
			t.Errorf("macOS: %q, without %s", mac, want)
		}
	}
}

func TestVolumeName(t *testing.T) {
	for model, want := range map[string]string{
		"/models/gemma-3-4b.gguf":        "gemma-3-4b",
		"/models/Qwen3":                  "Qwen3",
		"/models/Qwen3/":                 "Qwen3",
		"weights.safetensors":            "weights",
		"ollama:gemma3:27b":              "ollama-gemma3-27b",
		"hf:org/name:Q4_K_M":             "name-Q4_K_M",
		"/m/Größe 字.gguf":                "Größe 字",
		"/m/a,volname=b\\,c.gguf":        "a-volname=b--c",
		"/m/line\nbreak\x00\x1b[1m.gguf": "line-break--[1m",
		"/m/\xff\xfe.gguf":               mounts.Program,
		"/":                              mounts.Program,
		".":                              mounts.Program,
		"":                               mounts.Program,
		"/m/.gguf":                       mounts.Program,
		mounts.Program:                   mounts.Program,
	} {
		if got := volumeName(model); got != want {
			t.Errorf("%q: %q, want %q", model, got, want)
		}
	}
	for _, long := range []string{strings.Repeat("x", 300), strings.Repeat("字", 300)} {
		if got := volumeName(long); len(got) > maxVolumeName || len(got) < maxVolumeName-2 || !utf8.ValidString(got) {
			t.Errorf("%d bytes of a name of %d", len(got), len(long))
		}
	}
}
