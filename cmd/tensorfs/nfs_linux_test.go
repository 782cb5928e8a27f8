package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/nfsstate"
	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
	"golang.org/x/sys/unix"
)

// ownStates gives the servers of a test a place of their own, short enough for sockets,
// and returns it.
func ownStates(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tfs")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	return filepath.Join(dir, "tensorfs")
}

// served runs tensorfs serve until the test ends, and returns its address.
func servedNFS(t *testing.T, model string, flags ...string) (c *exec.Cmd, at *url.URL) {
	t.Helper()
	c = program(t, append(append([]string{"serve"}, flags...), model)...)
	stdout, err := c.StdoutPipe()
	must(t, err)
	c.Stderr = os.Stderr
	must(t, c.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	at, err = url.Parse(strings.TrimSpace(line))
	must(t, err)
	if at.Scheme != "nfs" || at.Host != "127.0.0.1" || at.Query().Get("nfsport") != at.Query().Get("mountport") || at.Query().Get("version") != "3" {
		t.Fatalf("address %q", line)
	}
	return c, at
}

// dialNFS connects to a server.
func dialNFS(t *testing.T, port string) *testnfs.Client {
	t.Helper()
	c, err := testnfs.Dial("127.0.0.1:" + port)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	c.UID = uint32(os.Geteuid())
	return c
}

// The address that serve prints is for any number of programs, and its secret is
// nowhere else.
func TestServe(t *testing.T) {
	states := ownStates(t)
	c, at := servedNFS(t, q8)
	port, token := at.Query().Get("nfsport"), at.Path[1:]
	want := succeeds(t, "cat", q8, "config.json")
	for range 3 {
		client := dialNFS(t, port)
		client.UID = 12345
		root, err := client.Mount(at.Path)
		must(t, err)
		h, _, err := client.Find(root, "config.json")
		must(t, err)
		if got, err := client.ReadAll(h, 100); err != nil || string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
		must(t, client.Unmount(at.Path)) // does not end it
	}
	if h, err := dialNFS(t, port).Mount("/" + strings.Repeat("0", 32)); err == nil {
		t.Errorf("a wrong token gives the handle %x", h)
	}
	proc := "/proc/" + strconv.Itoa(c.Process.Pid)
	for _, file := range []string{"cmdline", "environ"} {
		if b, err := os.ReadFile(filepath.Join(proc, file)); err != nil || bytes.Contains(b, []byte(token)) {
			t.Errorf("%s: %q, %v", file, b, err)
		}
	}
	for path, mode := range map[string]os.FileMode{states: 0o700 | os.ModeDir, filepath.Join(states, port+".json"): 0o600} {
		if st, err := os.Lstat(path); err != nil || st.Mode() != mode {
			t.Errorf("%s: %v, %v; want %v", path, st, err, mode)
		}
	}
	must(t, c.Process.Signal(os.Interrupt))
	must(t, c.Wait())
	if left, err := os.ReadDir(states); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A server that was killed leaves its state behind, and the next status removes it.
func TestServeKilled(t *testing.T) {
	states := ownStates(t)
	c, _ := servedNFS(t, q8)
	must(t, c.Process.Kill())
	_ = c.Wait() // it was killed
	if left, err := os.ReadDir(states); err != nil || len(left) != 2 {
		t.Fatalf("%v, %v", left, err)
	}
	if code, out, stderr := command("status", "--json"); code != 0 || stderr != "" || !json.Valid([]byte(out)) {
		t.Errorf("%d %q %q", code, out, stderr)
	}
	if left, err := os.ReadDir(states); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// systemMount is a program that replaces mount(8) if the kernel has no NFS: it mounts an empty
// directory with the same source. The test is the client.
const systemMount = `#!/bin/sh
[ "$#" = 6 ] && [ "$1 $2 $3" = "-t nfs -o" ] || { echo "mount: bad arguments: $*" >&2; exit 1; }
exec %s -t tmpfs -o ro "$5" "$6"
`

// mountsNFS lets a test and its programs mount by NFS.
func mountsNFS(t *testing.T) {
	t.Helper()
	t.Setenv(withNFSClient, "1")
	server.NFSClients["linux"] = linuxClient
	t.Cleanup(func() { delete(server.NFSClients, "linux") })
}

// withMount replaces mount(8) by a program, and returns the directory of states.
func withMount(t *testing.T, script string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root can mount NFS")
	}
	if strings.Contains(script, "%s") {
		real, err := exec.LookPath("mount")
		if err != nil {
			t.Skipf("NOT TESTED: %v", err)
		}
		needMounts(t)
		script = fmt.Sprintf(script, real)
	}
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "mount"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	mountsNFS(t)
	return ownStates(t)
}

// needMounts skips, loudly, where root may not mount.
func needMounts(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_RDONLY, ""); err != nil {
		t.Skipf("NOT TESTED: nothing can be mounted here: %v", err)
	}
	must(t, unix.Unmount(dir, 0))
}

// mountedNFS mounts a model over the replaced mount(8), at a new directory.
func mountedNFS(t *testing.T, dir string, flags ...string) *nfsstate.State {
	t.Helper()
	t.Cleanup(func() { mounts.Unmount(dir, true) })
	mountAt(t, dir, q8, append([]string{"--backend", "nfs"}, flags...)...)
	return stateAt(t, dir)
}

// stateAt returns the state of the server of a mount.
func stateAt(t *testing.T, dir string) *nfsstate.State {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "tensorfs", "*.json"))
	must(t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		must(t, err)
		s := &nfsstate.State{}
		must(t, json.Unmarshal(b, s))
		if s.Mountpoint == dir {
			return s
		}
	}
	t.Fatalf("no state for %s in %q", dir, files)
	return nil
}

// reader is a client that has a file open.
type reader struct {
	*testnfs.Client
	file testnfs.Handle
}

const readPath = "f16/output_norm.weight"

func openNFS(t *testing.T, s *nfsstate.State) *reader {
	t.Helper()
	c := dialNFS(t, strconv.Itoa(s.Port))
	root, err := c.Mount("/" + s.Token)
	must(t, err)
	h, _, err := c.Find(root, readPath)
	must(t, err)
	r := &reader{c, h}
	r.check(t)
	return r
}

func (r *reader) check(t *testing.T) {
	t.Helper()
	want := succeeds(t, "cat", q8, readPath)
	if got, err := r.ReadAll(r.file, 1000); err != nil || string(got) != want {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
	}
}

// noStates checks that a server has left nothing.
func noStates(t *testing.T, states string) {
	t.Helper()
	if left, err := os.ReadDir(states); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The life of a mount: made, seen, read, in use, unmounted.
func TestNFSMount(t *testing.T) {
	states := withMount(t, systemMount)
	dir := filepath.Join(t.TempDir(), "m")
	s := mountedNFS(t, dir)
	st := statusOf(t, dir)
	abs, err := filepath.Abs(q8)
	must(t, err)
	if st == nil || st.Backend != "nfs" || st.Model != abs || st.PID != s.PID || !st.Healthy || st.State != "ok" || st.Mounted == nil {
		t.Fatalf("%+v", st)
	}
	if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.PID)); err != nil || bytes.Contains(cmdline, []byte(s.Token)) {
		t.Errorf("%q, %v", cmdline, err)
	}
	if code, _, stderr := command("mount", "--backend", "nfs", q8, dir); code != 1 || !strings.Contains(stderr, "is mounted there already") {
		t.Errorf("a second mount: %d %q", code, stderr)
	}
	r := openNFS(t, s)
	other := dialNFS(t, strconv.Itoa(s.Port))
	if _, err := other.Mount("/" + s.Token); err == nil {
		t.Error("a second client may mount with the path that everybody sees")
	}
	// Every user may report that it is unmounted.
	must(t, other.Unmount("/"+s.Token))
	if st := statusOf(t, dir); st == nil || !st.Healthy {
		t.Errorf("%+v", st)
	}
	r.check(t)

	inside, err := os.Open(dir)
	must(t, err)
	defer inside.Close()
	if code, _, stderr := command("umount", dir); code != 1 || !strings.Contains(stderr, "is in use") {
		t.Errorf("unmounted in use: %d %q", code, stderr)
	}
	r.check(t)
	inside.Close()
	r.Close()
	other.Close()
	if code, out, stderr := command("umount", dir); code != 0 || out+stderr != "" {
		t.Errorf("%d %q %q", code, out, stderr)
	}
	ended(t, s.PID)
	noStates(t, states)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory that mount made: %v", err)
	}
}

// However the mount goes, the server ends and leaves nothing.
func TestNFSEnd(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, dir string, s *nfsstate.State){
		"SIGTERM":   func(t *testing.T, _ string, s *nfsstate.State) { must(t, unix.Kill(s.PID, unix.SIGTERM)) },
		"umount(2)": func(t *testing.T, dir string, _ *nfsstate.State) { must(t, unix.Unmount(dir, 0)) },
		"umount -l": func(t *testing.T, dir string, s *nfsstate.State) {
			// Who has a file open is served until he is done.
			r := openNFS(t, s)
			if code, _, stderr := command("umount", "-l", dir); code != 0 || stderr != "" {
				t.Errorf("%d %q", code, stderr)
			}
			r.check(t)
			if !alive(s.PID) {
				t.Error("the server has ended")
			}
			r.Close()
		},
		"killed, umount": func(t *testing.T, dir string, s *nfsstate.State) {
			must(t, unix.Kill(s.PID, unix.SIGKILL))
			ended(t, s.PID)
			if st := statusOf(t, dir); st == nil || st.Healthy || st.State != "no answer" || !strings.HasSuffix(st.Model, filepath.Base(q8)) {
				t.Errorf("%+v", st)
			}
			if code, _, stderr := command("umount", dir); code != 0 || stderr != "" {
				t.Errorf("%d %q", code, stderr)
			}
		},
		"killed, umount(2)": func(t *testing.T, dir string, s *nfsstate.State) {
			must(t, unix.Kill(s.PID, unix.SIGKILL))
			ended(t, s.PID)
			must(t, unix.Unmount(dir, 0))
			if st := statusOf(t, dir); st != nil {
				t.Errorf("%+v", st)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			states := withMount(t, systemMount)
			dir := t.TempDir()
			s := mountedNFS(t, dir)
			end(t, dir, s)
			ended(t, s.PID)
			if isMounted(t, dir) {
				t.Error("still mounted")
			}
			noStates(t, states)
		})
	}
}

// In the foreground as in the background.
func TestNFSForeground(t *testing.T) {
	states := withMount(t, systemMount)
	dir := t.TempDir()
	t.Cleanup(func() { mounts.Unmount(dir, true) })
	c := program(t, "mount", "-f", "--backend", "nfs", q8, dir)
	stdout, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.Contains(line, "is mounted at "+dir) {
		t.Fatalf("%q, %v", line, err)
	}
	openNFS(t, stateAt(t, dir)).Close()
	must(t, c.Process.Signal(os.Interrupt))
	must(t, c.Wait())
	noStates(t, states)
}

// A mount whose server was killed continues with another server, also for open files, if the tree
// is the same. Otherwise it is mounted again.
func TestNFSResume(t *testing.T) {
	withMount(t, systemMount)
	dir := t.TempDir()
	first := mountedNFS(t, dir)
	r := openNFS(t, first)
	kill := func(s *nfsstate.State) {
		must(t, unix.Kill(s.PID, unix.SIGKILL))
		ended(t, s.PID)
	}
	kill(first)
	second := mountedNFS(t, dir)
	if second.PID == first.PID || second.Port != first.Port || second.Token != first.Token || !slices.Equal(second.Key, first.Key) {
		t.Fatalf("%+v after %+v", second, first)
	}
	(&reader{dialNFS(t, strconv.Itoa(second.Port)), r.file}).check(t)
	if _, err := dialNFS(t, strconv.Itoa(second.Port)).Mount("/" + second.Token); err == nil {
		t.Error("the token can be used again")
	}
	if st := statusOf(t, dir); st == nil || !st.Healthy || st.PID != second.PID {
		t.Errorf("%+v", st)
	}
	kill(second)
	third := mountedNFS(t, dir, "--views", "raw")
	if third.Token == first.Token || slices.Equal(third.Key, first.Key) {
		t.Errorf("%+v after %+v", third, first)
	}
	if _, err := dialNFS(t, strconv.Itoa(third.Port)).GetAttr(r.file); err == nil {
		t.Error("a handle of another tree is good")
	}
	all, err := mounts.List()
	must(t, err)
	if all = slices.DeleteFunc(all, func(m mounts.Mount) bool { return m.Mountpoint != dir }); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	if code, _, stderr := command("umount", dir); code != 0 || stderr != "" {
		t.Errorf("%d %q", code, stderr)
	}
}

// A mount that fails gives the reason in a line, and leaves nothing.
func TestNFSMountFails(t *testing.T) {
	for name, test := range map[string]struct{ script, want string }{
		"no kernel": {"#!/bin/sh\necho \"mount: unknown filesystem type 'nfs'.\" >&2\necho '  dmesg(1) has more' >&2\nexit 32\n", "mount: unknown filesystem type 'nfs'."},
		"silent":    {"#!/bin/sh\nexit 7\n", "exit status 7"},
		"secret":    {"#!/bin/sh\necho \"mount.nfs: access denied by server while mounting $5\" >&2\nexit 32\n", "while mounting 127.0.0.1:/..."},
		"late":      {"#!/bin/sh\n%s -t tmpfs -o ro \"$5\" \"$6\"; echo too late >&2; exit 1\n", "too late"},
	} {
		t.Run(name, func(t *testing.T) {
			states := withMount(t, test.script)
			dir := filepath.Join(t.TempDir(), "m")
			code, out, stderr := command("mount", "--backend", "nfs", q8, dir)
			if code != 1 || out != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) || !strings.Contains(stderr, "--backend fuse") {
				t.Errorf("%d %q %q", code, out, stderr)
			}
			if pids := processesOf(t, dir); len(pids) > 0 {
				t.Errorf("processes %v", pids)
			}
			noStates(t, states)
			if _, err := os.Lstat(dir); !os.IsNotExist(err) {
				t.Errorf("the directory: %v", err)
			}
		})
	}
}

// A program that does not end is ended, with all that it has started.
func TestNFSMountHangs(t *testing.T) {
	withMount(t, "#!/bin/sh\nsleep 1000 & echo $! >\"$6\"\nwait\n")
	pidFile := filepath.Join(t.TempDir(), "pid")
	ctx, end := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- server.RunNFSMount(ctx, 1, strings.Repeat("a", 32), pidFile) }()
	testlimit.Wait(t, "start of the program", func() bool {
		b, err := os.ReadFile(pidFile)
		return err == nil && bytes.HasSuffix(b, []byte("\n"))
	})
	end()
	if err := testlimit.Receive(t, "end of the program", failed); err == nil || !strings.Contains(err.Error(), "did not end") {
		t.Errorf("%v", err)
	}
	b, err := os.ReadFile(pidFile)
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	must(t, err)
	ended(t, pid)
}

// With the kernel's own client.
func TestNFSKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root can mount NFS")
	}
	types, err := os.ReadFile("/proc/filesystems")
	must(t, err)
	if _, err := exec.LookPath("mount.nfs"); err != nil || !bytes.Contains(types, []byte("\tnfs\n")) {
		t.Skip("NOT TESTED: this kernel has no NFS client, or there is no mount.nfs")
	}
	mountsNFS(t)
	ownStates(t)
	for _, model := range allModels(t) {
		dir := t.TempDir()
		t.Cleanup(func() { mounts.Unmount(dir, true) })
		mountAt(t, dir, model, "--backend", "nfs")
		tree, err := (&modelFlags{}).open(model)
		must(t, err)
		must(t, tensorfs.Walk(tree.Root, func(path string, e tensorfs.Entry) error {
			if e.Data == nil {
				return nil
			}
			want := catted(t, e.Data)
			if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes, %v; want %d", path, len(got), err, len(want))
			}
			return nil
		}))
		tree.Model.Close()
		s := stateAt(t, dir)
		if code, out, stderr := command("umount", dir); code != 0 || out+stderr != "" {
			t.Errorf("%d %q %q", code, out, stderr)
		}
		ended(t, s.PID)
	}
}
