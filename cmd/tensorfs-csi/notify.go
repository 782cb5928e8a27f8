package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errorCodes say what the error of a server, as sd_notify(3) has it in ERRNO, means to kubelet.
var errorCodes = map[syscall.Errno]codes.Code{
	unix.ENOENT:       codes.NotFound,
	unix.EACCES:       codes.Unauthenticated,
	unix.EPERM:        codes.Unauthenticated,
	unix.EAGAIN:       codes.Unavailable,
	unix.ECONNREFUSED: codes.Unavailable,
	unix.ECONNRESET:   codes.Unavailable,
	unix.ETIMEDOUT:    codes.Unavailable,
	unix.EHOSTUNREACH: codes.Unavailable,
	unix.ENETUNREACH:  codes.Unavailable,
	unix.EIO:          codes.Unavailable,
	unix.ENOSPC:       codes.ResourceExhausted,
	unix.EDQUOT:       codes.ResourceExhausted,
	unix.ENOMEM:       codes.ResourceExhausted,
	unix.EINVAL:       codes.FailedPrecondition,
	unix.EBADMSG:      codes.FailedPrecondition,
	unix.EUCLEAN:      codes.FailedPrecondition,
	unix.ENOTSUP:      codes.FailedPrecondition,
	unix.ESTALE:       codes.Unavailable, // the model was replaced while it was opened
}

func codeOf(no syscall.Errno) codes.Code {
	if code, ok := errorCodes[no]; ok {
		return code
	}
	return codes.Internal
}

// systemError gives an error of this machine the code that the same error has in a server.
func systemError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Internal
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		code = codes.ResourceExhausted
	}
	return status.Error(code, tensorfs.OneLine(err.Error()))
}

// A notifier receives a server's message that it is ready, or why not.
type notifier struct{ *net.UnixConn }

func listen(path string) (notifier, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return notifier{}, err
	}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return notifier{}, err
	}
	return notifier{c}, os.Chmod(path, 0o600)
}

// exited is the message that the driver itself sends after a server's last.
const exited = "EXIT_STATUS="

// end records that the process is gone.
func (n notifier) end(err error) {
	addr := n.LocalAddr().(*net.UnixAddr)
	if c, derr := net.DialUnix("unixgram", nil, addr); derr == nil { // else wait has ended and closed it
		_, _ = fmt.Fprint(c, exited, err)
		c.Close()
	}
}

// wrongUsage is how a command ends that is given a wrong flag.
const wrongUsage = "exit status 2"

// wait returns when the server is ready, with nil, or when it has ended, with the reason. printed returns its last
// message.
func (n notifier) wait(printed func() string) error {
	var text string
	var no syscall.Errno
	for b := make([]byte, 64<<10); ; {
		k, err := n.Read(b)
		if err != nil {
			return status.Errorf(codes.Internal, "the server's messages cannot be read: %v", err)
		}
		for line := range strings.Lines(string(b[:k])) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			switch key + "=" {
			case "READY=":
				return nil
			case "STATUS=":
				text = value
			case "ERRNO=":
				k, _ := strconv.Atoi(value) // 0 is Internal
				no = syscall.Errno(k)
			case exited:
				if text != "" {
					return status.Error(codeOf(no), tensorfs.OneLine(text))
				}
				last, ok := strings.CutPrefix(printed(), "tensorfs: ")
				if ok && value == wrongUsage {
					return status.Error(codes.InvalidArgument, tensorfs.OneLine(last))
				}
				return status.Errorf(codes.Internal, "the server ended before it was ready: %s: %s", tensorfs.Printable(value), tensorfs.OneLine(last))
			}
		}
	}
}

// readLog repeats the messages of a server in the driver's log until it ends.
func (f *fleet) readLog(s *server) {
	defer close(s.logged)
	pipe, err := os.OpenFile(f.dir.log(s.key), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		f.log.Warn("the messages of a server are lost", "key", s.key, "error", err)
		return
	}
	defer pipe.Close()
	lines := bufio.NewReaderSize(pipe, 16<<10)
	for {
		line, _, err := lines.ReadLine() // a longer line comes in parts
		if err != nil {
			return // the server has closed it
		}
		s.printed = string(line)
		f.output(s.key, s.printed)
	}
}
