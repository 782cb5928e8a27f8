package fs

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/nfsstate"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testwatch"
	"golang.org/x/sys/unix"
)

// serverOption sets an option of the server's command line.
func serverOption(o *Options, key, value string) error {
	var err error
	switch key {
	case "passthrough":
		o.NoPassthrough = value == "no"
	case "kept": // on a kernel before Linux 6.9
		canResend = func([]byte) bool { return false }
		o.Keeper = loggedKeeper{}
	case "ra":
		o.ReadAheadKiB, err = strconv.Atoi(value)
	default:
		err = fmt.Errorf("no option %q", key)
	}
	return err
}

// serverCommand answers a line of the server's input with a line.
func serverCommand(s *Server, line string) string {
	switch line {
	case "unmount":
		if err := s.Unmount(); err != nil {
			return err.Error()
		}
		return "ok"
	case "lazy":
		if err := s.UnmountLazy(); err != nil {
			return err.Error()
		}
		return "ok"
	case "images":
		if s.raw.passed == nil || s.raw.passed.images == nil {
			return "none"
		}
		return strconv.Itoa(s.Status().Images)
	case "give memory back":
		debug.FreeOSMemory() // after the first collection, pools still have their buffers
		debug.FreeOSMemory()
		return "ok"
	}
	return "what?"
}

// statusOf asks the server of a mount.
func statusOf(m *mounts.Mount) (s Status, err error) {
	err = m.Ask(&s)
	return s, err
}

// rssAnon returns the KiB of memory of a process's own.
func rssAnon(t *testing.T, pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no RssAnon")
	return 0
}

// servings are the ways of serving large files. For users other than root they are one.
var servings = []struct {
	name    string
	options []string
}{
	{"read by the kernel", nil},
	{"answered by the server", []string{"passthrough=no"}},
}

// TestMount lets clients read the tree in every way, served in every way.
func TestMount(t *testing.T) {
	for _, c := range servings {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, "model", newModel(t, 5<<20+123), c.options...)
			for _, client := range []string{"readall", "pread", "mmap", "direct", "readv", "sendfile", "stat", "xattr", "readonly", "getdents"} {
				t.Run(client, func(t *testing.T) {
					if out, err := s.client(client, s.mountpoint, s.sizeArg(), s.model); err != nil {
						t.Errorf("%v: %s", err, out)
					}
				})
			}
			t.Run("together", func(t *testing.T) {
				var wg sync.WaitGroup
				for _, client := range []string{"readall", "mmap", "pread", "direct"} {
					wg.Go(func() {
						if out, err := s.client(client, s.mountpoint, s.sizeArg(), s.model); err != nil {
							t.Errorf("%s: %v: %s", client, err, out)
						}
					})
				}
				wg.Wait()
			})
			if log := s.log.String(); log != "" {
				t.Errorf("the server complains:\n%s", log)
			}
			if got := s.ask("unmount"); got != "ok" {
				t.Fatalf("unmount: %s", got)
			}
			s.ended(t)
		})
	}
}

// oddBlanks are white space to Unicode and nothing of the kind to the mount table.
const oddBlanks = "\u00a0\u3000\u0085\u2028\v\f\r."

func TestMountTable(t *testing.T) {
	dir := filepath.Join(tempDir(t), "a mount, with\\odd\tbytes"+oddBlanks)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	needFUSE(t)
	s := serveAt(t, dir, "model", newModel(t, 1<<20), "extra=noatime,x-systemd.automount,rw,exec")
	all, err := mounts.List()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(m mounts.Mount) bool { return m.Mountpoint == dir })
	if i < 0 {
		t.Fatalf("the mount is not in %+v", all)
	}
	if all[i].Source != s.model || all[i].Type != "fuse.tensorfs" {
		t.Errorf("%+v", all[i])
	}
	st, err := statusOf(&all[i])
	if err != nil || st.PID != s.cmd.Process.Pid {
		t.Errorf("status: %+v, %v", st, err)
	}
	if os.Geteuid() == 0 {
		b, err := os.ReadFile("/sys/class/bdi/" + all[i].Device + "/read_ahead_kb")
		if err != nil || strings.TrimSpace(string(b)) != "1024" {
			t.Errorf("read_ahead_kb is %q, %v", b, err)
		}
	}
	// A child that outlives the server must not keep the mount alive.
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	devices := 0
	for _, fd := range fds {
		if target, _ := os.Readlink(fd); target != "/dev/fuse" {
			continue
		}
		devices++
		info, err := os.ReadFile(strings.Replace(fd, "/fd/", "/fdinfo/", 1))
		if err != nil {
			t.Fatal(err)
		}
		var pos, flags int64
		if _, err := fmt.Sscanf(string(info), "pos:\t%d\nflags:\t%o", &pos, &flags); err != nil || flags&unix.O_CLOEXEC == 0 {
			t.Errorf("%s is inherited by children: flags %o, %v", fd, flags, err)
		}
	}
	if want := 1 + btoi(s.ask("images") != "none"); devices != want {
		t.Errorf("%d descriptors of the device, want %d", devices, want)
	}
}

func TestWideDirectory(t *testing.T) {
	s := serve(t, "wide", "wide")
	s.run("wide", s.mountpoint)
	s.run("getdents", s.mountpoint)
	if log := s.log.String(); log != "" {
		t.Errorf("the server complains:\n%s", log)
	}
}

func TestStandardFS(t *testing.T) {
	s := serve(t, "small", "small")
	s.run("testfs", s.mountpoint)
}

// TestInodesRepeat: another mount of the same tree has the same inode numbers.
func TestInodesRepeat(t *testing.T) {
	model := newModel(t, 3<<20)
	a, b := serve(t, "model", model), serve(t, "model", model)
	inodes := func(s *server) string {
		out, err := exec.Command("find", s.mountpoint, "-printf", "%i %P %s %T@\n").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if x, y := inodes(a), inodes(b); x != y || len(x) < 200 {
		t.Errorf("not the same:\n%s\n%s", x, y)
	}
}

// holder is a client that keeps a file.
type holder struct {
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Reader
}

func (s *server) hold(file, how string) *holder {
	s.t.Helper()
	return s.startHolder("hold", s.mountpoint, file, how)
}

// startHolder starts a client that goes on until its input ends.
func (s *server) startHolder(args ...string) *holder {
	s.t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = childEnv("client")
	cmd.Stderr = s.log
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdin = r
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	r.Close()
	h := &holder{cmd, w, bufio.NewReader(out)}
	s.t.Cleanup(func() {
		w.Close()
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	h.expect(s.t, "holding")
	return h
}

func (h *holder) expect(t *testing.T, want string) {
	t.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != want {
		t.Fatalf("%q, %v, want %q", line, err, want)
	}
}

func (h *holder) end() { h.in.Close() }

// TestUnmount: a mount is busy while a process uses it; a lazy unmount succeeds at any time.
func TestUnmount(t *testing.T) {
	for _, how := range []string{"open", "map", "cwd"} {
		t.Run(how, func(t *testing.T) {
			s := serve(t, "model", newModel(t, 5<<20))
			h := s.hold("f16/d.odd", how)
			if got := s.ask("unmount"); !strings.Contains(got, "is in use") || !strings.Contains(got, s.mountpoint) {
				t.Errorf("in use: %s", got)
			}
			if err := mounts.Unmount(s.mountpoint, false); !errors.Is(err, syscall.EBUSY) {
				t.Errorf("in use, from outside: %v", err)
			}
			fmt.Fprintln(h.in, "read")
			h.expect(t, "read 155554")
			h.end()
			_ = h.cmd.Wait()
			if got := s.ask("unmount"); got != "ok" {
				t.Fatal(got)
			}
			s.ended(t)
			if m, _ := mounts.Top(s.mountpoint); m != nil {
				t.Errorf("%+v is left", m)
			}
		})
	}
}

func TestUnmountLazily(t *testing.T) {
	for _, from := range []string{"inside", "outside"} {
		t.Run(from, func(t *testing.T) {
			s := serve(t, "model", newModel(t, 5<<20))
			h := s.hold("f16/d.odd", "open")
			if from == "inside" {
				if got := s.ask("lazy"); got != "ok" {
					t.Fatal(got)
				}
			} else if err := mounts.Unmount(s.mountpoint, true); err != nil {
				t.Fatal(err)
			}
			if m, _ := mounts.Top(s.mountpoint); m != nil {
				t.Error("the name is still there")
			}
			if got := s.ask("unmount"); got != "ok" {
				t.Errorf("once more: %s", got)
			}
			fmt.Fprintln(h.in, "read")
			h.expect(t, "read 155554")
			if !s.alive() {
				t.Error("the server left its last user alone")
			}
			h.end()
			s.ended(t)
		})
	}
}

func TestSignal(t *testing.T) {
	s := serve(t, "model", newModel(t, 5<<20))
	h := s.hold("raw/d.odd", "open")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := s.answer(); !strings.Contains(got, "is in use") {
		t.Errorf("the first signal: %s", got)
	}
	s.run("readall", s.mountpoint, s.sizeArg())
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := s.answer(); got != "unmount: <nil>" {
		t.Errorf("the second signal: %s", got)
	}
	h.end()
	s.ended(t)
}

// TestUnmountPathRefuses: it touches nothing that is not a tensorfs.
func TestUnmountPathRefuses(t *testing.T) {
	dir := tempDir(t)
	for _, path := range []string{dir, "/proc", filepath.Join(dir, "nothing"), filepath.Join(dir, "nothing/deeper")} {
		if err := mounts.Unmount(path, true); err == nil {
			t.Errorf("%s: unmounted", path)
		}
		if done, _ := mounts.CleanStale(path); done {
			t.Errorf("%s: cleaned", path)
		}
	}
}

func TestMountRefuses(t *testing.T) {
	s := serve(t, "model", newModel(t, 1<<20))
	dir := tempDir(t)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(s.mountpoint, link); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "file")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	rootLink := filepath.Join(dir, "root")
	if err := os.Symlink("/", rootLink); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at   string
		want error
	}{
		{s.mountpoint, ErrMounted},
		{link, ErrMounted},
		{plain, nil},
		{filepath.Join(dir, "nothing"), os.ErrNotExist},
		{loop, nil},
		{"/", nil},
		{rootLink, nil},
		{"/etc", nil},
		{filepath.Dir(plain), mounts.ErrNotEmpty},
	} {
		srv, err := Mount(nested(), c.at, Options{})
		if err == nil {
			srv.UnmountLazy()
			t.Errorf("%s: mounted", c.at)
		}
		if c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.at, err)
		}
		if strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("%s: more than a line: %v", c.at, err)
		}
	}
	// A link to a live mount works for unmounting.
	if err := mounts.Unmount(link, false); err != nil {
		t.Error(err)
	}
}

// TestCrash: after a server was killed its mount can be told, cleaned and used
// again.
func TestCrash(t *testing.T) {
	s := serve(t, "model", newModel(t, 5<<20))
	s.run("readall", s.mountpoint, s.sizeArg())
	s.kill()
	if _, err := os.ReadDir(s.mountpoint); !errors.Is(err, syscall.ENOTCONN) {
		t.Fatalf("after the crash: %v", err)
	}
	all, err := mounts.List()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(m mounts.Mount) bool { return m.Mountpoint == s.mountpoint })
	if i < 0 {
		t.Fatal("the stale mount is not listed")
	}
	if _, err := statusOf(&all[i]); !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("status: %v", err)
	}
	link := filepath.Join(tempDir(t), "link")
	if err := os.Symlink(s.mountpoint, link); err != nil {
		t.Fatal(err)
	}
	if done, err := mounts.CleanStale(link); !done || err != nil {
		t.Fatalf("clean: %v, %v", done, err)
	}
	if done, err := mounts.CleanStale(link); done || err != nil {
		t.Errorf("clean once more: %v, %v", done, err)
	}
	b := serveAt(t, s.mountpoint, "model", s.model)
	b.run("readall", b.mountpoint, b.sizeArg())
	if done, err := mounts.CleanStale(b.mountpoint); done || err != nil {
		t.Errorf("a live mount: cleaned %v, %v", done, err)
	}
	// Mounting removes a dead mount automatically.
	b.kill()
	c := serveAt(t, s.mountpoint, "model", s.model)
	c.run("readall", c.mountpoint, c.sizeArg())
	if m, _ := mounts.Top(s.mountpoint); m == nil {
		t.Error("not mounted")
	}
	if got := c.ask("unmount"); got != "ok" {
		t.Error(got)
	}
	if m, _ := mounts.Top(s.mountpoint); m != nil {
		t.Error("mounts were stacked")
	}
}

// TestStaleInUse: a dead mount is replaced even where a program has its working
// directory or an open file in it.
func TestStaleInUse(t *testing.T) {
	for _, how := range []string{"cwd", "open"} {
		t.Run(how, func(t *testing.T) {
			a := serve(t, "model", newModel(t, 5<<20))
			h := a.hold("raw/d.odd", how)
			a.kill()
			b := serveAt(t, a.mountpoint, "model", a.model)
			b.run("readall", b.mountpoint, b.sizeArg())
			h.end()
			_ = h.cmd.Wait()
			if got := b.ask("unmount"); got != "ok" {
				t.Error(got)
			}
			if m, _ := mounts.Top(a.mountpoint); m != nil {
				t.Error("the dead mount is still there")
			}
		})
	}
}

// TestKilledWhileAsked: a server that ends while a process waits for its answer counts as ended,
// like one that ended before.
func TestKilledWhileAsked(t *testing.T) {
	s := serve(t, "model", newModel(t, 1<<20))
	s.stop()
	type outcome struct {
		done bool
		err  error
	}
	cleaned := make(chan outcome)
	go func() {
		done, err := mounts.CleanStale(s.mountpoint)
		cleaned <- outcome{done, err}
	}()
	time.Sleep(nfsstate.AskTime / 8) // most likely it waits by now; if not the test passes too
	s.kill()
	if got := <-cleaned; !got.done || got.err != nil {
		t.Errorf("cleaned %v, %v", got.done, got.err)
	}
}

// TestHung: a server that does not answer is neither cleaned nor waited for.
func TestHung(t *testing.T) {
	t.Parallel()
	s := serve(t, "model", newModel(t, 1<<20))
	s.stop()
	m := mounts.Mount{Mountpoint: s.mountpoint}
	testlimit.Return("looking at a hung server", func() {
		if done, err := mounts.CleanStale(s.mountpoint); done || err != nil {
			t.Errorf("cleaned %v, %v", done, err)
		}
		if _, err := statusOf(&m); !errors.Is(err, mounts.ErrHung) {
			t.Errorf("status: %v", err)
		}
		if _, err := Mount(nested(), s.mountpoint, Options{MakeMountpoint: true}); !errors.Is(err, ErrMounted) {
			t.Errorf("mounting there: %v", err)
		}
	})
	at, err := mounts.At(s.mountpoint)
	if err != nil || at == nil {
		t.Fatal(at, err)
	}
	if pid := at.Server(); pid != s.cmd.Process.Pid {
		t.Errorf("process %d serves it, not %d", pid, s.cmd.Process.Pid)
	}
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	testlimit.Wait(t, "status of a server that goes on", func() bool {
		st, err := statusOf(&m)
		if err != nil && !errors.Is(err, mounts.ErrHung) || err == nil && st.PID != s.cmd.Process.Pid {
			t.Fatalf("status afterwards: %+v, %v", st, err)
		}
		return err == nil
	})
	// It can be detached while it hangs, and ends when it goes on.
	s.stop()
	if err := mounts.Unmount(s.mountpoint, true); err != nil {
		t.Errorf("detaching it: %v", err)
	}
	if at, err := mounts.At(s.mountpoint); at != nil || err != nil {
		t.Errorf("it is still there: %+v, %v", at, err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.ended(t)
}

// TestLostModel: a model that is truncated or modified under its mount gives
// EIO and nothing else; renamed or unlinked it is served on.
func TestLostModel(t *testing.T) {
	testwatch.Need(t)
	damage := map[string]func(path string) error{
		"truncated": func(path string) error { return os.Truncate(path, 100) },
		"emptied":   func(path string) error { return os.Truncate(path, 0) },
		"grown":     func(path string) error { return os.Truncate(path, 50<<20) },
		"modified": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("!"), 3<<20)
			return err
		},
	}
	for name, do := range damage {
		for _, c := range servings {
			t.Run(name+", "+c.name, func(t *testing.T) {
				other := newModel(t, 2<<20)
				s := serve(t, "model", newModel(t, 5<<20), append([]string{"other=" + other}, c.options...)...)
				s.run("readall", s.mountpoint, "1050000") // the files that a smaller model has too
				if err := do(s.model); err != nil {
					t.Fatal(err)
				}
				// The kernel has pages of raw/e.aligned, which must not be opened all the same.
				s.run("eio", s.mountpoint, "raw/f.large", "f16/f.large", "joined/f.large", "raw/e.aligned")
				b, err := exec.Command("sh", "-c", "cat "+s.path("other")+" | cmp - "+other+" && cat "+s.path("README")+" && ls -lR "+s.mountpoint+" | wc -l").CombinedOutput()
				if err != nil || !strings.Contains(string(b), readme) {
					t.Errorf("what is not lost: %s, %v", b, err)
				}
				if !s.alive() {
					t.Error("the server is gone")
				}
				if n := strings.Count(s.log.String(), "file="); n != 1 || !strings.Contains(s.log.String(), "file="+s.model) {
					t.Errorf("%d lines in the log for one cause:\n%s", n, s.log)
				}
				if strings.Contains(s.log.String(), "panic") {
					t.Errorf("log:\n%s", s.log)
				}
				if got := s.ask("unmount"); got != "ok" {
					t.Error(got)
				}
			})
		}
	}
	for name, do := range map[string]func(path string) error{
		"renamed":  func(path string) error { return os.Rename(path, path+".old") },
		"unlinked": os.Remove,
		"chmodded": func(path string) error { return os.Chmod(path, 0o600) },
		"replaced": func(path string) error {
			if err := os.WriteFile(path+".new", []byte("another model"), 0o644); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "model", newModel(t, 5<<20))
			size := s.sizeArg()
			if err := do(s.model); err != nil {
				t.Fatal(err)
			}
			s.run("readall", s.mountpoint, size)
		})
	}
}

// TestRandomReads reads pages here and there of a model that is on the disk: little more
// than these pages is read from it, whatever the disk's read-ahead is.
func TestRandomReads(t *testing.T) {
	const reads = 50
	model := newModel(t, 64<<20)
	for _, dir := range []string{"raw", "f16", "joined"} {
		s := serve(t, "model", model)
		f, err := os.Open(model)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
		if err != nil {
			t.Fatal(err)
		}
		before := testlimit.DiskReads(s.cmd.Process.Pid)
		s.run("random", s.mountpoint, strconv.FormatInt(s.size, 10), dir+"/f.large", strconv.Itoa(reads))
		switch got := testlimit.DiskReads(s.cmd.Process.Pid) - before; {
		case got == 0:
			t.Skip("NOT TESTED: reading from a disk: the model is in memory")
		case got > reads*3*4096:
			t.Errorf("%s: %d reads of 4 KiB took %d KiB from the disk", dir, reads, got>>10)
		}
	}
}

// TestLostPage: the kernel runs into a lost page while it copies a reply, and a
// handler into a bug.
func TestLostPage(t *testing.T) {
	s := serve(t, "lost", newModel(t, 1<<20))
	for range 5 {
		s.run("eio", s.mountpoint, "lost", "bug")
	}
	if out, err := exec.Command("cat", s.path("fine")).Output(); err != nil || string(out) != "fine" {
		t.Errorf("the other file: %q, %v", out, err)
	}
	for want, most := range map[string]int{"a page of the model was lost": 1, "file=lost": 1, "panicking.ReadAt": maxPanics} {
		if n := strings.Count(s.log.String(), want); n == 0 || n > most {
			t.Errorf("%q is %d times in the log, want 1 to %d", want, n, most)
		}
	}
}

// TestOverwrittenMeanwhile overwrites a file between the check of a reply and its copy. What the
// reply brought into the page cache is never given to later readers.
func TestOverwrittenMeanwhile(t *testing.T) {
	s := serve(t, "overwritten", newModel(t, 1<<20))
	s.run("forgets", s.path("x"))
	s.run("forgets", s.path("large")) // which root's kernel reads through an image
	if out, err := exec.Command("cat", s.path("fine")).Output(); err != nil || string(out) != "fine" {
		t.Errorf("the other file: %q, %v", out, err)
	}
	testlimit.Wait(t, "line in the log", func() bool { return strings.Contains(s.log.String(), "changed after it was mounted") })
}

// TestMemory streams more than a gigabyte of converted bytes.
func TestMemory(t *testing.T) {
	total := int64(1 << 30)
	if testing.Short() {
		total = 128 << 20
	}
	s := serve(t, "model", newModel(t, 40<<20))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if out, err := s.client("stream", s.mountpoint, "f16/f.large", strconv.FormatInt(total/4, 10)); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	rss := rssAnon(t, s.cmd.Process.Pid)
	t.Logf("RssAnon %d KiB", rss)
	if rss > 64<<10 {
		t.Errorf("the server takes %d KiB", rss)
	}
}
