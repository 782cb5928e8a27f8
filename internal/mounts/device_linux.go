package mounts

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// errDevice is the error that a descriptor cannot be the device of a mount.
var errDevice = errors.New("it is not the device of that mount")

// Held returns the tensorfs mount at a path that has a device number and is served through
// a descriptor, nil if it is gone. It trusts no process: it asks the kernel which mount the
// descriptor serves or, if the kernel does not report that (before Linux 6.16), who made
// the mount.
func Held(path, number string, device int) (*Mount, error) {
	const fuseMinor = 229
	var st unix.Stat_t
	if err := unix.Fstat(device, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(10, fuseMinor) {
		return nil, errDevice
	}
	poll := []unix.PollFd{{Fd: int32(device)}}
	if _, err := unix.Poll(poll, 0); err != nil || poll[0].Revents&unix.POLLERR != 0 {
		return nil, err // nothing is mounted with it
	}
	is, known := Connection(device)
	if known && is != number {
		return nil, errDevice
	}
	m, err := Top(path)
	if err != nil || m == nil || m.Type != Type || m.Device != number {
		return nil, err
	}
	if !known && m.user != os.Geteuid() {
		return nil, fmt.Errorf("%s: user %d mounted there: %w", tensorfs.Printable(path), m.user, errDevice)
	}
	return m, nil
}

// Connection returns the device number of the mount that a descriptor of the FUSE device
// serves, if the kernel reports it.
func Connection(device int) (number string, known bool) {
	const minorBits = 20
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(device))
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "fuse_connection:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32)
			return fmt.Sprintf("%d:%d", n>>minorBits, n&(1<<minorBits-1)), err == nil
		}
	}
	return "", false
}
