package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"log/syslog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
)

// ready is what the server writes to its standard error when the mount can be
// used. Everything before it is an error message.
const ready = "\x00ready\n"

// start runs this program again as the server, in a session of its own, and
// waits until it is ready or has failed. Its standard error is a pipe to here
// until then.
//
// Options that are flags of this command are handed over as flags; extra are the
// others. The server has another working directory, so paths are absolute.
func (o *mountOptions) start(cmd *cobra.Command, model, mountpoint string, extra []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	logFile := o.logFile
	if logFile != "" {
		if logFile, err = filepath.Abs(logFile); err != nil {
			return err
		}
	}
	args := []string{"mount", "--foreground", "--daemon", "--i2s", o.views.I2S, "--log", logFile,
		fmt.Sprintf("--debug=%t", o.debug), fmt.Sprintf("--allow-other=%t", o.allowOther),
		fmt.Sprintf("--hot=%d", o.hot), fmt.Sprintf("--read-ahead=%d", o.readAhead)}
	for _, opt := range extra {
		args = append(args, "-o", opt)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	server := exec.Command(self, append(args, "--", model, mountpoint)...)
	server.Dir = "/"
	server.Stderr = w
	server.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = server.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("cannot start the server: %w", err)
	}
	said, err := io.ReadAll(io.LimitReader(r, 1<<16))
	if err != nil {
		return err
	}
	if bytes.HasSuffix(said, []byte(ready)) {
		return server.Process.Release()
	}
	err = server.Wait()
	line, _, _ := strings.Cut(string(said), "\n")
	if line == "" {
		line = fmt.Sprintf("tensorfs: the server ended before the mount was ready (%v); tensorfs mount -f shows more", err)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), tensorfs.OneLine(line))
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitUsage {
		return reported{usageError{errors.New(line)}}
	}
	return reported{errors.New(line)}
}

// reportReady tells the waiting mount command and cuts the pipe to it.
func reportReady() error {
	if _, err := io.WriteString(os.Stderr, ready); err != nil {
		return fmt.Errorf("the mount command is gone: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	return replaceStderr(null)
}

// logger returns where the server's messages go: to --log, to standard error in
// the foreground, else to the system log where there is one.
func (o *mountOptions) logger(cmd *cobra.Command) (*slog.Logger, func(), error) {
	level := slog.LevelInfo
	if o.debug {
		level = slog.LevelDebug
	}
	options := &slog.HandlerOptions{Level: level}
	switch {
	case o.logFile != "":
		f, err := os.OpenFile(o.logFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot open the log: %w", err)
		}
		return slog.New(slog.NewTextHandler(f, options)), func() { f.Close() }, nil
	case !o.daemon:
		return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), options)), func() {}, nil
	}
	w, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_NOTICE, "tensorfs")
	if err != nil { // no system log here, as in most containers
		return slog.New(slog.DiscardHandler), func() {}, nil
	}
	return slog.New(slog.NewTextHandler(w, options)), func() { w.Close() }, nil
}
