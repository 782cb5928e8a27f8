package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
)

// ready is what the server writes to its standard error when the mount can be
// used. Everything before it is an error message.
const ready = "\x00ready\n"

// Start runs this program again as the server, in a session of its own, and waits until it
// is ready or has failed. Its standard error is a pipe to here until then. However this
// process ends, afterwards there is either a working mount or none: on a signal it ends the
// server and waits for its end, and a server that cannot report that it is ready unmounts.
//
// The server has another working directory, so paths are absolute, and its command line ends
// with the model and the mount point, to be seen in ps.
func (s *Spec) Start(stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args, stdin, err := s.line("--as-server")
	if err != nil {
		return err
	}
	if stdin != nil {
		defer stdin.Close()
	}
	signals := make(chan os.Signal, 2)
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	defer signal.Stop(signals)
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	server := &exec.Cmd{Path: self, Args: args}
	if stdin != nil {
		server.Stdin = stdin
	}
	server.Dir = "/"
	server.Env = keepEnv(absoluteEnv(os.Environ()), nil)
	server.Stderr = w
	server.SysProcAttr = &syscall.SysProcAttr{Setsid: !mounts.Automounted(s.Mountpoint)} // else when it has mounted
	err = startConfined(server)
	w.Close()
	if err != nil {
		return fmt.Errorf("cannot start the server: %w", err)
	}
	var waiting cli.Notice
	quiet := waiting.Begin(stderr)
	heard := make(chan []byte, 1)
	go func() { heard <- hear(r, waiting.Say) }()
	var said []byte
	select {
	case said = <-heard:
		quiet()
	case sig := <-signals:
		quiet()
		return abandon(server, s.Mountpoint, sig, signals)
	}
	if bytes.HasSuffix(said, []byte(ready)) {
		return server.Process.Release()
	}
	err = endOf(server, s.Mountpoint)
	line, _, _ := strings.Cut(string(said), "\n")
	if line == "" {
		line = fmt.Sprintf("tensorfs: the server ended before the mount was ready (%v); tensorfs mount -f shows more", err)
	}
	cli.Complain(stderr, tensorfs.OneLine(cli.PublicText(line, []string{s.Model})))
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == cli.ExitUsage {
		return cli.Reported{Err: cli.UsageError{Err: errors.New(line)}}
	}
	return cli.Reported{Err: errors.New(line)}
}

// hear returns a server's messages until it is ready or ends, and passes on what it is
// waiting for.
func hear(r io.Reader, note func(text string)) (said []byte) {
	const enough = 1 << 16
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadSlice('\n') // or a part of a long one
		if text, ok := bytes.CutPrefix(line, []byte(cli.Noted)); ok {
			note(string(bytes.TrimSuffix(text, []byte("\n"))))
		} else if len(said) < enough {
			said = append(said, line...)
		}
		if err != nil && err != bufio.ErrBufferFull { // what was read so far is enough
			return said
		}
	}
}

// endOf waits until the server has ended. One that was killed may have left a
// mount.
func endOf(server *exec.Cmd, mountpoint string) error {
	err := server.Wait()
	if err != nil && !server.ProcessState.Exited() {
		if _, cerr := mounts.CleanStale(mountpoint); cerr != nil {
			return fmt.Errorf("%w; %w", err, cerr)
		}
	}
	return err
}

// abandon ends an unwanted server and waits until it has unmounted, or until the next
// signal forbids waiting.
func abandon(server *exec.Cmd, mountpoint string, sig os.Signal, signals <-chan os.Signal) error {
	ended := make(chan struct{})
	go func() {
		_ = endOf(server, mountpoint) // it is supposed to fail
		close(ended)
	}()
	for {
		// The first signal unmounts, the next one detaches a mount that is in use by then.
		// They do no harm once the server has ended: its pid is ours until we have waited
		// for it.
		_ = server.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			return fmt.Errorf("stopped by a signal (%v): nothing is mounted at %s", sig, tensorfs.Printable(mountpoint))
		case <-signals:
			return fmt.Errorf("stopped by a signal (%v) before process %d, which was told to unmount, has ended", sig, server.Process.Pid)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// announce tells the waiting mount command that the mount can be used, and cuts
// the pipe to it and what else they share. It fails if that command is gone or no
// longer wants the mount.
func announce(signals caught) error {
	select {
	case sig := <-signals:
		return fmt.Errorf("stopped by a signal (%v) before the mount was ready", sig)
	default:
	}
	if _, err := unix.Setsid(); err != nil && !errors.Is(err, syscall.EPERM) { // EPERM: it has a session of its own
		return err
	}
	if _, err := io.WriteString(os.Stderr, ready); err != nil {
		return fmt.Errorf("the mount command is gone: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	return replace(os.Stderr, null)
}

// closeOnExec keeps all descriptors but the first three, as listed in a directory
// such as /dev/fd, from programs that this process starts.
func closeOnExec(list string) error {
	entries, err := os.ReadDir(list)
	if err != nil {
		return fmt.Errorf("cannot find the open descriptors: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
