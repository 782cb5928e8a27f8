//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/tensorfs/tensorfs/fs"
	"golang.org/x/sys/unix"
)

// nobody is an ordinary user.
const nobody = 65534

// startUser runs this program again as an ordinary user, by way of asUser.
func startUser(o *options, args []string) error {
	if o.only == nil {
		args = append(args, "--only=sequential")
	}
	if err := os.Chmod(o.programs, 0o755); err != nil {
		return err
	}
	cmd, err := again("user", append([]string{o.programs}, args...))
	if err != nil {
		return err
	}
	// Go makes all mounts private in the new namespace: nobody else sees what is
	// mounted there, and it ends with its last process.
	cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	return forward(cmd)
}

// asUser runs as root in a mount namespace of its own. It gives /dev/fuse the
// mode there that it has on most machines, and becomes the ordinary user.
func asUser(args []string) error {
	device := filepath.Join(args[0], "dev")
	if err := os.Mkdir(device, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", device, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("a place for a device: %w", err)
	}
	node := filepath.Join(device, "fuse")
	if err := unix.Mknod(node, unix.S_IFCHR, int(unix.Mkdev(10, 229))); err != nil {
		return fmt.Errorf("a FUSE device: %w", err)
	}
	if err := os.Chmod(node, 0o666); err != nil {
		return err
	}
	if err := unix.Mount(node, "/dev/fuse", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding the FUSE device: %w", err)
	}
	mounts, err := fs.Mounts()
	if err != nil {
		return err
	}
	for _, m := range mounts { // copies, which would keep servers from ending
		if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("%s: %w", m.Mountpoint, err)
		}
	}
	cmd, err := again("nobody", args[1:])
	if err != nil {
		return err
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	return forward(cmd)
}

// again prepares to run this program in a role.
func again(role string, args []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return cmd, nil
}

// said is an error that a child has printed already.
type said struct{ error }

// forward runs a command to its end and hands it the signals that come here.
func forward(cmd *exec.Cmd) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		for s := range signals {
			cmd.Process.Signal(s)
		}
	}()
	if err := cmd.Wait(); err != nil {
		return said{err}
	}
	return nil
}
