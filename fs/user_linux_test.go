package fs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
)

// ordinaryUID is the uid of an ordinary user.
const ordinaryUID = 65534

// TestAsOrdinaryUser runs the tests of mounting again as a user without rights, through
// fusermount3. If only root may open /dev/fuse, it changes this in a mount namespace of its own.
func TestAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the tests run as an ordinary user already")
	}
	needFUSE(t)
	if _, err := exec.LookPath("fusermount3"); err != nil {
		t.Skipf("NOT TESTED: mounting as an ordinary user: %v", err)
	}
	if _, err := os.Stat("/etc/mtab"); errors.Is(err, os.ErrNotExist) {
		t.Skip("NOT TESTED: mounting as an ordinary user: there is no /etc/mtab, without which fusermount3 does not unmount")
	}
	dir := tempDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	binary, tmp := filepath.Join(dir, "fs.test"), filepath.Join(dir, "tmp")
	if err := copyFile(binary, os.Args[0]); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(tmp, 0o700), os.Chown(tmp, ordinaryUID, ordinaryUID)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, dir, "-test.v", "-test.short",
		"-test.run=^(TestMount|TestMountTable|TestMountRefuses|TestStandardFS|TestWideDirectory|TestUnmount|TestUnmountLazily|TestSignal|TestCrash|TestStaleInUse|TestHung|TestLostModel|TestLostPage|TestExercise|TestDirectBeside|TestAllowOther|TestMakeMountpoint|TestMakeMountpointKilled|TestMakeMountpointAtOnce|TestMakeMountpointRefuses|TestOwner)$")
	cmd.Env = append(os.Environ(), roleEnv+"=user", "TMPDIR="+tmp)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	// The root of a chroot is often no mount point, so that it cannot be made private.
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM) {
		t.Skipf("NOT TESTED: mounting as an ordinary user: no mount namespaces here: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"TestMount", "TestUnmountLazily", "TestCrash", "TestStaleInUse", "TestHung", "TestExercise/read_by_the_kernel", "TestDirectBeside/read_by_the_kernel", "TestAllowOther", "TestMakeMountpoint/lazily", "TestMakeMountpointKilled", "TestMakeMountpointAtOnce"} {
		if !strings.Contains(string(out), "--- PASS: "+name) {
			t.Errorf("%s did not run:\n%s", name, out)
		}
	}
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// becomeUser is a process in its own mount namespace: DIR ARGS... It makes
// /dev/fuse usable for everybody, gives up root and runs the tests.
func becomeUser(args []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	// The copies of mounts that other tests made would keep their servers.
	table, err := os.ReadFile(mounts.Table)
	if err != nil {
		return err
	}
	for _, m := range mounts.ParseTable(string(table)) {
		if m.Type == mounts.Type {
			_ = unix.Unmount(m.Mountpoint, unix.MNT_DETACH) // one may be below another
		}
	}
	node := filepath.Join(args[0], "fuse")
	if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(10, 229))); err != nil {
		return fmt.Errorf("mknod: %w", err)
	}
	if err := errors.Join(os.Chmod(node, 0o666), unix.Mount(node, "/dev/fuse", "", unix.MS_BIND, "")); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(ordinaryUID), syscall.Setuid(ordinaryUID)); err != nil {
		return fmt.Errorf("giving up root: %w", err)
	}
	env := os.Environ()
	for i, v := range env {
		if strings.HasPrefix(v, roleEnv+"=") {
			env[i] = roleEnv + "="
		}
	}
	return syscall.Exec(os.Args[0], append([]string{os.Args[0]}, args[1:]...), env)
}

// TestAllowOther: an ordinary user needs the administrator's leave, and is told
// so in one line.
func TestAllowOther(t *testing.T) {
	needFUSE(t)
	dir := tempDir(t)
	mnt := filepath.Join(dir, "mnt")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(mnt, 0o755)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		conf, _ := os.ReadFile("/etc/fuse.conf") // absent means no
		if strings.Contains("\n"+string(conf), "\nuser_allow_other") {
			t.Skip("everybody may let others in here")
		}
		s, err := Mount(nested(), mnt, Options{AllowOther: true})
		if err == nil {
			s.UnmountLazy()
			t.Fatal("mounted")
		}
		if !strings.Contains(err.Error(), "/etc/fuse.conf") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		}
		return
	}
	as := func(uid uint32) error {
		cmd := exec.Command("cat", filepath.Join(mnt, "b/f"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if err == nil && string(out) != "ff" {
			err = errors.New(strconv.Quote(string(out)))
		}
		return err
	}
	s := serveAt(t, mnt, "small", "small")
	if as(0) != nil || as(ordinaryUID) == nil {
		t.Error("without allow_other a mount is for its owner only")
	}
	if got := s.ask("unmount"); got != "ok" {
		t.Fatal(got)
	}
	serveAt(t, mnt, "small", "small", "extra=allow_other")
	if err := errors.Join(as(0), as(ordinaryUID)); err != nil {
		t.Errorf("with allow_other: %v", err)
	}
}
