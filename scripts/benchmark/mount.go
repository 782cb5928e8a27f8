//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs/fs"
)

// server is a mounted model.
type server struct {
	cmd  *exec.Cmd
	dir  string
	said bytes.Buffer
	done chan error
}

// mount mounts a model at a new directory. The server is a child, so that its
// process id is known and it ends with this program.
func (b *bench) mount(m *model, flags ...string) (*server, error) {
	dir, err := os.MkdirTemp(b.dir, "mnt-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, done: make(chan error, 1)}
	s.cmd = exec.Command(b.tensorfs, slices.Concat([]string{"mount", "-f"}, flags, []string{m.path, dir})...)
	// SIGTERM makes a server unmount, also when this program is killed.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	s.cmd.Stderr = &s.said
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	b.servers = append(b.servers, s)
	in := bufio.NewReader(out)
	line, _ := in.ReadString('\n') // nothing is said by a server that failed
	go func() {
		io.Copy(io.Discard, in)
		s.done <- s.cmd.Wait()
	}()
	if !strings.Contains(line, "is mounted at") {
		return nil, fmt.Errorf("mounting %s: %w", m.path, errors.Join(b.unmount(s), errors.New(strings.TrimSpace(s.said.String()))))
	}
	return s, nil
}

// unmount ends a server and waits for it.
func (b *bench) unmount(s *server) error {
	if i := slices.Index(b.servers, s); i >= 0 {
		b.servers = slices.Delete(b.servers, i, i+1)
	}
	// The first signal unmounts unless somebody uses the mount, the second
	// detaches it.
	for range 2 {
		s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.done:
			return os.Remove(s.dir)
		case <-time.After(2 * time.Second):
		}
		if !s.isMounted() {
			// A mount namespace that was made in the meantime has a copy and keeps
			// the server busy. Nobody here needs it.
			s.cmd.Process.Kill()
			<-s.done
			return os.Remove(s.dir)
		}
	}
	s.cmd.Process.Kill()
	<-s.done
	return errors.Join(fmt.Errorf("the server of %s had to be killed", s.dir), fs.UnmountPath(s.dir, true), os.Remove(s.dir))
}

// isMounted reports whether the mount is there, as this process sees it.
func (s *server) isMounted() bool {
	mounts, err := fs.Mounts()
	return err != nil || slices.ContainsFunc(mounts, func(m fs.MountInfo) bool { return m.Mountpoint == s.dir })
}

// unmountAll ends all servers.
func (b *bench) unmountAll() error {
	var errs []error
	for len(b.servers) > 0 {
		errs = append(errs, b.unmount(b.servers[0]))
	}
	return errors.Join(errs...)
}

// unmountCommand undoes what tensorfs mount did.
func (b *bench) unmountCommand() error {
	dir := b.mounted
	if dir == "" {
		return nil
	}
	b.mounted = ""
	// Not by way of command: it is also run when everything is to stop.
	out, err := exec.Command(b.tensorfs, "umount", dir).CombinedOutput()
	if os.Remove(dir) == nil { // perhaps it was not mounted yet
		return nil
	}
	return fmt.Errorf("unmounting %s: %w: %s", dir, err, bytes.TrimSpace(out))
}

// path returns a file of the mounted tree.
func (s *server) path(name string) string { return filepath.Join(s.dir, name) }

// cpu returns the processor time that the server has used, in the kernel's
// ticks of 10 ms.
func (s *server) cpu() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64) // the kernel writes numbers
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// reads measures a reader of a mounted file, its server's time included.
func (b *bench) reads(s *server, role, name string, args ...string) (sample, error) {
	before := s.cpu()
	x, err := b.measureRead(role, s.path(name), args...)
	x.cpu += s.cpu() - before
	return x, err
}
