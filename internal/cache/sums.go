package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path"
	"runtime"
	"sync"
	"sync/atomic"
)

// sumsDir is where the sums of a converted model's files are, below the directory of the files
// and under their names: four bytes for each cell, in the order of the cells.
const sumsDir = ".sums"

// SumsSize returns how many bytes the sums of a file of n bytes take.
func SumsSize(n int64) int64 { return 4 * cellsOf(n) }

// Seal writes the sums of an open file that is to get that name below root, the directory of a
// converted model.
func Seal(root *os.Root, name string, f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	sums, err := sumsOf(f, st.Size())
	if err != nil {
		return err
	}
	at := path.Join(sumsDir, name)
	if err := root.MkdirAll(path.Dir(at), 0o700); err != nil {
		return err
	}
	if err := root.RemoveAll(at); err != nil {
		return err
	}
	return root.WriteFile(at, sums, 0o600)
}

// Intact reports whether an open file of a size, of that name below root, has the bytes that were
// sealed. It reads all of it.
func Intact(root *os.Root, name string, f *os.File, size int64) bool {
	at := path.Join(sumsDir, name)
	if st, err := root.Lstat(at); err != nil || !st.Mode().IsRegular() || st.Size() != SumsSize(size) {
		return false
	}
	want, err := root.ReadFile(at)
	if err != nil {
		return false
	}
	have, err := sumsOf(f, size)
	return err == nil && bytes.Equal(have, want)
}

// sumsOf returns the sums of the cells of a file, read by all processors.
func sumsOf(f io.ReaderAt, size int64) ([]byte, error) {
	sums := make([]byte, SumsSize(size))
	var next atomic.Int64
	var wait sync.WaitGroup
	errs := make([]error, runtime.GOMAXPROCS(0))
	for w := range errs {
		wait.Go(func() {
			b := cellBuffers.Get().(*[CellSize]byte)
			defer cellBuffers.Put(b)
			for errs[w] == nil {
				i := next.Add(1) - 1
				if i >= cellsOf(size) {
					return
				}
				cell := b[:min(CellSize, size-i*CellSize)]
				if n, err := f.ReadAt(cell, i*CellSize); n < len(cell) {
					errs[w] = errors.Join(errShort, err)
				}
				binary.LittleEndian.PutUint32(sums[4*i:], sumOf(cell))
			}
		})
	}
	wait.Wait()
	return sums, errors.Join(errs...)
}
