package cache

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A file of a converted model is intact only if no bit of it and of its sums has changed.
func TestFlippedBitsOfConverted(t *testing.T) {
	for _, size := range []int64{0, 1, cell - 1, cell, cell + 1, 3*cell + 77} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			dir := t.TempDir()
			root, err := os.OpenRoot(dir)
			check(t, err)
			defer root.Close()
			check(t, root.Mkdir("f16", 0o700))
			const name = "f16/a"
			check(t, root.WriteFile(name, make([]byte, size), 0o600))
			intact := func() bool {
				f, err := root.Open(name)
				check(t, err)
				defer f.Close()
				return Intact(root, name, f, size)
			}
			if intact() {
				t.Error("a file without sums is intact")
			}
			f, err := root.Open(name)
			check(t, err)
			check(t, Seal(root, name, f))
			check(t, f.Close())
			if !intact() {
				t.Error("a sealed file is not intact")
			}
			for _, path := range []string{name, filepath.Join(sumsDir, name)} {
				b, err := root.ReadFile(path)
				check(t, err)
				for at := 0; at < len(b); at += max(1, len(b)/13) {
					b[at] ^= 0x40
					check(t, root.WriteFile(path, b, 0o600))
					if intact() {
						t.Errorf("%s: byte %d is another", path, at)
					}
					b[at] ^= 0x40
				}
				for _, n := range []int{0, len(b) / 2, len(b) - 1} {
					if n >= 0 && n < len(b) {
						check(t, root.WriteFile(path, b[:n], 0o600))
						if intact() {
							t.Errorf("%s: cut to %d bytes", path, n)
						}
					}
				}
				check(t, root.WriteFile(path, b, 0o600))
				if !intact() {
					t.Errorf("%s: put back", path)
				}
			}
			check(t, root.Remove(filepath.Join(sumsDir, name)))
			if intact() {
				t.Error("a file whose sums were removed is intact")
			}
		})
	}
}

// BenchmarkIntact compares a file that is in the page cache with its sums.
func BenchmarkIntact(b *testing.B) {
	root, err := os.OpenRoot(b.TempDir())
	check(b, err)
	defer root.Close()
	const size = 256 << 20
	check(b, root.WriteFile("a", make([]byte, size), 0o600))
	f, err := root.Open("a")
	check(b, err)
	defer f.Close()
	check(b, Seal(root, "a", f))
	b.SetBytes(size)
	for b.Loop() {
		if !Intact(root, "a", f, size) {
			b.Fatal("not intact")
		}
	}
}
