package fs

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// loops makes loop devices. Their device nodes are its own: in a container, /dev lacks
// nodes of devices that are newer than the container.
type loops struct {
	nodes   int // a directory in memory
	control int // the device that hands out loop devices
}

// loopControl is the number of /dev/loop-control: 10, 237.
var loopControl = unix.Mkdev(10, 237)

// loopMajor is the major number of loop devices.
const loopMajor = 7

// loopTries is how often a free loop device is asked for when another program takes it first.
const loopTries = 64

func newLoops() (*loops, error) {
	nodes, err := detach("tmpfs", map[string]string{"source": "tensorfs devices", "mode": "700"}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, err
	}
	l := &loops{nodes: nodes}
	if l.control, err = l.open("control", unix.S_IFCHR, loopControl, unix.O_RDWR); err != nil {
		unix.Close(nodes)
		return nil, fmt.Errorf("the control device of loop devices: %w", err)
	}
	return l, nil
}

// open opens a device by a node that it makes.
func (l *loops) open(name string, kind uint32, device uint64, how int) (int, error) {
	if err := unix.Mknodat(l.nodes, name, kind|0o600, int(device)); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return unix.Openat(l.nodes, name, how|unix.O_CLOEXEC, 0)
}

// attach makes a file the content of a loop device, and returns a descriptor of the device.
// The kernel detaches the file when the device is no longer in use.
func (l *loops) attach(file int) (int, error) {
	for range loopTries {
		n, err := unix.IoctlRetInt(l.control, unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return -1, fmt.Errorf("a free loop device: %w", err)
		}
		device, err := l.open(strconv.Itoa(n), unix.S_IFBLK, unix.Mkdev(loopMajor, uint32(n)), unix.O_RDONLY)
		if err != nil {
			return -1, fmt.Errorf("loop device %d: %w", n, err)
		}
		c := unix.LoopConfig{Fd: uint32(file)}
		// Without direct I/O every page would be in memory twice.
		c.Info.Flags = unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
		if err = unix.IoctlLoopConfigure(device, &c); err == nil {
			return device, nil
		}
		unix.Close(device)
		if !errors.Is(err, unix.EBUSY) {
			return -1, fmt.Errorf("loop device %d: %w", n, err)
		}
	}
	return -1, fmt.Errorf("a free loop device: %w", unix.EBUSY)
}

// usualReadAheadKiB is the kernel's default read-ahead of a device.
const usualReadAheadKiB = 128

// readAhead sets how far the kernel reads ahead on a loop device, and returns the value
// that other users of the device expect: the previous one, unless a killed server set it. 0
// means unknown, and sets nothing.
func readAhead(device, kib int) (before int) {
	const sectors = 2 // in a KiB
	n, err := unix.IoctlGetInt(device, unix.BLKRAGET)
	if err != nil || kib == 0 || unix.IoctlSetInt(device, unix.BLKRASET, kib*sectors) != nil {
		return 0
	}
	if before = n / sectors; before >= defaultReadAheadKiB {
		before = usualReadAheadKiB
	}
	return before
}

func (l *loops) close() {
	unix.Close(l.control)
	unix.Close(l.nodes)
}
