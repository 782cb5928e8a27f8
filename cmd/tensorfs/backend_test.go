package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/server"
)

// Linux mounts by FUSE: --backend nfs is answered with what to use.
func TestBackendOfLinux(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux refuses NFS")
	}
	for _, args := range [][]string{{"--backend", "nfs"}, {"-o", "backend=nfs"}} {
		dir := filepath.Join(t.TempDir(), "m")
		failsWith(t, cli.ExitUsage, slices.Concat([]string{"mount"}, args, []string{q8, dir}), "--backend nfs is for macOS; leave it out")
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%q made the directory", args)
		}
	}
}

func TestBackends(t *testing.T) {
	if defaultBackend("linux") != "fuse" || defaultBackend("darwin") != "nfs" {
		t.Error("another backend is the default")
	}
	for _, name := range backendNames {
		if server.Backends[name] == nil {
			t.Errorf("%s is not there", name)
		}
	}
	if len(backendNames) != len(server.Backends) {
		t.Errorf("%d names of %d backends", len(backendNames), len(server.Backends))
	}
	if server.NFSClients[runtime.GOOS] == nil {
		server.NFSClients[runtime.GOOS] = server.NFSClients["darwin"]
		defer delete(server.NFSClients, runtime.GOOS)
	}
	folder, err := filepath.Abs(ggufDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string // of the error
	}{
		{[]string{"--backend", "smb"}, "want fuse or nfs"},
		{[]string{"--backend", "nfs", "--no-passthrough"}, "--no-passthrough is only for --backend fuse"},
		{[]string{"--backend", "nfs", "--debug"}, "--debug is only for --backend fuse"},
		{[]string{"-o", "backend=nfs,read_ahead=4"}, "--read-ahead is only for --backend fuse"},
		{[]string{"--backend", "nfs", "-o", "ro,uid=1,noatime"}, "-o uid=1,noatime"},
		{[]string{"--backend", "nfs", folder}, "a library"},
	} {
		args := slices.Concat([]string{"mount", "-f"}, test.args)
		if !slices.Contains(args, folder) {
			args = append(args, q8)
		}
		code, out, stderr := command(append(args, filepath.Join(t.TempDir(), "m"))...)
		if code != cli.ExitUsage || out != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: %d %q %q", args, code, out, stderr)
		}
	}
}
