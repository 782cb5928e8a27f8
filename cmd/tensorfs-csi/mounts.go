package main

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"slices"
	"time"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// mountTable returns the mounts of this process in the order of mounting. Reading it touches none of them.
func mountTable() ([]mounts.Line, error) {
	b, err := os.ReadFile(mounts.Table)
	if err != nil {
		return nil, fmt.Errorf("cannot read the table of mounts: %w", err)
	}
	return mounts.ParseTable(string(b)), nil
}

// top returns the mount that is on top of a path, nil where nothing is mounted.
func top(path string) (*mounts.Line, error) {
	table, err := mountTable()
	if err != nil {
		return nil, err
	}
	for _, m := range slices.Backward(table) {
		if m.Mountpoint == path {
			return &m, nil
		}
	}
	return nil, nil
}

// maxStacked is how many mounts at one path are taken away: calls that were interrupted leave one each.
const maxStacked = 1000

// detach takes away all tensorfs mounts at a path. Something else that is mounted there is an error.
func detach(path string) error {
	for range maxStacked {
		m, err := top(path)
		if err != nil || m == nil {
			return err
		}
		if !m.Ours() {
			return status.Errorf(codes.FailedPrecondition, "%s: something else is mounted there (%s)", path, m.Type)
		}
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: somebody else was faster
			return fmt.Errorf("umount %s: %w", path, err)
		}
	}
	return fmt.Errorf("%s: mounts remain there, below another mount or too many", path)
}

// detachAll takes away the tensorfs mounts at a path, and what is bound to the topmost.
func detachAll(path string) error {
	m, err := top(path)
	if err != nil || m == nil || !m.Ours() {
		return errors.Join(err, detach(path))
	}
	table, err := mountTable()
	if err != nil {
		return err
	}
	for _, bound := range table {
		if bound.Device == m.Device && bound.Mountpoint != path {
			if err := detach(bound.Mountpoint); err != nil {
				return err
			}
		}
	}
	return detach(path)
}

// protected are the options of every volume.
const protected = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// makeTarget makes the directory at which a volume is bound.
func makeTarget(target string) error {
	err := os.Mkdir(target, 0o750)
	if !errors.Is(err, iofs.ErrExist) {
		return err
	}
	if m, err := top(target); err != nil || m != nil { // which may be dead and have no answer
		return err
	}
	if st, err := os.Lstat(target); err == nil && !st.IsDir() {
		return status.Errorf(codes.FailedPrecondition, "%s is there, and is not a directory", target)
	}
	return nil
}

// bind shows a directory of a server's mount at a target.
func bind(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount --bind %s %s: %w", source, target, err)
	}
	return nil
}

// protect makes a bound mount safe. The mount that it is of is so already.
func protect(target string) error {
	if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|protected, ""); err != nil {
		return fmt.Errorf("mount -o remount,bind,ro %s: %w", target, err)
	}
	return nil
}

// answerTime is how long a mount may take to answer.
const answerTime = 2 * time.Second

// patiently does what asks a mount, and gives up with ctx. If the server hangs, a goroutine remains until it ends.
func patiently[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	c := make(chan answer, 1)
	go func() {
		v, err := ask()
		c <- answer{v, err}
	}()
	select {
	case a := <-c:
		return a.value, a.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}
