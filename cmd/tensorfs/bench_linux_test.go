package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmount"
	"golang.org/x/sys/unix"
)

// The benchmarks of this package measure what a user of tensorfs waits for.
// scripts/bench runs them, with -benchtime 1x and again and again: one run of the
// test binary is a pass, which measures every row once, so that a ratio compares
// two rows of the same moment. With a longer -benchtime a row is measured several
// times at once and its median counts.
//
// Units beside Go's own, as scripts/bench.awk reads them:
//
//	of:ROW  speed as a share of that of an earlier row
//	x:ROW   time as a multiple of that of an earlier row
//	>=UNIT  what the value with that unit should be at least, and <=UNIT at most

var (
	benchSize    = flag.Int64("bench-size", 256, "MiB of f16 that the benchmarks' large tensors have")
	benchProgram = flag.String("bench-program", "", "the tensorfs that is measured (default: the test binary)")
	benchDir     = flag.String("bench-dir", "", "where the benchmarks' models are kept for the next run (default: nowhere)")
	benchTmpfs   = flag.String("bench-tmpfs", "", "the same in a tmpfs")
)

// sample is one measurement.
type sample struct {
	wall, cpu time.Duration // cpu is the reader's and the server's
	bytes     int64
	disk      int64 // bytes that were read from disks
}

func (s sample) ms() float64    { return float64(s.wall.Nanoseconds()) / 1e6 }
func (s sample) cpuMS() float64 { return float64(s.cpu.Nanoseconds()) / 1e6 }

// perByte is the time per byte, or in all if the number of bytes is unknown.
func (s sample) perByte() float64 { return float64(s.wall) / float64(max(s.bytes, 1)) }

// benchRows are the rows of a benchmark that were measured so far, by name.
type benchRows map[string]sample

// row measures a row and reports its time and its ratio to another row, if that was measured. ratio
// is "of" or "x"; aim is 0 for no aim.
func (r benchRows) row(b *testing.B, name string, measure func(testing.TB) sample, base, ratio string, aim float64, report func(*testing.B, sample)) {
	b.Run(name, func(b *testing.B) {
		var all []sample
		for b.Loop() {
			all = append(all, measure(b))
		}
		slices.SortFunc(all, func(x, y sample) int { return int(x.wall - y.wall) })
		s := all[len(all)/2]
		r[name] = s
		b.ReportMetric(float64(s.wall.Nanoseconds()), "ns/op")
		report(b, s)
		to, ok := r[base]
		if !ok {
			return
		}
		unit, value, sign := ratio+":"+base, s.perByte()/to.perByte(), "<="
		if ratio == "of" {
			value, sign = 1/value, ">="
		}
		b.ReportMetric(value, unit)
		if aim > 0 {
			b.ReportMetric(aim, sign+unit)
		}
	})
}

// benchPlace returns where a benchmark writes: flagged if that is set, else a
// directory in parent that goes with the benchmark. Mount points may be below, so
// t.TempDir, which would descend into them, is not used.
func benchPlace(t testing.TB, flagged, parent string) string {
	t.Helper()
	if flagged != "" {
		return flagged
	}
	dir, err := os.MkdirTemp(parent, "tensorfs-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// tmpfsPlace returns a directory in a tmpfs, "" where none has so much room.
func tmpfsPlace(t testing.TB, room int64) string {
	t.Helper()
	const shm = "/dev/shm"
	var st unix.Statfs_t
	if err := unix.Statfs(shm, &st); err != nil || st.Type != unix.TMPFS_MAGIC || int64(st.Bavail)*st.Bsize < room {
		fmt.Printf("Note: %s is not a tmpfs with %d MiB free, so what is compared with one is left out.\n", shm, room>>20)
		return ""
	}
	return benchPlace(t, *benchTmpfs, shm)
}

// tensorfsCommand prepares to run the tensorfs that is measured.
func tensorfsCommand(args ...string) *exec.Cmd {
	program := *benchProgram
	if program == "" {
		program = os.Args[0]
	}
	return exec.Command(program, args...)
}

// timed runs a command to its end.
func timed(t testing.TB, cmd *exec.Cmd) sample {
	t.Helper()
	return timedExit(t, cmd, 0)
}

// timedExit is timed for a command whose exit status may be up to most.
func timedExit(t testing.TB, cmd *exec.Cmd, most int) sample {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if err != nil && (cmd.ProcessState == nil || !cmd.ProcessState.Exited() || cmd.ProcessState.ExitCode() > most) {
		t.Fatalf("%s: %v: %s", cmd, err, said.Bytes())
	}
	return sample{wall: wall, cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
}

// benchMount is a model that a child of this process serves.
type benchMount struct {
	dir  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the server has ended
}

func newBenchMount(t testing.TB, model string, flags ...string) *benchMount {
	t.Helper()
	testmount.Need(t)
	dir, err := os.MkdirTemp(*benchDir, "tensorfs-mnt-")
	if err != nil {
		t.Fatal(err)
	}
	m := &benchMount{dir: dir, done: make(chan struct{})}
	m.cmd = tensorfsCommand(slices.Concat([]string{"mount", "-f"}, flags, []string{model, dir})...)
	// SIGTERM makes a server unmount, also when this process is killed.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	var said bytes.Buffer
	m.cmd.Stderr = &said
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	line, _ := in.ReadString('\n') // a server that failed prints nothing
	go func() {
		io.Copy(io.Discard, in)
		m.cmd.Wait()
		close(m.done)
	}()
	t.Cleanup(m.unmount)
	if !strings.Contains(line, "is mounted at") {
		m.unmount()
		t.Fatalf("mounting %s: %s", model, said.Bytes())
	}
	return m
}

// unmount ends the server, if it still runs.
func (m *benchMount) unmount() {
	for range 2 { // the second signal detaches a mount that is in use
		m.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-m.done:
			os.Remove(m.dir)
			return
		case <-time.After(2 * time.Second):
		}
	}
	// A mount namespace that was made in the meantime has a copy of the mount.
	mounts.Unmount(m.dir, true)
	m.cmd.Process.Kill()
	<-m.done
	os.Remove(m.dir)
}

// cpu returns the processor time that the server has used, in the kernel's ticks
// of 10 ms.
func (m *benchMount) cpu() time.Duration {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.cmd.Process.Pid))
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64) // the kernel writes numbers
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// read measures a reader of a mounted file, its server's time included.
func (m *benchMount) read(t testing.TB, how, file string) sample {
	t.Helper()
	before := m.cpu()
	s := startBenchReader(t, how, filepath.Join(m.dir, file), 0).wait(t)
	s.cpu += m.cpu() - before
	return s
}

// benchReaders are the ways of reading a file. Each returns the bytes that it read; n is for
// readers that need a number.
var benchReaders = map[string]func(f *os.File, n int64) (int64, error){
	"read":            func(f *os.File, _ int64) (int64, error) { return readLikeCat(f) },
	"read-all":        readAll,
	"read-all-direct": readAllDirect,
	"read-quarter":    readQuarter,
	"disk":            readDisk,
	"mapped":          func(f *os.File, _ int64) (int64, error) { return readMapped(f, unix.MADV_NORMAL) },
	"mapped-huge":     func(f *os.File, _ int64) (int64, error) { return readMapped(f, unix.MADV_HUGEPAGE) },
	"open":            func(*os.File, int64) (int64, error) { return 0, nil },
	"first-byte":      func(f *os.File, _ int64) (int64, error) { n, err := f.Read(make([]byte, 1)); return int64(n), err },
	"stream":          readAgain,
	"touch":           touchMemory,
	"pages":           func(f *os.File, _ int64) (int64, error) { return readPages(f, coldPages) },
	"pages-all":       readPagesOfAll,
}

// readMain is the process that asReader asks for: PATH N. It prints nanoseconds
// from before open to the last byte, nanoseconds of CPU, bytes, and bytes from disks.
func readMain(how string) int {
	n, _ := strconv.ParseInt(os.Args[2], 10, 64) // startBenchReader wrote it
	disk, cpu, start := testlimit.DiskReads(os.Getpid()), ownCPU(), time.Now()
	f, err := os.Open(os.Args[1])
	if err == nil {
		n, err = benchReaders[how](f, n)
	}
	fmt.Println(time.Since(start).Nanoseconds(), ownCPU()-cpu, n, testlimit.DiskReads(os.Getpid())-disk)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return cli.ExitFailed
	}
	return 0
}

// ownCPU returns the nanoseconds of CPU that this process has used.
func ownCPU() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

const catSize = 128 << 10 // what cat reads at a time

func readLikeCat(f *os.File) (int64, error) { return readTo(f, make([]byte, catSize)) }

// readDirect reads 1 MiB at a time into memory that begins on a page.
func readDirect(f *os.File) (int64, error) {
	buf, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(buf)
	return readTo(f, buf)
}

// readDisk reads a file past the page cache, in chunks of 4 MiB, four of them at once: the disk's
// full speed.
func readDisk(f *os.File, _ int64) (int64, error) {
	const piece, depth = 4 << 20, 4
	st, err := f.Stat()
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, unix.O_DIRECT)
	}
	if err != nil {
		return 0, err
	}
	mem, err := unix.Mmap(-1, 0, (depth+1)*piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(mem)
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // else the kernel looks up every 4 KiB
	mem = mem[-uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%piece:]
	var total, next atomic.Int64
	failed := make(chan error, depth)
	for i := range depth {
		buf := mem[i*piece:][:piece]
		go func() {
			for {
				off := next.Add(piece) - piece
				if off >= st.Size() {
					failed <- nil
					return
				}
				n, err := f.ReadAt(buf, off)
				if total.Add(int64(n)); err != nil && err != io.EOF {
					failed <- err
					return
				}
			}
		}()
	}
	for range depth {
		err = errors.Join(err, <-failed)
	}
	return total.Load(), err
}

// readTo reads a file to its end, a buffer at a time.
func readTo(f *os.File, buf []byte) (int64, error) {
	for total := int64(0); ; {
		n, err := f.Read(buf)
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// readMapped copies every byte out of a mapping.
func readMapped(f *os.File, advice int) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, fmt.Errorf("mmap: %w", err)
	}
	if err := unix.Madvise(m, advice); err != nil {
		return 0, fmt.Errorf("madvise: %w", err)
	}
	buf := make([]byte, catSize)
	for rest := m; len(rest) > 0; {
		rest = rest[copy(buf, rest):]
	}
	return st.Size(), nil // the mapping ends with the process
}

// readAgain reads a file again and again, each time through the server, until it
// has read n bytes.
func readAgain(f *os.File, n int64) (total int64, err error) {
	for total < n {
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return total, fmt.Errorf("fadvise: %w", err)
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return total, err
		}
		got, err := readLikeCat(f)
		if total += got; err != nil {
			return total, err
		}
		if got == 0 {
			return total, errors.New("an empty file")
		}
	}
	return total, nil
}

// coldPages is how many pages here and there are read of a model.
const coldPages = 64

// readPages reads pages far apart, in no order.
func readPages(f *os.File, count int64) (total int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	page := make([]byte, 4096)
	for i := range count {
		n, err := f.ReadAt(page, (i*29%count*(st.Size()/count)+i<<13)&^4095)
		if total += int64(n); err != nil {
			return total, err
		}
	}
	return total, nil
}

// readPagesOfAll reads pages of all files of a directory of coldTensors files.
func readPagesOfAll(dir *os.File, _ int64) (int64, error) {
	return readFiles(dir, 0, 1, 0, func(f *os.File) (int64, error) { return readPages(f, coldPages/coldTensors) })
}

// touchMemory takes n bytes from the kernel, in huge pages if it can, and gives them back.
func touchMemory(_ *os.File, n int64) (int64, error) {
	m, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return 0, fmt.Errorf("mmap: %w", err)
	}
	_ = unix.Madvise(m, unix.MADV_HUGEPAGE)               // else it takes longer
	if unix.Madvise(m, unix.MADV_POPULATE_WRITE) != nil { // before Linux 5.14
		for i := 0; i < len(m); i += 4096 {
			m[i] = 1
		}
	}
	return n, nil
}

// benchReader is a reader at work.
type benchReader struct {
	cmd       *exec.Cmd
	out, said bytes.Buffer
}

func startBenchReader(t testing.TB, how, path string, n int64) *benchReader {
	t.Helper()
	r := &benchReader{cmd: exec.Command(os.Args[0], path, strconv.FormatInt(n, 10))}
	r.cmd.Env = append(os.Environ(), asReader+"="+how)
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.said
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// wait returns what the reader took, without the CPU time of a server.
func (r *benchReader) wait(t testing.TB) (s sample) {
	t.Helper()
	err := r.cmd.Wait()
	if _, serr := fmt.Sscan(r.out.String(), (*int64)(&s.wall), (*int64)(&s.cpu), &s.bytes, &s.disk); err != nil || serr != nil {
		t.Fatalf("reading %s: %v: %s", r.cmd.Args[1], err, r.said.Bytes())
	}
	return s
}

// touch makes a virtual machine have n bytes of memory at hand. The first touch
// of a page that the host has to give may cost ten times a later one, and a host
// may take free memory back within seconds.
func touch(t testing.TB, n int64) {
	t.Helper()
	startBenchReader(t, "touch", os.DevNull, n).wait(t)
}
