package fs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// clientRandom reads pages here and there of a file: MOUNTPOINT SIZE FILE COUNT.
func clientRandom(args []string) error {
	size, _ := strconv.ParseInt(args[1], 10, 64)
	count, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(args[0], args[2]))
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	const page = 4096
	pages := st.Size() / page
	got, expected := make([]byte, page), make([]byte, page)
	for i := range count {
		off := (i*pages/count + i*7%5) * page // each is far from all others
		if _, err := f.ReadAt(got, off); err != nil {
			return err
		}
		if err := want(expected, args[2], size, off); err != nil {
			return err
		}
		if !bytes.Equal(got, expected) {
			return fmt.Errorf("%s: other bytes at %d", args[2], off)
		}
	}
	return nil
}

func clientReadAll(args []string) error {
	return eachFile(args, 0, func(f *os.File, tf treeFile, want func([]byte, int64) error) error {
		got, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		if int64(len(got)) != tf.size {
			return fmt.Errorf("%d bytes, want %d", len(got), tf.size)
		}
		return compare(got, 0, want)
	})
}

// oddOffsets are places that are worth a look in a file of n bytes.
func oddOffsets(n int64) []int64 {
	all := []int64{0, 1, 3, 4095, 4096, 4097, n/2 - 1, n / 2, n/2 + 1, 1<<20 - 1, 1 << 20, n - 4097, n - 1, n, n + 1}
	return slices.DeleteFunc(all, func(off int64) bool { return off < 0 })
}

func clientPread(args []string) error {
	return eachFile(args, 0, func(f *os.File, tf treeFile, want func([]byte, int64) error) error {
		for _, off := range oddOffsets(tf.size) {
			for _, n := range []int64{1, 2, 511, 4096, 4099, 131072, 1<<20 + 1} {
				buf := make([]byte, n)
				got, err := unix.Pread(int(f.Fd()), buf, off)
				if err != nil {
					return err
				}
				if int64(got) != max(0, min(n, tf.size-off)) {
					return fmt.Errorf("%d of %d bytes at %d", got, n, off)
				}
				if err := compare(buf[:got], off, want); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func clientMmap(args []string) error {
	return eachFile(args, 0, func(f *os.File, tf treeFile, want func([]byte, int64) error) error {
		if tf.size == 0 {
			return nil
		}
		for _, m := range []struct{ prot, flags int }{
			{unix.PROT_READ, unix.MAP_SHARED},
			{unix.PROT_READ, unix.MAP_PRIVATE},
			{unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE},
		} {
			b, err := unix.Mmap(int(f.Fd()), 0, int(tf.size), m.prot, m.flags)
			if err != nil {
				return err
			}
			if err := compare(b, 0, want); err != nil {
				return err
			}
			if m.prot&unix.PROT_WRITE != 0 {
				b[0]++ // a private copy, invisible to other readers
			}
			if err := unix.Munmap(b); err != nil {
				return err
			}
		}
		if _, err := unix.Mmap(int(f.Fd()), 0, int(tf.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EACCES) {
			return fmt.Errorf("a writable shared mapping: %v", err)
		}
		return nil
	})
}

// aligned returns n bytes at a page boundary, off by shift.
func aligned(n, shift int) []byte {
	b := make([]byte, n+8192)
	skip := 4096 - int(uintptr(unsafe.Pointer(&b[0]))&4095) + shift
	return b[skip : skip+n]
}

func clientDirect(args []string) error {
	return eachFile(args, unix.O_DIRECT, func(f *os.File, tf treeFile, want func([]byte, int64) error) error {
		for _, shift := range []int{0, 512} {
			for _, off := range oddOffsets(tf.size) {
				off &^= 4095
				for _, n := range []int{4096, 65536, 1 << 20} {
					buf := aligned(n, shift)
					got, err := unix.Pread(int(f.Fd()), buf, off)
					if err != nil {
						return err
					}
					if int64(got) != max(0, min(int64(n), tf.size-off)) {
						return fmt.Errorf("%d of %d bytes at %d", got, n, off)
					}
					if err := compare(buf[:got], off, want); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

func clientReadv(args []string) error {
	return eachFile(args, 0, func(f *os.File, tf treeFile, want func([]byte, int64) error) error {
		for _, off := range oddOffsets(tf.size) {
			parts := [][]byte{make([]byte, 1), make([]byte, 4095), nil, make([]byte, 70001)}
			n, err := unix.Preadv(int(f.Fd()), parts, off)
			if err != nil {
				return err
			}
			if err := compare(bytes.Join(parts, nil)[:n], off, want); err != nil {
				return err
			}
		}
		return nil
	})
}

func clientSendfile(args []string) error {
	out, err := os.CreateTemp("", "tensorfs-sendfile-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	return eachFile(args, 0, func(f *os.File, tf treeFile, want func([]byte, int64) error) error {
		if err := out.Truncate(0); err != nil {
			return err
		}
		if _, err := out.Seek(0, 0); err != nil {
			return err
		}
		off := int64(0)
		for off < tf.size {
			n, err := unix.Sendfile(int(out.Fd()), int(f.Fd()), &off, 300001)
			if err != nil || n == 0 {
				return fmt.Errorf("at %d: %d, %w", off, n, err)
			}
		}
		got, err := os.ReadFile(out.Name())
		if err != nil {
			return err
		}
		if int64(len(got)) != tf.size {
			return fmt.Errorf("%d bytes", len(got))
		}
		return compare(got, 0, want)
	})
}

// touch reads the last byte of a file through a mapping.
func touch(f *os.File) (err error) {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("fault: %v", r)
		}
	}()
	sink = m[len(m)-1]
	return nil
}

var sink byte

// clientStream reads files again and again without leaving pages behind.
func clientStream(args []string) error {
	total, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for total > 0 {
		f, err := os.Open(filepath.Join(args[0], args[1]))
		if err != nil {
			return err
		}
		for {
			n, err := f.Read(buf)
			total -= int64(n)
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return err
		}
		f.Close()
	}
	return nil
}
