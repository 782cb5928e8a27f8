// Package testmount tells whether a test can mount, for the tests of all packages that do.
package testmount

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// Need skips a test, loudly, where nothing can be mounted.
func Need(t testing.TB) {
	t.Helper()
	if why := Missing(); why != "" {
		t.Skipf("NOT TESTED: nothing can be mounted here: %s", why)
	}
}

// Missing names what keeps this process from mounting by FUSE, "" if nothing does.
func Missing() string {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err.Error()
	}
	f.Close()
	if os.Geteuid() == 0 {
		if status, err := os.ReadFile("/proc/self/status"); err == nil && !mayAdminister(status) {
			return "root may not mount (it lacks CAP_SYS_ADMIN)"
		}
		return ""
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		return err.Error()
	}
	if _, err := os.Stat("/etc/mtab"); errors.Is(err, os.ErrNotExist) {
		return "there is no /etc/mtab, without which fusermount3 does not unmount"
	}
	return ""
}

var effective = regexp.MustCompile(`(?m)^CapEff:\s*([0-9a-f]+)$`)

// mayAdminister reports whether a process has the right to mount, by its
// /proc/PID/status.
func mayAdminister(status []byte) bool {
	const sysAdmin = 1 << 21
	m := effective.FindSubmatch(status)
	if m == nil {
		return true // the kernel does not say, so try
	}
	bits, err := strconv.ParseUint(string(m[1]), 16, 64)
	return err != nil || bits&sysAdmin != 0
}
