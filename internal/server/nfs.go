package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/fs/nfs"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/nfsstate"
	"github.com/tensorfs/tensorfs/internal/server/loopback"
)

// NFSClient is how a system mounts a directory of an NFS server.
type NFSClient struct {
	Program string
	Args    []string // before the options
	Options []string // and the port
}

// NFSClients are the systems whose mounts are by NFS; Linux has FUSE, which needs neither root nor a module. The
// options forbid to run or write anything, and let reads fail when the server is gone. Locks are the client's own,
// and as nothing changes, it may keep what it knows.
var NFSClients = map[string]*NFSClient{
	"darwin": {
		Program: "/sbin/mount_nfs",
		Options: []string{"rdonly", "nosuid", "nodev", "noexec", "nobrowse", "vers=3", "tcp",
			"rsize=1048576", "readahead=16", "dsize=65536", "rdirplus", "locallocks", "actimeo=3600",
			"soft", "intr", "timeo=100", "retrans=3", "deadtimeout=60", "noresvport"},
	},
}

// nfsMountTime is how long such a program may take.
const nfsMountTime = 30 * time.Second

// command returns the program that mounts what a server on this machine has, and its arguments.
func (c *NFSClient) command(port int, token, dir string) (program string, args []string) {
	p := strconv.Itoa(port)
	options := slices.Concat(c.Options, []string{"port=" + p, "mountport=" + p})
	return c.Program, slices.Concat(c.Args, []string{"-o", strings.Join(options, ","), nfsstate.Source(token), dir})
}

// RunNFSMount mounts and serves until ctx ends. An error is one line with what is wrong and
// what to do.
func RunNFSMount(ctx context.Context, port int, token, dir string) error {
	program, args := NFSClients[runtime.GOOS].command(port, token, dir)
	c := exec.CommandContext(ctx, program, args...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.Env = append(os.Environ(), "LC_ALL=C")
	// A Ctrl-C must reach only this process, and the end of time all that it started.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	err := c.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s did not end in time; --backend fuse does without it", program)
	}
	said, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
	if said = strings.ReplaceAll(said, token, "..."); said == "" {
		said = fmt.Sprintf("%s: %v", program, err)
	}
	return errors.New(said + "; --backend fuse takes macFUSE, and tensorfs serve and export do without a mount")
}

// nfsServed is a tree that is served over NFS.
type nfsServed struct {
	*loopback.Mount
	server *nfs.Server
	port   int
}

// Wait returns when the last client is gone.
func (s *nfsServed) Wait() {
	s.Mount.Wait()
	s.server.Close()
}

// url is the address for programs with libnfs, if the user may have it.
func (s *nfsServed) url() string {
	return fmt.Sprintf("nfs://127.0.0.1/%s?nfsport=%d&mountport=%[2]d&version=3", s.server.Token(), s.port)
}

// mountNFS serves a tree over NFS and mounts it with the system's client, or mounts
// nothing at "". A mount whose server was killed is taken over if the tree is the same:
// then its users go on.
func mountNFS(c *Content, at string, opts fs.Options) (Served, error) {
	if err := mounts.CleanStates(); err != nil {
		return nil, err
	}
	facts, err := c.Facts()
	if err != nil {
		return nil, err
	}
	var old *nfsstate.State
	var listener net.Listener
	if at != "" {
		old = loopback.Abandoned(at)
	}
	if old != nil && old.Facts == facts {
		listener, _ = listenLoopback(old.Port) // another server may have it by now
	}
	if listener == nil {
		old = nil
		if listener, err = listenLoopback(0); err != nil {
			return nil, err
		}
	}
	no := nfs.Options{
		ModTime: opts.ModTime, Logger: opts.Logger, Check: opts.Check, Unwatched: opts.Unwatched,
		UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), OwnerOnly: at != "" && !opts.AllowOther,
		Shared: at == "",
	}
	if old != nil {
		no.Key, no.Token, no.Mounted = old.Key, old.Token, true
	}
	server, err := nfs.New(c.Root, no)
	if err != nil {
		listener.Close()
		return nil, err
	}
	go func() {
		if err := server.Serve(nfsstate.Patient(listener)); err != nil {
			server.Logger().Error("the server takes no more connections", "error", err)
		}
	}()
	s := &nfsServed{server: server, port: listener.Addr().(*net.TCPAddr).Port}
	lo := loopback.Options{
		State:  nfsstate.State{Model: opts.FsName, Port: s.port, Token: server.Token(), Key: server.Key(), Facts: facts},
		Logger: server.Logger(), MakeMountpoint: opts.MakeMountpoint, NonEmpty: opts.NonEmpty, Resume: old != nil,
		Mount: func(path string) error {
			ctx, cancel := context.WithTimeout(context.Background(), nfsMountTime)
			defer cancel()
			return RunNFSMount(ctx, s.port, server.Token(), path)
		},
		Clients: server.Clients, Unmounted: server.Unmounted(),
		Status: func() any {
			status := fs.Status{PID: os.Getpid(), Health: server.Health()}
			if opts.Warm != nil {
				warm := opts.Warm()
				status.Warm = &warm
			}
			return status
		},
	}
	if old != nil {
		server.Logger().Info("goes on for a server that is gone", "mountpoint", at)
		at = old.Mountpoint
	}
	if s.Mount, err = loopback.Start(at, lo); err != nil {
		server.Close()
		return nil, err
	}
	return s, nil
}

// listenLoopback listens for connections from this machine only.
func listenLoopback(port int) (net.Listener, error) {
	return net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
