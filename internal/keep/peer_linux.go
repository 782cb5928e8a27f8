package keep

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// errStranger is wrapped by errors of sockets of other users. They get nothing: with the device of a mount, a user would answer
// the reads of everyone who uses the mount.
var errStranger = errors.New("only root and your own user may keep a mount")

// trusted reports whether a user is root or the user of this process.
func trusted(uid int) bool {
	return (uid == 0 || uid == os.Geteuid()) && !(namespaced() && uid == overflow())
}

// trust returns an error that wraps errStranger unless the maker of a socket is trusted.
func trust(uid int) error {
	if trusted(uid) {
		return nil
	}
	return fmt.Errorf("user %d listens there: %w", uid, errStranger)
}

// namespaced reports whether this process sees only some of the machine's users.
var namespaced = sync.OnceValue(func() bool {
	const all = "0 0 4294967295"
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(text)), " ") != all
})

// overflow is the number that all users have whom the namespace of this process does not know.
var overflow = sync.OnceValue(func() int {
	const usual = 65534
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if n, nerr := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && nerr == nil {
		return n
	}
	return usual
})

// peer returns the process and the user at the other end of a connection: the process that
// connected or that began to listen. The process is 0 if it is in another PID namespace.
func peer(c *net.UnixConn) (pid, uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil {
		return 0, 0, cerr
	}
	if err != nil {
		return 0, 0, err
	}
	return int(cred.Pid), int(cred.Uid), nil
}
