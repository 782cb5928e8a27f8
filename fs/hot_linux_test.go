package fs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// TestHotMemory: files are made hot only as far as memory is left, those that
// are being filled counted, and closed ones give way. The log stays empty.
func TestHotMemory(t *testing.T) {
	h, s := testHot(t, 100<<20)
	var log lockedBuffer
	h.log = slog.New(slog.NewTextHandler(&log, nil))
	const free = 6 << 20 // three huge pages
	h.left = func() int64 { return free - (h.used - h.filling) }
	d := pattern{0, 2 << 20}
	open := func(id uint64, d pattern, want bool) {
		t.Helper()
		if _, hot, err := h.open(id, d); hot != want || err != nil {
			t.Fatalf("file %d: hot %v, %v", id, hot, err)
		}
	}
	open(1, d, true)
	open(2, d, true)
	open(3, pattern{0, 4 << 20}, false)
	open(4, d, true)
	open(5, d, false)
	h.release(1)
	h.release(2)
	open(6, pattern{0, 6 << 20}, false) // evicting both would not do
	if len(s.live) != 3 {
		t.Errorf("%d files registered: some were evicted in vain", len(s.live))
	}
	open(7, pattern{0, 4 << 20}, true)
	if len(s.live) != 2 {
		t.Errorf("%d files registered", len(s.live))
	}
	// Those who still have it mapped keep an evicted file's memory.
	h.release(4)
	h.left = func() int64 { return 1 << 20 }
	open(8, d, false)
	if log.String() != "" {
		t.Errorf("it complains although nothing is wrong:\n%s", log.String())
	}

	// What is being filled is not counted as used yet.
	h, _ = testHot(t, 100<<20)
	h.left = func() int64 { return 6 << 20 }
	gate := make(chan struct{})
	done := make(chan bool)
	go func() {
		_, hot, _ := h.open(1, slow{pattern{0, 4 << 20}, gate, nil, new(atomic.Int64)})
		done <- hot
	}()
	for h.opensOf(1) == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, hot, err := h.open(2, pattern{0, 4 << 20}); hot || err != nil {
		t.Errorf("memory was promised twice: hot %v, %v", hot, err)
	}
	close(gate)
	if !<-done || h.filling != 0 {
		t.Errorf("%d bytes are still being filled", h.filling)
	}
}

// memoryGroup makes a control group with a memory limit for the time of a test.
func memoryGroup(t *testing.T, limit int64) (dir, events string) {
	table, err := os.ReadFile(mounts.Table)
	if err != nil {
		t.Fatal(err)
	}
	var tried []error
	for _, m := range mounts.ParseTable(string(table)) {
		file, ok := map[string]string{"cgroup2": "memory.max", "cgroup": "memory.limit_in_bytes"}[m.Type]
		if !ok || m.Type == "cgroup" && !slices.Contains(m.Super, "memory") {
			continue
		}
		dir := filepath.Join(m.Mountpoint, fmt.Sprintf("tensorfs-test-%d", os.Getpid()))
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			t.Cleanup(func() {
				// Its processes have ended a moment ago.
				testlimit.Wait(t, "end of the control group", func() bool { return os.Remove(dir) == nil })
			})
			err = os.WriteFile(filepath.Join(dir, file), []byte(strconv.FormatInt(limit, 10)), 0)
		}
		if err == nil {
			if m.Type == "cgroup" {
				return dir, "memory.oom_control"
			}
			return dir, "memory.events"
		}
		tried = append(tried, err)
	}
	t.Skipf("NOT TESTED: no control group with a memory limit can be made here: %v", errors.Join(tried...))
	return "", ""
}

// clientHog is a process in a control group, DIR, with MIB of memory.
func clientHog(args []string) error {
	if err := joinGroup(args[0]); err != nil {
		return err
	}
	mib, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	b, err := unix.Mmap(-1, 0, mib<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Println("holding")
	bufio.NewScanner(os.Stdin).Scan()
	return nil
}

func joinGroup(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

// TestHotInControlGroup: hot files stay below the limit of the control group,
// together with all others in it, and nobody is killed.
func TestHotInControlGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: hot files need root")
	}
	needFUSE(t)
	const limit = 256 << 20
	group, events := memoryGroup(t, limit)
	kills := func() string {
		b, err := os.ReadFile(filepath.Join(group, events))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				return strings.TrimSpace(n)
			}
		}
		t.Fatalf("no oom_kill in %q", b)
		return ""
	}
	model := newModel(t, 50<<20)

	// More than the limit: refused at once.
	mnt := filepath.Join(tempDir(t), "refused")
	if err := os.Mkdir(mnt, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], mnt, "model", model, "cgroup="+group, "hot=230")
	cmd.Env = childEnv("server")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "control group") || strings.Contains(string(out), "ready") {
		mounts.Unmount(mnt, true)
		t.Errorf("230 of 256 MiB for hot files: %v, %s", err, out)
	}

	// Others in the group take half of it, and the files would be 144 MiB.
	s := serve(t, "model", model, "cgroup="+group, "hot=200")
	hog := s.startHolder("hog", group, "130")
	a := s.hold("f16/f.large", "open")
	b := s.hold("raw/f.large", "open")
	c := s.hold("raw/e.aligned", "map")
	for _, h := range []*holder{a, b, c} {
		fmt.Fprintln(h.in, "read")
	}
	a.expect(t, fmt.Sprintf("read %d", 2*(48<<20-13)))
	b.expect(t, fmt.Sprintf("read %d", 48<<20-13))
	c.expect(t, fmt.Sprintf("read %d", 1<<20))
	if got := kills(); got != "0" {
		t.Errorf("%s processes of the group were killed", got)
	}
	for _, h := range []*holder{a, b, c} {
		h.end()
		_ = h.cmd.Wait()
	}
	hog.end()
	if err := hog.cmd.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
	// What they took is free again.
	testlimit.Wait(t, "hot file after memory is free again", func() bool {
		h := s.hold("f16/f.large", "open")
		var files []HotFile
		if err := json.Unmarshal([]byte(s.ask("hot")), &files); err != nil {
			t.Fatal(err)
		}
		h.end()
		_ = h.cmd.Wait()
		return slices.ContainsFunc(files, func(f HotFile) bool { return f.Path == "f16/f.large" })
	})
	if log := s.log.String(); log != "" {
		t.Errorf("log:\n%s", log)
	}
}
