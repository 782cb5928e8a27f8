package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testwatch"
	"golang.org/x/sys/unix"
)

var (
	soakFor   = flag.Duration("soak", 4*time.Second, "how long TestSoak reads")
	soakTable = flag.String("soak-table", "", "file for the samples that TestSoak takes")
)

// TestSoak reads three mounts from several processes, in a memory cgroup if there is one: two that
// must never fail, and one whose server is killed and whose model is truncated, overwritten and
// mounted again at random. Every byte is compared. The lasting servers must not grow.
func TestSoak(t *testing.T) {
	t.Parallel()
	testwatch.Need(t)
	needFUSE(t)
	pristine := largeModel(t)
	limit := newMemoryLimit(t)
	begin := time.Now()

	steady := []*soakServer{soakMount(t, pristine, limit), soakMount(t, pristine, limit, "--no-passthrough")}
	fresh := soakMount(t, pristine, limit)
	idle := fresh.goroutines(t)

	stress := newStress(t, pristine, limit)
	var all []*soakReader
	for i := range 2 {
		for _, s := range steady {
			all = append(all, startReader(t, s.dir, pristine, uint64(i), false, limit))
		}
		all = append(all, startReader(t, stress.dir, pristine, uint64(10+i), true, limit))
	}
	interval := max(*soakFor/200, 100*time.Millisecond)
	for n := 0; n < 4 || time.Since(begin) < *soakFor; n++ {
		stress.step(t)
		for _, s := range steady {
			s.sample(t, time.Since(begin))
		}
		time.Sleep(interval)
	}
	sum := soaked{Errors: map[string]int64{}}
	for _, r := range all {
		s := r.stop(t)
		if s.Wrong != "" {
			t.Errorf("%s: %s", r.dir, s.Wrong)
		}
		sum.Operations += s.Operations
		sum.Bytes += s.Bytes
		for e, n := range s.Errors {
			sum.Errors[e] += n
		}
	}
	t.Logf("%v, %s: %d operations, %s compared; of the mount under stress: %v, errors %v",
		time.Since(begin).Round(time.Second), limit, sum.Operations, cli.Size(sum.Bytes), stress.done, sum.Errors)
	if sum.Bytes == 0 || len(stress.done) == 0 {
		t.Error("nothing was read or nothing was done")
	}
	for _, s := range steady {
		s.checkFlat(t)
		if n := s.goroutines(t); n > idle+16 {
			t.Errorf("%s: %d goroutines at the end, %d in an idle server", s.name, n, idle)
		} else {
			t.Logf("%s: %d goroutines at the end, %d in an idle server", s.name, n, idle)
		}
	}
}

// memoryLimit is a cgroup that holds servers and readers to some memory, page
// cache included, so that pages are taken back all the time.
type memoryLimit struct {
	dir   string // "" without one
	bytes int64
}

// soakMemory is enough for the processes and too little for all pages; under the
// race detector they take several times as much.
var soakMemory = int64(768 << 20 * raceFactor)

func newMemoryLimit(t *testing.T) *memoryLimit {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return &memoryLimit{}
	}
	for _, c := range []struct{ line, root, file string }{
		{`(?m)^\d+:memory:(.*)$`, "/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		{`(?m)^0::(.*)$`, "/sys/fs/cgroup", "memory.max"},
	} {
		m := regexp.MustCompile(c.line).FindSubmatch(own)
		if m == nil {
			continue
		}
		parent := filepath.Join(c.root, string(m[1]))
		var fsys unix.Statfs_t
		if err := unix.Statfs(parent, &fsys); err != nil || fsys.Type != unix.CGROUP_SUPER_MAGIC && fsys.Type != unix.CGROUP2_SUPER_MAGIC {
			continue // a plain directory would take all that is written to it
		}
		dir, err := os.MkdirTemp(parent, "tensorfs-soak")
		if err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(strconv.FormatInt(soakMemory, 10)), 0); err != nil {
			os.Remove(dir)
			continue
		}
		t.Cleanup(func() {
			testlimit.Wait(t, "end of the cgroup's last process", func() bool { return os.Remove(dir) == nil })
		})
		return &memoryLimit{dir, soakMemory}
	}
	return &memoryLimit{}
}

func (m *memoryLimit) String() string {
	if m.dir == "" {
		return "without a memory limit"
	}
	return "in " + cli.Size(m.bytes) + " of memory"
}

// take moves a process into the cgroup.
func (m *memoryLimit) take(t *testing.T, pid int) {
	t.Helper()
	if m.dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(m.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		t.Error(err)
	}
}

// soakServer is a server in the foreground.
type soakServer struct {
	name, dir string
	cmd       *exec.Cmd
	stderr    *bytes.Buffer
	exited    chan struct{}
	samples   []soakSample
}

// What a server of a small model may take at any time: KiB and threads.
const (
	soakAnon    = 96 << 10
	soakThreads = 32
)

// soakSample is what a server takes at a time.
type soakSample struct {
	at                   time.Duration
	anon                 int64 // RssAnon in KiB
	threads, descriptors int
}

func soakMount(t *testing.T, model string, limit *memoryLimit, flags ...string) *soakServer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &soakServer{name: strings.Join(append([]string{"mount"}, flags...), " "), dir: t.TempDir(), stderr: new(bytes.Buffer), exited: make(chan struct{})}
	s.cmd = exec.Command(self, append(append([]string{"mount", "-f"}, flags...), model, s.dir)...)
	s.cmd.Stderr = s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit.take(t, s.cmd.Process.Pid)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		s.cmd.Wait()
		t.Fatalf("%s: %v: %s", s.name, err, s.stderr)
	}
	go func() {
		s.cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(func() {
		mounts.Unmount(s.dir, true)
		s.cmd.Process.Kill()
		<-s.exited
	})
	return s
}

var statusLine = regexp.MustCompile(`(?m)^(RssAnon|Threads):\s+(\d+)`)

func (s *soakServer) sample(t *testing.T, at time.Duration) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", s.cmd.Process.Pid)
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		t.Fatalf("%s is gone: %v\n%s", s.name, err, s.stderr)
	}
	x := soakSample{at: at}
	for _, m := range statusLine.FindAllSubmatch(status, -1) {
		n, _ := strconv.ParseInt(string(m[2]), 10, 64)
		if string(m[1]) == "Threads" {
			x.threads = int(n)
		} else {
			x.anon = n
		}
	}
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		t.Fatal(err)
	}
	x.descriptors = len(fds)
	s.samples = append(s.samples, x)
	if *soakTable != "" {
		f, err := os.OpenFile(*soakTable, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(f, "%s\t%.0f\t%d\t%d\t%d\n", s.name, at.Seconds(), x.anon, x.threads, x.descriptors)
		f.Close()
	}
}

// checkFlat holds the last half of the samples against the first, which includes
// the time of filling caches and pools.
func (s *soakServer) checkFlat(t *testing.T) {
	t.Helper()
	half := len(s.samples) / 2
	if half == 0 {
		t.Fatal("no samples")
	}
	most := func(of []soakSample) (x soakSample) {
		for _, y := range of {
			x.anon, x.threads, x.descriptors = max(x.anon, y.anon), max(x.threads, y.threads), max(x.descriptors, y.descriptors)
		}
		return x
	}
	a, b := most(s.samples[:half]), most(s.samples[half:])
	t.Logf("%s: %d samples; most in the first and the second half: RssAnon %d and %d KiB, threads %d and %d, descriptors %d and %d",
		s.name, len(s.samples), a.anon, b.anon, a.threads, b.threads, a.descriptors, b.descriptors)
	// A short run may spend its first half on filling what the second has full.
	if b.anon > max(a.anon*3/2, soakAnon) || b.threads > max(a.threads+8, soakThreads) || b.descriptors > max(a.descriptors+8, soakThreads) {
		t.Errorf("%s grows", s.name)
	}
}

// goroutines ends a server by SIGQUIT and counts the goroutines that it lists.
func (s *soakServer) goroutines(t *testing.T) int {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	<-s.exited
	n := len(regexp.MustCompile(`(?m)^goroutine \d+ `).FindAll(s.stderr.Bytes(), -1))
	if n == 0 {
		t.Errorf("%s lists no goroutines: %s", s.name, s.stderr)
	}
	return n
}

// soakReader is a process that reads.
type soakReader struct {
	dir string
	cmd *exec.Cmd
	in  io.Closer
	out bytes.Buffer
}

func startReader(t *testing.T, dir, model string, seed uint64, forgiving bool, limit *memoryLimit) *soakReader {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &soakReader{dir: dir, cmd: exec.Command(self)}
	r.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%s\n%d\n%t", asSoaker, dir, model, seed, forgiving))
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit.take(t, r.cmd.Process.Pid)
	return r
}

func (r *soakReader) stop(t *testing.T) (s soaked) {
	t.Helper()
	r.in.Close()
	err := r.cmd.Wait()
	if jerr := json.Unmarshal(r.out.Bytes(), &s); err != nil || jerr != nil {
		t.Errorf("a reader of %s ended: %v, %s", r.dir, err, r.out.Bytes())
	}
	return s
}

// stress is a mount to which everything happens.
type stress struct {
	dir, model string
	good       []byte // what model holds
	rng        *rand.Rand
	limit      *memoryLimit
	done       map[string]int
}

func newStress(t *testing.T, pristine string, limit *memoryLimit) *stress {
	t.Helper()
	good, err := os.ReadFile(pristine)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed of what happens: %d", seed)
	s := &stress{dir: t.TempDir(), model: filepath.Join(t.TempDir(), "m.gguf"), good: good, rng: rand.New(rand.NewPCG(seed, 0)), limit: limit, done: map[string]int{}}
	s.renew(t)
	s.mount(t)
	t.Cleanup(func() { mounts.Unmount(s.dir, true) })
	return s
}

// renew replaces the model by a good file.
func (s *stress) renew(t *testing.T) {
	t.Helper()
	next := s.model + ".new"
	if err := os.WriteFile(next, s.good, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, s.model); err != nil {
		t.Fatal(err)
	}
}

func (s *stress) mount(t *testing.T) {
	t.Helper()
	mountAt(t, s.dir, s.model)
	if st := statusOf(t, s.dir); st != nil && st.PID > 0 {
		s.limit.take(t, st.PID)
	}
}

// detach unmounts, in use or not.
func (s *stress) detach(t *testing.T) {
	t.Helper()
	if code, _, stderr := command("umount", "-l", s.dir); code != 0 {
		t.Fatalf("umount -l: %s", stderr)
	}
}

// happenings are what step chooses from. After each a good mount is there.
var happenings = []struct {
	name string
	do   func(s *stress, t *testing.T, pid int)
}{
	{"killed", func(s *stress, t *testing.T, pid int) {
		syscall.Kill(pid, syscall.SIGKILL)
		s.mount(t)
	}},
	{"detached", func(s *stress, t *testing.T, _ int) {
		s.detach(t)
		s.mount(t)
	}},
	{"unmounted", func(s *stress, t *testing.T, _ int) {
		if code, _, _ := command("umount", s.dir); code != 0 { // it is in use most of the time
			s.detach(t)
		}
		s.mount(t)
	}},
	{"truncated", func(s *stress, t *testing.T, _ int) {
		if err := os.Truncate(s.model, s.rng.Int64N(int64(len(s.good)))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // let readers meet it
		s.renew(t)
		s.detach(t)
		s.mount(t)
	}},
	{"overwritten", func(s *stress, t *testing.T, _ int) {
		f, err := os.OpenFile(s.model, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		// Metadata first: a write of nothing moves the time before bytes change,
		// as a program that rewrites a model in place does by opening it with
		// O_TRUNC. Bytes that change under a reply that is under way are a caveat
		// of package fs.
		if err := f.Truncate(int64(len(s.good)) - 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		f.WriteAt(bytes.Repeat([]byte{0xee}, 1<<20), s.rng.Int64N(int64(len(s.good)-1<<20)))
		f.Close()
		time.Sleep(20 * time.Millisecond)
		s.renew(t)
		s.detach(t)
		s.mount(t)
	}},
	{"replaced", func(s *stress, t *testing.T, _ int) { s.renew(t) }}, // no reader may notice
}

func (s *stress) step(t *testing.T) {
	t.Helper()
	h := happenings[s.rng.IntN(len(happenings))]
	st := statusOf(t, s.dir)
	if st == nil || !st.Healthy {
		t.Fatalf("the mount under stress after %v: %+v", s.done, st)
	}
	h.do(s, t, st.PID)
	s.done[h.name]++
}
