package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testweb"
	"golang.org/x/sys/unix"
)

// auditArch is what the kernel calls the machines whose numbers of system calls are
// known here.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]

// deafen makes the kernel kill this process and its children when they call socket(2) for the
// Internet.
func deafen() error {
	const (
		number = 0 // offsets in struct seccomp_data
		arch   = 4
		first  = 16 // lower half of the first argument, little-endian
	)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	end := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	program := []unix.SockFilter{
		load(arch), equal(auditArch, 0, 5),
		load(number), equal(unix.SYS_SOCKET, 0, 3),
		load(first), equal(unix.AF_INET, 2, 0), equal(unix.AF_INET6, 1, 0),
		end(unix.SECCOMP_RET_ALLOW),
		end(unix.SECCOMP_RET_KILL_PROCESS),
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&f))); errno != 0 {
		return errno
	}
	return nil
}

// deafMain is the program under such a filter.
func deafMain() {
	if err := deafen(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot be made deaf:", err)
		os.Exit(77)
	}
	main()
}

// Commands on local files open no socket and make no cache, and neither do commands with --offline;
// others would be killed.
func TestNoSocket(t *testing.T) {
	if auditArch == 0 {
		t.Skipf("NOT TESTED: the system calls of %s are not known here", runtime.GOARCH)
	}
	cached := apart(t)
	s := testweb.New(t)
	b, err := os.ReadFile(q8)
	if err != nil {
		t.Fatal(err)
	}
	s.Put("/m.gguf", bytes.NewReader(b))
	succeeds(t, "fetch", s.URL+"/m.gguf")
	run := func(cache string, args ...string) (killed bool, err error) {
		c := program(t, args...)
		c.Env = append(c.Env, asDeaf+"=1", "TENSORFS_CACHE="+cache)
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			if exit.ExitCode() == 77 {
				t.Skipf("NOT TESTED: %s", out)
			}
			status := exit.Sys().(syscall.WaitStatus)
			return status.Signaled() && status.Signal() == syscall.SIGSYS, fmt.Errorf("%w: %s", err, out)
		}
		return false, err
	}
	none := filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{
		{"info", q8}, {"ls", q8}, {"cat", q8, "f16/output_norm.weight"}, {"verify", q8}, {"stat", q8}, {"diff", q8, q8}, {"fetch", q8}, {"status"}, {"cache", "list"}, {"version"}, {"help", "remote"},
		{"export", q8, filepath.Join(t.TempDir(), "out"), "raw"}, {"info", "--remote", q8},
	} {
		if _, err := run(none, args...); err != nil {
			t.Errorf("tensorfs %s: %v", args[0], err)
		}
	}
	if f, err := os.Open("/dev/fuse"); err == nil && os.Geteuid() == 0 { // others mount by a program that gains rights
		f.Close()
		dir := t.TempDir()
		t.Cleanup(func() { mounts.Unmount(dir, true) })
		if _, err := run(none, "mount", q8, dir); err != nil {
			t.Errorf("mount: %v", err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "gguf/model.gguf")); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	if _, err := os.Stat(none); !os.IsNotExist(err) {
		t.Errorf("local models made a cache: %v", err)
	}
	for _, args := range [][]string{{"info"}, {"verify"}, {"cat", "raw/output_norm.weight"}} {
		args = append([]string{args[0], "--offline", s.URL + "/m.gguf"}, args[1:]...)
		if _, err := run(cached, args...); err != nil {
			t.Errorf("tensorfs %s: %v", args[0], err)
		}
	}
	for _, model := range []string{"hf:acme/tiny", "ollama:tiny", s.URL + "/other.gguf"} {
		if killed, err := run(none, "info", "--offline", model); killed || err == nil {
			t.Errorf("%s: %v", model, err)
		}
	}
	if _, err := os.Stat(none); !os.IsNotExist(err) {
		t.Errorf("what is offline made a cache: %v", err)
	}
	if killed, err := run(cached, "info", s.URL+"/m.gguf"); !killed {
		t.Errorf("a socket was not noticed: %v", err)
	}
}
