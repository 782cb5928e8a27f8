package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// missingDir returns a directory that is not there, and is unmounted after the test.
func missingDir(t *testing.T) string {
	t.Helper()
	needFUSE(t)
	dir := filepath.Join(t.TempDir(), "made")
	t.Cleanup(func() { mounts.Unmount(dir, true) })
	return dir
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// A mount point that mount made is removed with the mount, however it is unmounted.
func TestMountMakesDirectory(t *testing.T) {
	umount := func(t *testing.T, dir string) {
		if code, _, stderr := command("umount", dir); code != 0 || stderr != "" {
			t.Errorf("umount: %d %q", code, stderr)
		}
		if isThere(dir) {
			t.Error("umount returns before the directory is gone")
		}
	}
	kill := func(t *testing.T, dir string, sig syscall.Signal) {
		pid := statusOf(t, dir).PID
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
		ended(t, pid)
	}
	for name, end := range map[string]func(t *testing.T, dir string){
		"umount": umount,
		"system": func(t *testing.T, dir string) {
			args := []string{"fusermount3", "-u", dir}
			if os.Geteuid() == 0 {
				args = []string{"umount", dir}
			}
			// Who lists all mounts, such as another test, is in each for a moment.
			testlimit.Wait(t, "end of those who look into all mounts", func() bool {
				out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
				if err != nil && !strings.Contains(strings.ToLower(string(out)), "busy") {
					t.Fatalf("%v: %s", err, out)
				}
				return err == nil
			})
		},
		"signal": func(t *testing.T, dir string) { kill(t, dir, syscall.SIGTERM) },
		"killed": func(t *testing.T, dir string) {
			kill(t, dir, syscall.SIGKILL)
			umount(t, dir)
		},
		"mounted again": func(t *testing.T, dir string) {
			kill(t, dir, syscall.SIGKILL)
			mountAt(t, dir, q8, "--no-mkdir")
			umount(t, dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := missingDir(t)
			mountAt(t, dir, q8)
			if st := statusOf(t, dir); st == nil || !st.Healthy {
				t.Fatalf("status: %+v", st)
			}
			end(t, dir)
			testlimit.Wait(t, "end of the directory", func() bool { return !isThere(dir) })
		})
	}
	t.Run("foreground", func(t *testing.T) {
		needSignal(t, os.Interrupt)
		dir := missingDir(t)
		c := foreground(t, q8, dir)
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		unmounted(t, c, dir)
		if isThere(dir) {
			t.Error("the directory is left")
		}
	})
	t.Run("no model", func(t *testing.T) {
		dir := missingDir(t)
		if code, _, _ := command("mount", "none.gguf", dir); code != 1 || isThere(dir) {
			t.Errorf("exit code %d; the directory is left: %v", code, isThere(dir))
		}
	})
}

// umount tries all that it is given.
func TestUmountSeveral(t *testing.T) {
	a, b := mounted(t, q8), mounted(t, q8)
	none := filepath.Join(t.TempDir(), "none")
	code, out, stderr := command("umount", a, none, b)
	if want := "tensorfs: " + none + " does not exist; tensorfs status lists the mounts\n"; code != cli.ExitFailed || out != "" || stderr != want {
		t.Errorf("%d, %q, %q; want %q", code, out, stderr, want)
	}
	if isMounted(t, a) || isMounted(t, b) {
		t.Error("one is still mounted")
	}
}

// A mount without a mount point has a place of its own, and a name.
func TestMountWithoutMountpoint(t *testing.T) {
	needFUSE(t)
	runtime := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	want := filepath.Join(runtime, "tensorfs/llama-xs.q8_0")
	t.Cleanup(func() { mounts.Unmount(want, true) })
	code, out, stderr := command("mount", q8)
	if code != 0 || out != want+"\n" || stderr != "" {
		t.Fatalf("%d, %q, %q; want %s", code, out, stderr, want)
	}
	if st := statusOf(t, want); st == nil || !st.Healthy {
		t.Errorf("status: %+v", st)
	}
	if code, _, stderr := command("umount", "llama-xs.q8_0"); code != 0 || stderr != "" || isMounted(t, want) || isThere(want) {
		t.Errorf("umount: %d %q", code, stderr)
	}
	if code, _, stderr := command("umount", "llama-xs.q8_0"); code != 1 || !strings.Contains(stderr, "does not exist") {
		t.Errorf("umount of nothing: %d %q", code, stderr)
	}
}

// What ps shows of a server: what was asked for, and nothing else.
func TestServerArguments(t *testing.T) {
	model, err := filepath.Abs(ggufDir + "llama-xs.f16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct{ flags, want []string }{
		{nil, nil},
		{[]string{"-o", "rw,nofail,x-a=b,_netdev,noatime,umask=027", "-o", "nodiratime"}, []string{"-o", "noatime,umask=027,nodiratime"}},
		{[]string{"--i2s", "64", "-o", "gguf_type=q8_0,allow_other,follow_links,debug", "--log", log},
			[]string{"--allow-other", "--debug", "--follow-links", "--gguf-type=q8_0", "--i2s=64", "--log=" + log}},
		{[]string{"--no-mkdir", "-o", "read_ahead=64"}, []string{"--no-mkdir", "--read-ahead=64"}},
	} {
		if (slices.Contains(c.want, "--allow-other") || slices.Contains(c.want, "--read-ahead=64")) && os.Geteuid() != 0 {
			continue
		}
		if slices.Contains(c.flags, "nodiratime") && os.Geteuid() != 0 {
			continue // not every fusermount3 knows it
		}
		dir := mounted(t, model, c.flags...)
		args, err := os.ReadFile("/proc/" + strconv.Itoa(statusOf(t, dir).PID) + "/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")
		if want := slices.Concat([]string{"mount", "--as-server"}, c.want, []string{model, dir}); !slices.Equal(got[1:], want) {
			t.Errorf("%q\nwant %q", got[1:], want)
		}
	}
}

// env. sets a variable of the server, as a line of fstab has to.
func TestMountOptionEnv(t *testing.T) {
	dir := mountDir(t)
	home := t.TempDir()
	c := program(t, q8, dir, "-o", "ro,env.HF_HOME="+home+",env.OLLAMA_MODELS=/a=b")
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(statusOf(t, dir).PID) + "/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"HF_HOME=" + home, "OLLAMA_MODELS=/a=b"} {
		if !slices.Contains(strings.Split(string(environ), "\x00"), want) {
			t.Errorf("%q lacks %q", environ, want)
		}
	}
}

// The program under the name by which mount(8) finds it, with mount(8)'s arguments
// and exit codes.
func TestMountHelper(t *testing.T) {
	dir := mountDir(t)
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{q8, dir, "-t", "fuse.tensorfs", "-o", "ro,nofail,users,_netdev,noatime"}, 0, ""},
		{[]string{q8, dir, "-f", "-v", "-n"}, 0, ""},
		{[]string{q8, dir, "-f", "-o", "nonsense"}, 1, "unknown mount option"},
		{[]string{q8, dir, "-s", "-f", "-o", "nonsense"}, 0, ""},
		{[]string{q8, dir, "-N", "/proc/1/ns/mnt"}, 32, "nsenter"},
		{[]string{q8}, 1, "usage: mount.tensorfs"},
		{[]string{q8 + ".none", dir}, 32, "no such file"},
	} {
		for _, name := range helperNames {
			p := program(t)
			p.Args = append([]string{"/sbin/" + name}, c.args...)
			mounts := c.code == 0 && !slices.Contains(c.args, "-f")
			out, _ := p.CombinedOutput() // the exit code is checked
			if p.ProcessState.ExitCode() != c.code || !strings.Contains(string(out), c.stderr) || (c.stderr == "") != (len(out) == 0) {
				t.Errorf("%s %q: exit code %d, %q; want %d, %q", name, p.Args, p.ProcessState.ExitCode(), out, c.code, c.stderr)
			}
			if isMounted(t, dir) != mounts {
				t.Errorf("%q: mounted %v", p.Args, !mounts)
			}
			if mounts {
				if code, _, stderr := command("umount", dir); code != 0 {
					t.Fatal(stderr)
				}
			}
		}
	}
}

// mount(8) itself, by a line of fstab, without fuse3. It looks for helpers in
// directories of its own, so the link is laid over them in a mount namespace.
func TestMountHelperOfSystem(t *testing.T) {
	needFUSE(t)
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: mount(8) takes root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	model, err := filepath.Abs(q8)
	if err != nil {
		t.Fatal(err)
	}
	script := `set -eu
cd "$1"; mkdir over over/up over/work m
mount -t tmpfs none over; mkdir over/up over/work
mount -t overlay -o lowerdir=/usr/sbin,upperdir=over/up,workdir=over/work none /usr/sbin 2>/dev/null || { echo unsupported; exit 0; }
rm -f /usr/sbin/mount.fuse /usr/sbin/mount.fuse3; ln -sf "$2" /usr/sbin/mount.tensorfs; ln -sf "$2" /usr/sbin/mount.fuse.tensorfs
echo "$3 $1/m tensorfs ro,nofail,users,_netdev,x-systemd.automount,comment=x 0 0" > fstab
for how in "-a -T fstab" "-a -T fstab" "-t fuse.tensorfs $3 $1/m"; do
	mount $how; findmnt -n -o FSTYPE,SOURCE m; [ -s m/README ]
	[ "$how" = "-a -T fstab" ] && [ -z "${again-}" ] && { again=1; continue; } # a second mount -a mounts nothing
	umount m
done
findmnt m || echo none`
	dir := t.TempDir()
	out, err := exec.Command("unshare", "-m", "sh", "-c", script, "sh", dir, self, model).CombinedOutput()
	if strings.Contains(string(out), "unsupported") || err != nil && strings.Contains(string(out), "unshare") {
		t.Skipf("NOT TESTED with mount(8): no mount namespace or overlay here: %s", out)
	}
	line := "fuse.tensorfs " + model + "\n"
	if want := line + line + line + "none\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}

// A unit with Type=notify learns when the mount can be used.
func TestNotifyReady(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dir := mountDir(t)
	p := program(t, "mount", "-f", q8, dir)
	p.Env = append(p.Env, "NOTIFY_SOCKET="+socket)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(testlimit.Patience)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	if n, err := c.Read(b); err != nil || string(b[:n]) != "READY=1" {
		t.Errorf("%q, %v", b[:n], err)
	}
	if _, err := os.ReadFile(filepath.Join(dir, "README")); err != nil {
		t.Error(err)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	unmounted(t, p, dir)
}

// The table for people fits in a terminal, and shows what is wrong.
func TestStatusText(t *testing.T) {
	model := copyOf(t, q8)
	dir := mounted(t, model)
	t.Setenv("HOME", filepath.Dir(model))
	if err := os.Truncate(model, 4096); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := command("status")
	if code != 0 || stderr != "" {
		t.Fatalf("%d, %q", code, stderr)
	}
	st := statusOf(t, dir)
	if st == nil || st.Mounted == nil || time.Since(*st.Mounted) > time.Hour || st.Healthy || st.LastError == nil {
		t.Fatalf("%+v", st)
	}
	row := ""
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, strconv.Itoa(st.PID)+" ") {
			row = line
		}
	}
	f := strings.Fields(row)
	if len(f) != 5 || f[1] != "changed" || !strings.HasSuffix(f[2], "s") || f[4] != "~/"+filepath.Base(model) {
		t.Errorf("%q in\n%s", row, out)
	}
	if want := model + " changed after it was mounted"; strings.Count(out, want) != 1 {
		t.Errorf("%s\nlacks %q", out, want)
	}
	now := time.Now()
	for ago, want := range map[time.Duration]string{0: "0s", -time.Second: "0s", 59 * time.Second: "59s", time.Minute: "1m", 90 * time.Minute: "1h", 47 * time.Hour: "47h", 49 * time.Hour: "2d", 1000 * 24 * time.Hour: "1000d"} {
		at := now.Add(-ago)
		if got := (&mountStatus{Mounted: &at}).age(now); got != want {
			t.Errorf("%v: %s, want %s", ago, got, want)
		}
	}
	// It has what happened once.
	ended := mountStatus{Warnings: []fs.Fault{{Message: server.NotReadAhead + ` why="no room"`}}, Warm: &fs.WarmStatus{View: "hf", Ended: "no room"}}
	var printed strings.Builder
	if ended.print(&printed); strings.Count(printed.String(), "no room") != 1 {
		t.Errorf("%s", &printed)
	}
	// The contract of --json, for other programs.
	_, text, _ := command("status", "--json")
	var list []map[string]any
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"mountpoint", "model", "pid", "healthy", "state", "mounted", "changed", "last_error", "errors"} {
		if _, ok := list[0][key]; !ok {
			t.Errorf("no %q in %s", key, text)
		}
	}
}

// An ordinary user's directory is made and removed by himself, and without /etc/mtab
// he is told what helps.
func TestOrdinaryUserMakesDirectory(t *testing.T) {
	dir, out := ordinaryUser(t, `m=$dir/home/m
as "$dir/tensorfs" mount "$dir/model.gguf" "$m"; as stat -c %U "$m"; as "$dir/tensorfs" umount "$m"; ls "$dir/home" | wc -l
as "$dir/tensorfs" mount "$dir/model.gguf" "$m"; as fusermount3 -u "$m"
for i in $(seq 500); do [ -d "$m" ] || break; sleep 0.02; done; ls "$dir/home" | wc -l
as "$dir/tensorfs" mount "$dir/model.gguf" "$dir/m"
as "$dir/tensorfs" mount "$dir/model.gguf" "$m"
mkdir "$dir/etc"; cp /etc/passwd /etc/group "$dir/etc/"; mount --bind "$dir/etc" /etc
as "$dir/tensorfs" umount "$m"
"$dir/tensorfs" umount "$m"; echo "root $?"; ls "$dir/home" | wc -l`)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	want := []string{"nobody", "0", "0", "you may not write in " + dir, "ln -s /proc/self/mounts /etc/mtab", "root 0", "0"}
	if len(lines) != len(want) {
		t.Fatal(out)
	}
	for i, w := range want {
		if !strings.Contains(lines[i], w) {
			t.Errorf("line %d is %q, want %q", i, lines[i], w)
		}
	}
}
