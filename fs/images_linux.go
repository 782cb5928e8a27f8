package fs

import (
	"fmt"
	"strconv"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"golang.org/x/sys/unix"
)

// imageReadAhead returns how far the kernel reads ahead in an image, in KiB. One request takes 1 MiB;
// with 2 MiB readers map pages of that size, but the first one waits longer for each.
func (o *Options) imageReadAhead() int {
	if o.ReadAheadKiB < 0 {
		return defaultReadAheadKiB
	}
	return o.ReadAheadKiB
}

// newImages mounts the private file system that images are read from, and returns nil if
// the kernel cannot.
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
// belong to the thread.
type detached struct {
	thread    *apart
	root      int
	loops     *loops
	readAhead int                // in KiB
	used      map[int]loopDevice // by the descriptor of the directory that is mounted from it
}

// loopDevice is the device of an image.
type loopDevice struct {
	fd        int
	readAhead int // in KiB, for the device's other users; 0 if unknown
}

func newDetached(m *images, f *rawFS) (*detached, error) {
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	root, err := detach("fuse", map[string]string{
		"source": "tensorfs images", "fd": strconv.Itoa(device), "rootmode": strconv.FormatUint(unix.S_IFDIR, 8),
		"user_id": "0", "group_id": "0", "max_read": strconv.Itoa(maxRequest),
	}, readOnlyMount)
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
	defer unix.Close(root) // which ends the server where nothing else has it
	loops, err := newLoops()
	if err != nil {
		return nil, err
	}
	defer loops.close()
	thread, err := newApart(root, loops.nodes, loops.control)
	if err != nil {
		return nil, err
	}
	return &detached{thread: thread, root: root, loops: loops, readAhead: f.opts.imageReadAhead(), used: map[int]loopDevice{}}, nil
}

// readOnlyMount are the attributes of the mounts that files are read from.
const readOnlyMount = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

// detach makes a mount that is nowhere in the tree of files: only the returned descriptor of its
// root reaches it. An option without a value is a flag.
func detach(kind string, options map[string]string, attributes int) (int, error) {
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
	dir, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, fmt.Errorf("fsmount %s: %w", kind, err)
	}
	return dir, nil
}

func (d *detached) mount(name string) (int, error) {
	return d.thread.do(func() (int, error) { return d.mountHere(name) })
}

// mountHere is mount on the thread. The image is on a loop device, because EROFS takes no direct I/O where it reads its
// image from a file: a program that opens such a file with O_DIRECT would be refused.
func (d *detached) mountHere(name string) (int, error) {
	image, err := unix.Openat(d.root, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("opening an image: %w", err)
	}
	defer unix.Close(image)
	device, err := d.loops.attach(image)
	if err != nil {
		return -1, err
	}
	dir, err := detach("erofs", map[string]string{"source": fmt.Sprintf("/proc/thread-self/fd/%d", device), "ro": ""}, readOnlyMount)
	if err != nil {
		unix.Close(device)
		return -1, err
	}
	d.used[dir] = loopDevice{device, readAhead(device, d.readAhead)}
	return dir, nil
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
	_, _ = d.thread.do(func() (int, error) {
		device := d.used[dir]
		delete(d.used, dir)
		readAhead(device.fd, device.readAhead) // the next program that gets the device expects the usual
		unix.Close(device.fd)
		return -1, unix.Close(dir)
	})
}

func (d *detached) end() { d.thread.end() }
