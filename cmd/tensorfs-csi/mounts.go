package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
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

// top returns the mount that is on top of a path, nil if nothing is mounted.
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
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: another process was faster
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
	above, err := openTarget(filepath.Dir(target))
	if err != nil {
		return err
	}
	defer unix.Close(above)
	err = unix.Mkdirat(above, filepath.Base(target), 0o750)
	if err == nil || !errors.Is(err, iofs.ErrExist) {
		return pathError("mkdir", target, err)
	}
	if m, err := top(target); err != nil || m != nil { // which may be dead and have no answer
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(above, filepath.Base(target), &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return status.Errorf(codes.FailedPrecondition, "%s is there, and is not a directory", target)
	}
	return nil
}

// pathError adds the path to the error of a system call.
func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: path, Err: err}
}

// bind shows a directory of a server's mount at a target.
func bind(mountpoint, path, target string) error {
	root, err := openDirectory(mountpoint)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	source, err := openBelow(root, cmp.Or(path, "."))
	if err != nil {
		return err
	}
	defer unix.Close(source)
	at, err := openTarget(target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return pathError("mount --bind", target, unix.Mount(pathOfHandle(source), pathOfHandle(at), "", unix.MS_BIND, ""))
}

// protect makes a bound mount safe. The mount that it is of is so already.
func protect(target string) error {
	at, err := openTarget(target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return pathError("mount -o remount,bind,ro", target, unix.Mount("", pathOfHandle(at), "", unix.MS_REMOUNT|unix.MS_BIND|protected, ""))
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
