package fs

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var exerciseSeed = flag.Uint64("seed", 0, "seed of the exerciser; 0 for a new one")

// An exerciser does at random what readers do, to all files of a tree, and
// compares every byte with what it computes without the mount.
type exerciser struct {
	r     *rand.Rand
	mnt   string
	size  int64
	files []treeFile
	open  []*exFile
	ops   map[string]int
	tmp   *os.File
}

// exFile is an open file and perhaps a mapping of it.
type exFile struct {
	treeFile
	f      *os.File
	direct *os.File
	m      []byte
	pos    int64 // of the next read
}

// clientExercise: MOUNTPOINT SIZE SEED OPERATIONS.
func clientExercise(args []string) error {
	all, size, err := treeFiles(args[1])
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	x := &exerciser{r: rand.New(rand.NewPCG(seed, 1)), mnt: args[0], size: size, files: all, ops: map[string]int{}}
	if x.tmp, err = os.CreateTemp("", "tensorfs-exercise-"); err != nil {
		return err
	}
	defer os.Remove(x.tmp.Name())
	defer x.tmp.Close()
	for i := range n {
		if name, err := x.step(); err != nil {
			return fmt.Errorf("operation %d, %s: %w", i, name, err)
		}
	}
	fmt.Println(x.ops)
	return nil
}

// actions are the operations and how often they are done in a thousand.
var actions = []struct {
	name  string
	often int
	do    func(x *exerciser, f *exFile) error
}{
	{"pread", 300, (*exerciser).pread},
	{"readv", 120, (*exerciser).readv},
	{"mmap", 240, (*exerciser).touchMapping},
	{"sequential", 130, (*exerciser).sequential},
	{"sendfile", 50, (*exerciser).sendfile},
	{"direct", 60, (*exerciser).odirect},
	{"lseek", 30, (*exerciser).lseek},
	{"reopen", 50, (*exerciser).reopen},
	{"fadvise", 19, (*exerciser).fadvise},
	{"drop", 1, (*exerciser).dropCaches},
}

func (x *exerciser) step() (string, error) {
	for len(x.open) < 6 {
		f, err := x.openFile()
		if err != nil {
			return "open", err
		}
		x.open = append(x.open, f)
	}
	f := x.open[x.r.IntN(len(x.open))]
	k := x.r.IntN(1000)
	for _, a := range actions {
		if k -= a.often; k < 0 {
			x.ops[a.name]++
			if err := a.do(x, f); err != nil {
				return a.name + " of " + f.path, err
			}
			return a.name, nil
		}
	}
	return "", errors.New("the actions are less than a thousand")
}

func (x *exerciser) openFile() (*exFile, error) {
	tf := x.files[x.r.IntN(len(x.files))]
	f, err := os.Open(filepath.Join(x.mnt, tf.path))
	if err != nil {
		return nil, err
	}
	return &exFile{treeFile: tf, f: f}, nil
}

func (x *exerciser) close(f *exFile) error {
	var err error
	if f.m != nil {
		err = unix.Munmap(f.m)
	}
	if f.direct != nil {
		err = errors.Join(err, f.direct.Close())
	}
	return errors.Join(err, f.f.Close())
}

func (x *exerciser) compare(f *exFile, got []byte, off int64) error {
	return compare(got, off, func(p []byte, off int64) error { return want(p, f.path, x.size, off) })
}

// span returns a place in the file, often at an edge, and a length, often small.
func (x *exerciser) span(f *exFile) (off, n int64) {
	n = 1 + x.r.Int64N(1<<x.r.IntN(18))
	if x.r.IntN(50) == 0 {
		n = 1 + x.r.Int64N(1<<20)
	}
	switch x.r.IntN(4) {
	case 0:
		edges := oddOffsets(f.size)
		off = edges[x.r.IntN(len(edges))]
	case 1:
		off = max(0, f.size-x.r.Int64N(2*n))
	default:
		off = x.r.Int64N(f.size + 1)
	}
	return off, n
}

// expect returns how many bytes a read gets.
func (f *exFile) expect(off, n int64) int64 { return max(0, min(n, f.size-off)) }

func (x *exerciser) pread(f *exFile) error {
	off, n := x.span(f)
	buf := make([]byte, n)
	got, err := unix.Pread(int(f.f.Fd()), buf, off)
	if err != nil || int64(got) != f.expect(off, n) {
		return fmt.Errorf("%d of %d bytes at %d: %w", got, n, off, err)
	}
	return x.compare(f, buf[:got], off)
}

func (x *exerciser) readv(f *exFile) error {
	off, n := x.span(f)
	parts := [][]byte{make([]byte, n), make([]byte, x.r.IntN(5000)), make([]byte, x.r.IntN(9))}
	total := int64(len(parts[0]) + len(parts[1]) + len(parts[2]))
	got, err := unix.Preadv(int(f.f.Fd()), parts, off)
	if err != nil || int64(got) != f.expect(off, total) {
		return fmt.Errorf("%d of %d bytes at %d: %w", got, total, off, err)
	}
	return x.compare(f, bytes.Join(parts, nil)[:got], off)
}

func (x *exerciser) touchMapping(f *exFile) error {
	if f.size == 0 {
		return nil
	}
	if f.m == nil {
		how := unix.MAP_SHARED
		if x.r.IntN(2) == 0 {
			how = unix.MAP_PRIVATE
		}
		m, err := unix.Mmap(int(f.f.Fd()), 0, int(f.size), unix.PROT_READ, how)
		if err != nil {
			return err
		}
		if x.r.IntN(3) == 0 {
			_ = unix.Madvise(m, unix.MADV_HUGEPAGE) // larger requests, where the kernel has them
		}
		f.m = m
	}
	off, n := x.span(f)
	off = min(off, f.size-1)
	return x.compare(f, bytes.Clone(f.m[off:off+f.expect(off, n)]), off)
}

func (x *exerciser) sequential(f *exFile) error {
	_, n := x.span(f)
	buf := make([]byte, n)
	got, err := f.f.Read(buf)
	if err == io.EOF {
		if f.pos < f.size {
			return fmt.Errorf("end of file at %d", f.pos)
		}
		return nil
	}
	if err != nil {
		return err
	}
	off := f.pos
	f.pos += int64(got)
	return x.compare(f, buf[:got], off)
}

func (x *exerciser) lseek(f *exFile) error {
	off, _ := x.span(f)
	pos, err := f.f.Seek(off, io.SeekStart)
	if err != nil || pos != off {
		return fmt.Errorf("%d, %w", pos, err)
	}
	f.pos = off
	if end, err := unix.Seek(int(f.f.Fd()), 0, unix.SEEK_END); err != nil || end != f.size {
		return fmt.Errorf("the end is at %d, %w", end, err)
	}
	_, err = f.f.Seek(off, io.SeekStart)
	return err
}

func (x *exerciser) sendfile(f *exFile) error {
	off, n := x.span(f)
	if err := x.tmp.Truncate(0); err != nil {
		return err
	}
	if _, err := x.tmp.Seek(0, io.SeekStart); err != nil {
		return err
	}
	at := off
	for at < off+f.expect(off, n) {
		if got, err := unix.Sendfile(int(x.tmp.Fd()), int(f.f.Fd()), &at, int(off+n-at)); err != nil || got == 0 {
			return fmt.Errorf("%d bytes at %d: %w", got, at, err)
		}
	}
	got := make([]byte, f.expect(off, n))
	if _, err := x.tmp.ReadAt(got, 0); err != nil && err != io.EOF {
		return err
	}
	return x.compare(f, got, off)
}

func (x *exerciser) odirect(f *exFile) error {
	if f.direct == nil {
		d, err := os.OpenFile(f.f.Name(), os.O_RDONLY|unix.O_DIRECT, 0)
		if err != nil {
			return err
		}
		f.direct = d
	}
	off, n := x.span(f)
	off, n = off&^4095, (n+4095)&^4095
	buf := aligned(int(n), 0)
	got, err := unix.Pread(int(f.direct.Fd()), buf, off)
	if err != nil || int64(got) != f.expect(off, n) {
		return fmt.Errorf("%d of %d bytes at %d: %w", got, n, off, err)
	}
	return x.compare(f, buf[:got], off)
}

func (x *exerciser) reopen(f *exFile) error {
	if err := x.close(f); err != nil {
		return err
	}
	n, err := x.openFile()
	if err != nil {
		return err
	}
	*f = *n
	return nil
}

func (x *exerciser) fadvise(f *exFile) error {
	hints := []int{unix.FADV_DONTNEED, unix.FADV_WILLNEED, unix.FADV_RANDOM, unix.FADV_SEQUENTIAL, unix.FADV_NORMAL}
	off, n := x.span(f)
	return unix.Fadvise(int(f.f.Fd()), off, n, hints[x.r.IntN(len(hints))])
}

// dropCaches drops the whole machine's clean pages, if it may, once in a while.
func (x *exerciser) dropCaches(*exFile) error {
	if os.Geteuid() != 0 || x.r.IntN(10) != 0 {
		return nil
	}
	_ = os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0) // a container may forbid it
	return nil
}

// TestExercise has several processes exercise a mount, in each way of serving.
func TestExercise(t *testing.T) {
	const processes = 4
	ops := 30000 // with another seed each time
	if testing.Short() {
		ops = 6000
	}
	for _, c := range servings {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, "model", newModel(t, 20<<20), c.options...)
			seed := *exerciseSeed
			if seed == 0 {
				seed = uint64(time.Now().UnixNano())
			}
			t.Logf("-seed %d", seed)
			var wg sync.WaitGroup
			for p := range uint64(processes) {
				wg.Go(func() {
					out, err := s.client("exercise", s.mountpoint, s.sizeArg(), strconv.FormatUint(seed+p, 10), strconv.Itoa(ops/processes))
					if err != nil {
						t.Errorf("process %d: %v: %s", p, err, out)
					}
					t.Logf("process %d: %s", p, out)
				})
			}
			wg.Wait()
			if log := s.log.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "level=WARN") {
				t.Errorf("the server complains:\n%s", log)
			}
			rss := rssAnon(t, s.cmd.Process.Pid)
			t.Logf("RssAnon %d KiB", rss)
			if rss > 64<<10 {
				t.Errorf("the server takes %d KiB", rss)
			}
		})
	}
}
