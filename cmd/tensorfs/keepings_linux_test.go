package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// A keeping holds the devices of a test's mounts while no server does.
type keeping interface {
	// server returns the command of a server in the foreground, with more words of its command line.
	server(t *testing.T, words ...string) *exec.Cmd
}

// byKeeper is tensorfs keep.
type byKeeper struct {
	socket string
	cmd    *exec.Cmd
}

func startKeeper(t *testing.T, socket string) *byKeeper {
	t.Helper()
	k := &byKeeper{socket, program(t, "keep", "--socket", socket)}
	firstLine(t, k.cmd)
	return k
}

func (k *byKeeper) server(t *testing.T, words ...string) *exec.Cmd {
	return program(t, append([]string{"mount", "-f", "--takeover", k.socket}, words...)...)
}

// firstLine starts a command and waits until it has said something.
func firstLine(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if c.Stderr == nil {
		c.Stderr = new(bytes.Buffer)
	}
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	line := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(out).ReadString('\n')
		line <- err
	}()
	if err := testlimit.Receive(t, "first line of "+strings.Join(c.Args, " "), line); err != nil {
		c.Wait()
		t.Fatalf("%q: %v: %s", c.Args, err, c.Stderr)
	}
}

// bySystemdAlike keeps descriptors as systemd does: see sd_notify(3) and sd_listen_fds(3).
type bySystemdAlike struct {
	socket string
	mu     sync.Mutex
	names  []string
	files  []*os.File
	passed []*os.File // copies for the newest server
}

func startSystemdAlike(t *testing.T) *bySystemdAlike {
	t.Helper()
	s := &bySystemdAlike{socket: filepath.Join(t.TempDir(), "notify")}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() {
		c.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, f := range append(s.files, s.passed...) {
			f.Close()
		}
	})
	go func() {
		for {
			text, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*8))
			n, rn, _, _, err := c.ReadMsgUnix(text, rights)
			if err != nil {
				return
			}
			s.hear(string(text[:n]), rights[:rn])
		}
	}()
	return s
}

func (s *bySystemdAlike) hear(text string, rights []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		said[key] = value
	}
	controls, _ := unix.ParseSocketControlMessage(rights)
	for i := range controls {
		fds, _ := unix.ParseUnixRights(&controls[i])
		for _, fd := range fds {
			f := os.NewFile(uintptr(fd), said["FDNAME"])
			if said["FDSTORE"] != "1" {
				f.Close()
				continue
			}
			s.names, s.files = append(s.names, said["FDNAME"]), append(s.files, f)
		}
	}
	for said["FDSTOREREMOVE"] == "1" {
		i := slices.Index(s.names, said["FDNAME"])
		if i < 0 {
			return
		}
		s.files[i].Close()
		s.names, s.files = slices.Delete(s.names, i, i+1), slices.Delete(s.files, i, i+1)
	}
}

func (s *bySystemdAlike) server(t *testing.T, words ...string) *exec.Cmd {
	c := program(t)
	c.Path = "/bin/sh"
	c.Args = append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, c.Args[0], "mount", "-f", "--takeover", "systemd"}, words...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.passed { // to the server before
		f.Close()
	}
	s.passed = nil
	for _, f := range s.files { // copies: a message may close these while the server starts
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		must(t, err)
		s.passed = append(s.passed, os.NewFile(uintptr(fd), f.Name()))
	}
	c.ExtraFiles = slices.Clone(s.passed)
	c.Env = append(c.Env, "NOTIFY_SOCKET="+s.socket, fmt.Sprintf("LISTEN_FDS=%d", len(s.files)), "LISTEN_FDNAMES="+strings.Join(s.names, ":"))
	return c
}

// keepings are the two ways.
var keepings = []struct {
	name  string
	start func(t *testing.T) keeping
}{
	{"keeper", func(t *testing.T) keeping { return startKeeper(t, filepath.Join(t.TempDir(), "keep")) }},
	{"systemd", func(t *testing.T) keeping { return startSystemdAlike(t) }},
}
