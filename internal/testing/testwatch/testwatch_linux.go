package testwatch

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// free returns an error if no inotify instance is available.
func free() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// Need skips a test where the system has no inotify instance left for this user.
func Need(t testing.TB) {
	t.Helper()
	if err := free(); err != nil {
		t.Skipf("NOT TESTED: this user has no inotify instance left (%v); raise fs.inotify.max_user_instances", err)
	}
}

const (
	insideEnv = "TENSORFS_TEST_WITHOUT_INOTIFY"
	// instances is the limit of the user namespace that reads it.
	instances = "/proc/sys/user/max_inotify_instances"
)

// Without runs the calling test again, in a user namespace and a mount namespace of its own
// without inotify instances. It returns true there. Outside it returns false when that run
// has ended, and fails the test if the other run failed.
func Without(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) != "" {
		if err := os.WriteFile(instances, []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
		if err := free(); !errors.Is(err, unix.EMFILE) {
			t.Fatalf("an inotify instance in spite of the limit: %v", err)
		}
		return true
	}
	c := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), insideEnv+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		t.Logf("without inotify:\n%s", out)
	case errors.As(err, &exit):
		t.Errorf("without inotify: %v\n%s", err, out)
	default:
		t.Skipf("NOT TESTED: this system allows no user namespace, in which a limit could be set: %v", err)
	}
	return false
}
