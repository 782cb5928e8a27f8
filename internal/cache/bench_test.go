package cache

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkReadAt reads 64 MiB from the page cache: through a partial entry, a complete one, one in
// memory, and os.File.
func BenchmarkReadAt(b *testing.B) {
	const size = 64 << 20
	dir := b.TempDir()
	s := openStore(b, dir, 1<<40)
	partial := openRemote(b, s, "partial", size+1)
	check(b, partial.fetch(0, size, 1<<20))
	whole := openRemote(b, s, "whole", size)
	check(b, whole.fetch(0, size, 1<<20))
	check(b, whole.e.Verify(b.Context()))
	memory := openRemote(b, openStore(b, "", -1), "memory", size)
	check(b, memory.fetch(0, size, 1<<20))
	file, err := os.Open(filepath.Join(partial.onDisk(b).place(), dataName))
	check(b, err)
	defer file.Close()
	for _, n := range []int64{4 << 10, 128 << 10, 1 << 20} {
		for _, r := range []struct {
			name string
			read func(p []byte, off int64) (int, error)
		}{{"file", file.ReadAt}, {"partial", partial.e.ReadAt}, {"whole", whole.e.ReadAt}, {"memory", memory.e.ReadAt}} {
			b.Run(fmt.Sprintf("%dK/%s", n>>10, r.name), func(b *testing.B) {
				b.SetBytes(n)
				b.ReportAllocs()
				p := make([]byte, n)
				for i := int64(0); b.Loop(); i++ {
					if _, err := r.read(p, i*n%size); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	for _, r := range []*remote{partial, whole, memory} {
		check(b, r.e.Close())
	}
}

// BenchmarkWriteAt stores 64 MiB in pieces of 1 MiB, and beside it a plain file
// gets them.
func BenchmarkWriteAt(b *testing.B) {
	const size = 64 << 20
	p := make([]byte, 1<<20)
	dir := b.TempDir()
	b.Run("file", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			f, err := os.Create(filepath.Join(dir, "file"))
			check(b, err)
			for off := int64(0); off < size; off += int64(len(p)) {
				_, err := f.WriteAt(p, off)
				check(b, err)
			}
			check(b, f.Close())
		}
	})
	b.Run("entry", func(b *testing.B) {
		b.SetBytes(size)
		s := openStore(b, filepath.Join(dir, "cache"), 1<<40)
		for b.Loop() {
			r := openRemote(b, s, "k", size)
			for off := int64(0); off < size; off += int64(len(p)) {
				_, err := r.e.WriteAt(p, off)
				check(b, err)
			}
			check(b, r.e.Forget()) // nothing is synced
			check(b, r.e.Close())
		}
	})
}
