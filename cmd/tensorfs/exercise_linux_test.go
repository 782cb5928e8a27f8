package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"

	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"golang.org/x/sys/unix"
)

const (
	exercisers  = 3      // processes at once
	exerciseOps = 10_000 // of each
)

// Every way of reading, at random, over every view of a model, from several
// processes, against bytes that each computes without the mount.
func TestExercise(t *testing.T) {
	needFUSE(t)
	model := largeModel(t)
	for _, mode := range []struct {
		name  string
		flags []string
	}{
		{"read by the kernel", nil}, // of root
		{"answered by the server", []string{"--no-passthrough"}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			ops := exerciseOps
			if testing.Short() {
				ops /= 6
			}
			dir := mounted(t, model, mode.flags...)
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d, %d operations", seed, exercisers*ops)
			var wg sync.WaitGroup
			for i := range exercisers {
				wg.Go(func() {
					self, err := os.Executable()
					if err != nil {
						t.Error(err)
						return
					}
					cmd := exec.Command(self)
					cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%s\n%d\n%d", asExerciser, dir, model, seed+uint64(i), ops))
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Errorf("seed %d: %v\n%s", seed+uint64(i), err, out)
					}
				})
			}
			wg.Wait()
			if st := statusOf(t, dir); mode.flags != nil && st.Images > 0 {
				t.Errorf("status: %+v, want no images", st)
			}
		})
	}
}

// largeModel writes a model whose files are large enough for images: q, k, v, gate
// and up of mixed types.
func largeModel(t *testing.T) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	tensor := func(name string, typ uint32, rows, cols int64) testmodel.GGUFTensor {
		d := map[uint32]tensorfs.DType{1: tensorfs.F16, 8: tensorfs.Q8_0, 12: tensorfs.Q4_K, 30: tensorfs.BF16}[typ]
		size, ok := d.Size([]int64{rows, cols})
		if !ok {
			t.Fatalf("%s does not fit %v", name, d)
		}
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return testmodel.GGUFTensor{Name: name, Shape: []int64{rows, cols}, Type: typ, Data: b}
	}
	g := testmodel.GGUF{
		Meta: []tensorfs.Meta{{Key: "general.architecture", Value: "llama"}},
		Tensors: []testmodel.GGUFTensor{
			tensor("blk.0.attn_q.weight", 8, 1000, 512), tensor("blk.0.attn_k.weight", 8, 500, 512), tensor("blk.0.attn_v.weight", 8, 500, 512),
			tensor("blk.0.ffn_gate.weight", 12, 1100, 512), tensor("blk.0.ffn_up.weight", 12, 1100, 512),
			tensor("output.weight", 30, 1501, 512), tensor("token_embd.weight", 1, 1203, 512),
		},
	}
	dir := t.TempDir()
	if err := testmodel.Write(dir, map[string][]byte{"m.gguf": g.Bytes()}); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "m.gguf")
}

// exerciseMain is the process that asExerciser asks for.
func exerciseMain(spec string) int {
	args := strings.Split(spec, "\n")
	seed, _ := strconv.ParseUint(args[2], 10, 64)
	ops, _ := strconv.Atoi(args[3])
	if err := exercise(args[0], args[1], seed, ops); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// exercised is a file of the mount and what it must hold.
type exercised struct {
	path string
	want []byte
	f    *os.File
}

// exercisedFiles returns the files of a tree that are not empty and that keep
// takes, by their paths below the mount at dir.
func exercisedFiles(root tensorfs.Dir, dir string, keep func(path string) bool) (files []*exercised, err error) {
	err = tensorfs.Walk(root, func(path string, e tensorfs.Entry) error {
		if e.Data == nil || e.Data.Size() == 0 || !keep(path) {
			return nil
		}
		want := make([]byte, e.Data.Size())
		files = append(files, &exercised{path: filepath.Join(dir, path), want: want})
		return tensorfs.ReadFull(e.Data, want, 0)
	})
	return files, err
}

func exercise(dir, model string, seed uint64, ops int) error {
	t, err := (&modelFlags{}).open(model)
	if err != nil {
		return err
	}
	files, err := exercisedFiles(t.Root, dir, func(string) bool { return true })
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range ops {
		x := files[rng.IntN(len(files))]
		if x.f == nil {
			if x.f, err = os.Open(x.path); err != nil {
				return err
			}
		}
		n := rng.IntN(len(readers))
		off := rng.Int64N(int64(len(x.want)))
		size := min(1+rng.Int64N(1<<uint(rng.IntN(19))), int64(len(x.want))-off)
		got, err := readers[n].read(x, off, size, rng)
		if err != nil {
			return fmt.Errorf("operation %d: %s of %s, %d bytes at %d: %w", i, readers[n].name, x.path, size, off, err)
		}
		if got != nil && !bytes.Equal(got, x.want[off:off+int64(len(got))]) {
			return fmt.Errorf("operation %d: %s of %s, %d bytes at %d: other bytes than without the mount", i, readers[n].name, x.path, size, off)
		}
	}
	return nil
}

// readers are the operations. Each returns the bytes that it read from off on, nil if it reads
// none.
var readers = []struct {
	name string
	read func(x *exercised, off, n int64, rng *rand.Rand) ([]byte, error)
}{
	{"pread", func(x *exercised, off, n int64, _ *rand.Rand) ([]byte, error) {
		b := make([]byte, n)
		_, err := x.f.ReadAt(b, off)
		return b, err
	}},
	{"readv", func(x *exercised, off, n int64, _ *rand.Rand) ([]byte, error) {
		b := make([]byte, n)
		got, err := unix.Preadv(int(x.f.Fd()), [][]byte{b[:n/3], b[n/3 : n/2], b[n/2:]}, off)
		return b[:max(got, 0)], err
	}},
	{"lseek and read", func(x *exercised, off, n int64, _ *rand.Rand) ([]byte, error) {
		if end, err := x.f.Seek(0, io.SeekEnd); err != nil || end != int64(len(x.want)) {
			return nil, fmt.Errorf("it ends at %d: %w", end, err)
		}
		if _, err := x.f.Seek(off, io.SeekStart); err != nil {
			return nil, err
		}
		b := make([]byte, n)
		_, err := io.ReadFull(x.f, b)
		return b, err
	}},
	{"read past the end", func(x *exercised, _, _ int64, _ *rand.Rand) ([]byte, error) {
		if n, err := x.f.ReadAt(make([]byte, 10), int64(len(x.want))); n != 0 || err != io.EOF {
			return nil, fmt.Errorf("%d bytes, %v", n, err)
		}
		return nil, nil
	}},
	{"mmap", func(x *exercised, off, n int64, rng *rand.Rand) ([]byte, error) {
		page := int64(os.Getpagesize())
		start := off / page * page
		flags := []int{unix.MAP_SHARED, unix.MAP_PRIVATE}[rng.IntN(2)]
		mem, err := unix.Mmap(int(x.f.Fd()), start, int(off+n-start), unix.PROT_READ, flags)
		if err != nil {
			return nil, err
		}
		defer unix.Munmap(mem) // after a fault, too: a mapping keeps its server
		return bytes.Clone(mem[off-start:]), nil
	}},
	{"sendfile", func(x *exercised, off, n int64, _ *rand.Rand) ([]byte, error) {
		fd, err := unix.MemfdCreate("exercise", unix.MFD_CLOEXEC)
		if err != nil {
			return nil, err
		}
		to := os.NewFile(uintptr(fd), "memfd")
		defer to.Close()
		got, err := unix.Sendfile(fd, int(x.f.Fd()), &off, int(n))
		if err != nil {
			return nil, err
		}
		b := make([]byte, got)
		_, err = to.ReadAt(b, 0)
		return b, err
	}},
	{"O_DIRECT", func(x *exercised, off, n int64, _ *rand.Rand) ([]byte, error) {
		direct := func() (*os.File, error) { return os.OpenFile(x.path, os.O_RDONLY|unix.O_DIRECT, 0) }
		f, err := direct()
		if errors.Is(err, unix.EINVAL) { // it is read through an image as long as it is open
			x.f.Close()
			x.f = nil
			for range 50 { // a close is told to the server after it has returned
				if f, err = direct(); !errors.Is(err, unix.EINVAL) {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
		if errors.Is(err, unix.EINVAL) { // other processes have
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		const block = 4096
		start := off / block * block
		mem, err := unix.Mmap(-1, 0, int((off+n-start+block-1)/block*block), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return nil, err
		}
		defer unix.Munmap(mem)
		if got, err := f.ReadAt(mem, start); int64(got) < off+n-start {
			return nil, fmt.Errorf("%d bytes: %w", got, err)
		}
		return bytes.Clone(mem[off-start : off-start+n]), nil
	}},
	{"fadvise", func(x *exercised, off, n int64, rng *rand.Rand) ([]byte, error) {
		advice := []int{unix.FADV_DONTNEED, unix.FADV_WILLNEED, unix.FADV_RANDOM, unix.FADV_SEQUENTIAL, unix.FADV_NORMAL}[rng.IntN(5)]
		return nil, unix.Fadvise(int(x.f.Fd()), off, n, advice)
	}},
	{"reopen", func(x *exercised, _, _ int64, _ *rand.Rand) ([]byte, error) {
		err := x.f.Close()
		x.f = nil
		return nil, err
	}},
}
