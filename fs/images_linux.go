package fs

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
)

// imageReadAheadKiB is how far the kernel reads ahead in an image. One request takes as much; more
// makes pages so large that new memory has to be found for them.
const imageReadAheadKiB = 1024

// newImages mounts the private file system that images are read from, and returns nil where the
// kernel does not.
func newImages(f *rawFS) *images {
	m := newImagesOf(f)
	k, err := newDetached(m, f)
	if err != nil {
		f.opts.Logger.Debug("no images of directories: the server answers their reads", "error", err)
		return nil
	}
	m.kernel = k
	return m
}

// detached is a FUSE mount without a name, and EROFS mounts of its files. All descriptors
// are those of the thread.
type detached struct {
	thread *apart
	root   int
	log    *slog.Logger
}

func newDetached(m *images, f *rawFS) (*detached, error) {
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	root, err := detach("fuse", map[string]string{
		"source": "tensorfs images", "fd": strconv.Itoa(device), "rootmode": strconv.FormatUint(unix.S_IFDIR, 8),
		"user_id": "0", "group_id": "0", "max_read": strconv.Itoa(maxRequest),
	})
	if err != nil {
		unix.Close(device)
		return nil, err
	}
	server, err := fuse.NewServer(m, "/dev/fd/"+strconv.Itoa(device), &fuse.MountOptions{
		MaxWrite: maxRequest, DisableSplice: true, DisabledCapabilities: fuse.CAP_PASSTHROUGH,
		ExtraCapabilities: fuse.CAP_ASYNC_DIO, // else every reader waits for what is read ahead
		Name:              mounts.Program, FsName: m.String(), PanicHandler: f.panicked,
	})
	if err != nil {
		unix.Close(root)
		return nil, err
	}
	go server.Serve()
	defer unix.Close(root)
	thread, err := newApart(root)
	if err != nil { // closing the root ends the server
		return nil, err
	}
	return &detached{thread: thread, root: root, log: f.opts.Logger}, nil
}

// detach makes a mount that is nowhere in the tree of files: only the returned descriptor of its
// root reaches it. An option without a value is a flag.
func detach(kind string, options map[string]string) (int, error) {
	ctx, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen %s: %w", kind, err)
	}
	defer unix.Close(ctx)
	for key, value := range options {
		if value == "" {
			err = unix.FsconfigSetFlag(ctx, key)
		} else {
			err = unix.FsconfigSetString(ctx, key, value)
		}
		if err != nil {
			return -1, fmt.Errorf("%s: option %s: %w", kind, key, err)
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, fmt.Errorf("mounting %s: %w", kind, err)
	}
	dir, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsmount %s: %w", kind, err)
	}
	return dir, nil
}

func (d *detached) mount(name string) (int, error) {
	return d.thread.do(func() (int, error) { return d.mountHere(name) })
}

// mountHere is mount on the thread.
func (d *detached) mountHere(name string) (int, error) {
	image, err := unix.Openat(d.root, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("opening an image: %w", err)
	}
	defer unix.Close(image)
	before := bdis()
	// Without directio every page would be in memory twice.
	dir, err := detach("erofs", map[string]string{"source": fmt.Sprintf("/proc/thread-self/fd/%d", image), "directio": ""})
	if err != nil {
		return -1, err
	}
	d.raise(before)
	return dir, nil
}

// bdis returns the names under which the kernel keeps what is set for EROFS mounts.
func bdis() []string {
	names, _ := filepath.Glob("/sys/class/bdi/erofs-*") // the pattern is well formed
	return names
}

// raise raises the read-ahead of the mount that was made since before. The kernel
// numbers them, and does not say which number a mount has: where others were made as well, all stay as
// they are, because it only affects speed.
func (d *detached) raise(before []string) {
	after := slices.DeleteFunc(bdis(), func(name string) bool { return slices.Contains(before, name) })
	if len(after) != 1 {
		return
	}
	if err := os.WriteFile(after[0]+"/read_ahead_kb", []byte(strconv.Itoa(imageReadAheadKiB)), 0); err != nil {
		d.log.Debug("the read-ahead of an image stays as it is", "error", err)
	}
}

func (d *detached) open(dir int, name string) (int, error) {
	return d.thread.fetch(func() (int, error) {
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, fmt.Errorf("opening a file of an image: %w", err)
		}
		return fd, nil
	})
}

func (d *detached) unmount(dir int) {
	_, _ = d.thread.do(func() (int, error) { return -1, unix.Close(dir) })
}

func (d *detached) end() { d.thread.end() }
