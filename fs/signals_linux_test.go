package fs

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSignalLine(t *testing.T) {
	const status = "Name:\tx\nSigQ:\t0/1\nSigPnd:\t0000000000000002\nShdPnd:\t0000000000400000\nSigBlk:\tnone\n"
	for _, x := range []struct {
		key  string
		want signalSet
		ok   bool
	}{{"SigPnd:", 1 << (unix.SIGINT - 1), true}, {"ShdPnd:", 1 << (unix.SIGURG - 1), true}, {"SigBlk:", 0, false}, {"SigCgt:", 0, false}} {
		if got, ok := signalLine([]byte(status), x.key); got != x.want || ok != x.ok {
			t.Errorf("%s %x, %t", x.key, got, ok)
		}
	}
	for sig, ends := range map[unix.Signal]bool{unix.SIGINT: true, unix.SIGTERM: true, unix.SIGHUP: true, unix.SIGALRM: true, unix.SIGUSR1: true, unix.SIGKILL: true, unix.SIGURG: false, unix.SIGPROF: false, unix.SIGCHLD: false, 32: false, 64: false} {
		if got := signalSet(1)<<(sig-1)&^routine != 0; got != ends {
			t.Errorf("signal %d ends a read: %t", sig, got)
		}
	}
}

// A signal that a thread blocks is not one that it waits to handle.
func TestPendingSignals(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var usr2, old unix.Sigset_t
	usr2.Val[0] = 1 << (unix.SIGUSR2 - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &usr2, &old); err != nil {
		t.Fatal(err)
	}
	tid := unix.Gettid()
	if err := unix.Tgkill(os.Getpid(), tid, unix.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	if own, ok := signalLine(status, "SigPnd:"); !ok || own != 1<<(unix.SIGUSR2-1) {
		t.Errorf("pending: %x, %t", own, ok)
	}
	if got, known := pendingSignals(uint32(tid)); got != 0 || !known {
		t.Errorf("%x, %t", got, known)
	}
	if _, known := pendingSignals(0); known {
		t.Error("the signals of nobody are known")
	}
	// It goes with the thread, which ends with this goroutine: unblocked, it would
	// end the test.
	runtime.LockOSThread()
}
