package fs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// signalSet is a set of signals, number n as bit n-1.
type signalSet uint64

// routine are signals that do not ask a program to stop its work: signals of Go and of
// profilers, signals that stop and continue a program, and all signals from 32 on, which
// timers and libraries use.
const routine = signalSet(0x1ffffffff)<<31 |
	1<<(unix.SIGURG-1) | 1<<(unix.SIGPROF-1) | 1<<(unix.SIGVTALRM-1) | 1<<(unix.SIGCHLD-1) | 1<<(unix.SIGWINCH-1) | 1<<(unix.SIGIO-1) |
	1<<(unix.SIGCONT-1) | 1<<(unix.SIGSTOP-1) | 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)

// pendingSignals returns the signals that wait for a thread, or for its process, and that
// it does not block. known is false if they cannot be seen.
func pendingSignals(pid uint32) (pending signalSet, known bool) {
	if pid == 0 {
		return 0, false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	own, ok := signalLine(status, "SigPnd:")
	shared, ok2 := signalLine(status, "ShdPnd:")
	blocked, ok3 := signalLine(status, "SigBlk:")
	return (own | shared) &^ blocked, ok && ok2 && ok3
}

// signalLine returns the set on the line of /proc/PID/status that begins with key.
func signalLine(status []byte, key string) (signalSet, bool) {
	_, rest, ok := bytes.Cut(status, []byte("\n"+key))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return signalSet(n), ok && err == nil
}
