package fs

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// apart is a thread of this process with a table of descriptors of its own.
//
// While an image is mounted and a file in it is opened, the kernel waits for answers of
// this very server. If the server is killed, such a wait ends when the device of the mount
// is closed, which is when all threads that share its descriptor are gone. A waiting thread
// that shared it would wait for itself: it could never end, and the mount could never be
// removed. So the waiting thread has no descriptor of a device.
type apart struct {
	calls chan func()
	here  int // a socket, through which descriptors come from the other table
	there int // its other end, in that table
}

// newApart starts the thread. Its table has the descriptors in keep, under their numbers;
// apart from these it has only the descriptors of Go's scheduler.
func newApart(keep ...int) (*apart, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	defer unix.Close(ends[1])
	a := &apart{calls: make(chan func()), here: ends[0], there: ends[1]}
	started := make(chan error)
	go a.run(append(keep, a.there), started)
	if err := <-started; err != nil {
		unix.Close(a.here)
		return nil, fmt.Errorf("a thread with descriptors of its own: %w", err)
	}
	return a, nil
}

// run is the thread. It ends with its goroutine, which never gives it back.
func (a *apart) run(keep []int, started chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() { // the process's table belongs to its first thread
		again := make(chan error)
		go a.run(keep, again)
		started <- <-again
		runtime.UnlockOSThread()
		return
	}
	if err := unix.Unshare(unix.CLONE_FILES); err != nil {
		started <- err
		return
	}
	if err := closeOthers(keep); err != nil {
		started <- err
		return
	}
	started <- nil
	for call := range a.calls {
		call()
	}
}

// closeOthers closes the descriptors of this thread. Go's runtime may need its own on any thread.
func closeOthers(keep []int) error {
	const table = "/proc/thread-self/fd"
	dir, err := unix.Open(table, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	kept := map[int]bool{dir: true}
	for _, fd := range keep {
		kept[fd] = true
	}
	var names []string
	for buf := make([]byte, 8192); ; {
		n, err := unix.ReadDirent(dir, buf)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || kept[fd] {
			continue
		}
		target := make([]byte, 64)
		n, _ := unix.Readlink(table+"/"+name, target)
		if !strings.HasPrefix(string(target[:max(n, 0)]), "anon_inode:[event") { // of epoll, or an eventfd
			unix.Close(fd)
		}
	}
	return nil
}

// do calls fn on the thread. What it returns is a descriptor of the thread's table.
func (a *apart) do(fn func() (int, error)) (fd int, err error) {
	done := make(chan struct{})
	a.calls <- func() {
		fd, err = fn()
		close(done)
	}
	<-done
	return fd, err
}

// fetch calls fn on the thread and moves the descriptor that it returns into the process's table.
func (a *apart) fetch(fn func() (int, error)) (int, error) {
	_, err := a.do(func() (int, error) {
		fd, err := fn()
		if err != nil {
			return -1, err
		}
		defer unix.Close(fd)
		return -1, unix.Sendmsg(a.there, []byte{0}, unix.UnixRights(fd), nil, 0)
	})
	if err != nil {
		return -1, err
	}
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(a.here, make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("no descriptor came across: %w", unix.EPROTO)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("no descriptor came across: %w", unix.EPROTO)
	}
	return fds[0], nil
}

// end ends the thread, and closes what is in its table.
func (a *apart) end() {
	close(a.calls)
	unix.Close(a.here)
}
