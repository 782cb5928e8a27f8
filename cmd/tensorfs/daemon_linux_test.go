package main

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// program makes a command that runs this binary as tensorfs, in a process group
// of its own as a shell would start it.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), "GOGC=100", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	t.Cleanup(func() {
		if c.Process != nil && c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	return c
}

// mountDir returns an empty directory that is unmounted after the test.
func mountDir(t *testing.T) string {
	t.Helper()
	needFUSE(t)
	dir := t.TempDir()
	t.Cleanup(func() { mounts.Unmount(dir, true) })
	return dir
}

// needSignal skips where the tests themselves were started with a signal ignored,
// which the programs that they start then do too.
func needSignal(t *testing.T, sig os.Signal) {
	t.Helper()
	if signal.Ignored(sig) {
		t.Skipf("NOT TESTED: %v is ignored here", sig)
	}
}

// signalMask returns one of the sets of signals that /proc has of a process.
func signalMask(t *testing.T, pid int, name string) uint64 {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), name+":")
	hex, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask
}

// isMounted reports whether the mount table has a tensorfs at dir. It does not
// touch the mount.
func isMounted(t *testing.T, dir string) bool {
	t.Helper()
	all, err := mounts.List()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(m mounts.Mount) bool { return m.Mountpoint == dir })
}

// processesOf returns the processes that have dir as an argument.
func processesOf(t *testing.T, dir string) (pids []int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		line, err := os.ReadFile(path)
		if err == nil && slices.Contains(strings.Split(string(line), "\x00"), dir) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// workingOrNone waits until the processes at dir are quiet, and checks that there is either a
// working mount or none, and no process without a mount. It unmounts.
func workingOrNone(t *testing.T, dir string) (working bool) {
	t.Helper()
	testlimit.Wait(t, "settled server", func() bool {
		pids := processesOf(t, dir)
		if len(pids) == 0 {
			return true
		}
		// A server that has said that it is ready has cut its pipe.
		stderr, err := os.Readlink("/proc/" + strconv.Itoa(pids[0]) + "/fd/2")
		return err == nil && stderr == os.DevNull && len(pids) == 1
	})
	if !isMounted(t, dir) {
		testlimit.Wait(t, "end of the server without a mount", func() bool { return len(processesOf(t, dir)) == 0 })
		return false
	}
	// It works, or it is being unmounted now, which works too.
	_, err := os.ReadFile(filepath.Join(dir, "raw/output_norm.weight"))
	switch {
	case err == nil:
		working = true
	case errors.Is(err, os.ErrNotExist) && !isMounted(t, dir):
		return false
	default:
		t.Errorf("a dead mount: %v", err)
	}
	code, _, stderr := command("umount", dir)
	if code != 0 && isMounted(t, dir) {
		t.Errorf("umount: %d %s", code, stderr)
	}
	testlimit.Wait(t, "end of the server", func() bool { return len(processesOf(t, dir)) == 0 })
	return working
}

// The mount command may be killed at any moment: afterwards there is a mount
// that works, or none.
func TestMountCommandIsKilled(t *testing.T) {
	t.Parallel()
	dir := mountDir(t)
	takes := time.Hour
	for range 3 {
		start := time.Now()
		if out, err := program(t, "mount", q8, dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		takes = min(takes, time.Since(start))
		if !workingOrNone(t, dir) {
			t.Fatal("no mount")
		}
	}
	const steps = 12
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			needSignal(t, sig)
			working := 0
			for i := range steps + 1 {
				c := program(t, "mount", q8, dir)
				var stderr bytes.Buffer
				c.Stderr = &stderr
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				if i == steps { // between mount(2) and the news of it
					testlimit.Wait(t, "mount", func() bool { return isMounted(t, dir) })
				} else {
					time.Sleep(takes * time.Duration(i) / (steps - 3))
				}
				_ = c.Process.Signal(sig) // it may have ended
				err := c.Wait()
				works := workingOrNone(t, dir)
				if works {
					working++
				}
				if c.ProcessState.Exited() && (err == nil) != works {
					t.Errorf("step %d: the command says %v %q, and whether the mount works is %v", i, err, &stderr, works)
				}
			}
			t.Logf("%d of %d mounts were there", working, steps+1)
		})
	}
}

// A mount command that is stopped while its server starts ends the server, waits for it and reports
// this.
func TestMountCommandIsStopped(t *testing.T) {
	dir := mountDir(t)
	for range 100 {
		c := program(t, "mount", q8, dir)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		var server int
		testlimit.Wait(t, "server", func() bool {
			pids := processesOf(t, dir)
			// A process that was forked has the command's own arguments until it
			// becomes the server, and the command waits for that.
			i := slices.IndexFunc(pids, func(pid int) bool {
				line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
				return err == nil && bytes.Contains(line, []byte("\x00--as-server\x00"))
			})
			if i >= 0 {
				server = pids[i]
			}
			return i >= 0
		})
		if err := syscall.Kill(server, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		testlimit.Wait(t, "stopped server", func() bool {
			b, err := os.ReadFile("/proc/" + strconv.Itoa(server) + "/stat")
			_, state, _ := strings.Cut(string(b), ") ")
			return err != nil || strings.HasPrefix(state, "T")
		})
		waiting, err := os.Readlink("/proc/" + strconv.Itoa(server) + "/fd/2")
		early := err == nil && strings.HasPrefix(waiting, "pipe:") // it has not said that it is ready
		if early {
			if err := c.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			testlimit.Wait(t, "signal of the command to its server", func() bool {
				return signalMask(t, server, "ShdPnd")&(1<<(syscall.SIGTERM-1)) != 0
			})
		}
		if err := syscall.Kill(server, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		err = c.Wait()
		if !early {
			workingOrNone(t, dir)
			continue
		}
		if err == nil || !strings.Contains(stderr.String(), "nothing is mounted") || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("the command says %v, %q", err, &stderr)
		}
		if isMounted(t, dir) || len(processesOf(t, dir)) != 0 {
			t.Error("it left a mount or its server")
		}
		return
	}
	t.Error("every server was ready before it could be stopped")
}

// An ordinary user's mount is made by fusermount3, which must not be stopped
// either between mounting and handing over the device. timeout signals the whole
// process group, as a terminal does.
func TestOrdinaryUserIsStopped(t *testing.T) {
	t.Parallel()
	needSignal(t, syscall.SIGINT)
	_, out := ordinaryUser(t, `mnt=$dir/home/mnt; as mkdir "$mnt"
trap 'pkill -KILL -u 65534 -f "$mnt"; umount -l "$mnt" 2>/dev/null' EXIT
for sig in INT KILL HUP; do
	for f in "" -f; do
		[ "$sig$f" = KILL-f ] && continue # that is the server
		for ms in 010 015 020 025 035 060; do
			as timeout -s $sig 0.$ms "$dir/tensorfs" mount $f "$dir/model.gguf" "$mnt" >/dev/null 2>&1
			for i in $(seq 200); do # until a server that is left has settled
				pid=$(pgrep -u 65534 -f "as-server.*$mnt" | head -n 1)
				[ -z "$pid" ] && break
				[ "$(readlink /proc/$pid/fd/2)" = /dev/null ] && break
				sleep 0.02
			done
			if grep -q "$mnt" /proc/mounts; then
				as cat "$mnt/README" >/dev/null || { ! grep -q "$mnt" /proc/mounts || echo "dead: $sig $f $ms"; }
				as "$dir/tensorfs" umount "$mnt" >/dev/null 2>&1
			fi
			for i in $(seq 500); do grep -q "$mnt" /proc/mounts || break; sleep 0.02; done
			grep "$mnt" /proc/mounts && { echo "left: $sig $f $ms"; umount -l "$mnt"; }
		done
	done
done
exit 0`, "timeout", "pkill")
	if out != "" {
		t.Error(out)
	}
}

// A server unmounts if its command is gone when it is ready.
func TestServerIsAbandoned(t *testing.T) {
	dir := mountDir(t)
	for range 5 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		model, err := filepath.Abs(q8)
		if err != nil {
			t.Fatal(err)
		}
		c := program(t, "mount", "--foreground", "--as-server", model, dir)
		c.Stderr = w
		if err := c.Run(); err == nil {
			t.Error("a server that nobody waits for ended well")
		}
		w.Close()
		if isMounted(t, dir) {
			t.Fatal("it left a mount")
		}
	}
}

// foreground starts mount -f and waits until it reports that it is ready.
func foreground(t *testing.T, model, dir string, flags ...string) *exec.Cmd {
	t.Helper()
	c := program(t, append(append([]string{"mount", "-f"}, flags...), model, dir)...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, "is mounted at") {
		t.Fatalf("%q, %v", line, err)
	}
	return c
}

// endsWell waits for the end of a server.
func endsWell(t *testing.T, c *exec.Cmd) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the server ended with %v", err)
		}
	case <-time.After(testlimit.Patience):
		t.Error("the server has not ended")
	}
}

// unmounted waits for the end of a server and checks that it unmounted.
func unmounted(t *testing.T, c *exec.Cmd, dir string) {
	t.Helper()
	endsWell(t, c)
	if isMounted(t, dir) {
		t.Error("it left a mount")
	}
}

func TestForegroundSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			needSignal(t, sig)
			dir := mountDir(t)
			c := foreground(t, q8, dir)
			if err := c.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			unmounted(t, c, dir)

			// And before it knows itself that it is mounted.
			c = program(t, "mount", "-f", q8, dir)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			testlimit.Wait(t, "mount", func() bool { return isMounted(t, dir) })
			if err := c.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			unmounted(t, c, dir)
		})
	}
}

// What nohup does: SIGHUP is ignored from before the program starts.
func TestNohup(t *testing.T) {
	dir := mountDir(t)
	c := program(t)
	c.Args = []string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh", c.Path, "mount", "-f", q8, dir}
	var err error
	if c.Path, err = exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	testlimit.Wait(t, "healthy mount", func() bool { st := statusOf(t, dir); return st != nil && st.Healthy })
	if signalMask(t, c.Process.Pid, "SigIgn")&(1<<(syscall.SIGHUP-1)) == 0 {
		t.Error("SIGHUP is not ignored")
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	unmounted(t, c, dir)
}

// A terminal that closes takes the server's output with it and hangs it up.
func TestTerminalCloses(t *testing.T) {
	needSignal(t, syscall.SIGHUP)
	dir := mountDir(t)
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("NOT TESTED with a terminal: %v", err)
	}
	defer terminal.Close()
	n, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skipf("NOT TESTED with a terminal: %v", err)
	}
	inside, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("NOT TESTED with a terminal: %v", err)
	}
	c := program(t, "mount", "-f", q8, dir)
	c.Stdin, c.Stdout, c.Stderr = inside, inside, inside
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	inside.Close()
	line, err := bufio.NewReader(terminal).ReadString('\n')
	if err != nil || !strings.Contains(line, "is mounted at") {
		t.Fatalf("%q, %v", line, err)
	}
	terminal.Close()
	unmounted(t, c, dir)
}

// The reader of the messages goes away and the server has something to say.
func TestReaderOfMessagesCloses(t *testing.T) {
	dir, model := mountDir(t), copyOf(t, q8)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := program(t, "mount", "-f", model, dir)
	c.Stdout, c.Stderr = w, w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := os.Truncate(model, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(filepath.Join(dir, "f16/output_norm.weight")); !errors.Is(err, syscall.EIO) {
		t.Errorf("a truncated model: %v", err)
	}
	unmounted(t, c, dir)
}

// copyOf copies a model to where the test may damage it.
func copyOf(t *testing.T, model string) string {
	t.Helper()
	b, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(model))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A server that was asked to unmount a busy mount does so once it is free.
func TestSIGTERMWaitsForUsers(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	dir := mounted(t, q8, "--log", log)
	st := statusOf(t, dir)
	f, err := os.Open(filepath.Join(dir, "f16/output_norm.weight"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Kill(st.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	said := func() int {
		b, _ := os.ReadFile(log)
		return strings.Count(string(b), "cannot unmount yet")
	}
	testlimit.Wait(t, "refusal in the log", func() bool { return said() > 0 })
	time.Sleep(server.UnmountAgain + server.UnmountAgain/2) // it tries again
	if st := statusOf(t, dir); st == nil || !st.Healthy || said() != 1 {
		t.Errorf("while it is in use: %+v, %d lines in the log", st, said())
	}
	f.Close()
	testlimit.Wait(t, "unmounting", func() bool { return !isMounted(t, dir) })
	ended(t, st.PID)
}
