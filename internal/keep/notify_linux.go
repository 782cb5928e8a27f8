package keep

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// notifyTime is how long a manager of services may take to make room for a message.
const notifyTime = 5 * time.Second

// Tell sends a message and descriptors to the manager of services at a socket, as sd_notify(3) has it. A socket that belongs
// to another user than root and the one of this process gets nothing.
func Tell(socket, text string, fds ...int) error {
	fd, err := dialManager(socket)
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET=%s: %w", socket, err)
	}
	defer unix.Close(fd)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if err := unix.Sendmsg(fd, []byte(text), rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("NOTIFY_SOCKET=%s: %w", socket, err)
	}
	return nil
}

// dialManager returns a connected socket whose other end may be trusted.
func dialManager(socket string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	limit := unix.NsecToTimeval(int64(notifyTime))
	if err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err == nil {
		if strings.HasPrefix(socket, "@") {
			err = connectName(fd, socket)
		} else {
			err = connectFile(fd, socket)
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// connectFile connects to a socket that has a file, which its maker owns. The kernel does not say who reads from a socket of
// datagrams. The file that was looked at is the one that is used, whatever its path leads to by then.
func connectFile(fd int, path string) error {
	file, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	var st unix.Stat_t
	if err := unix.Fstat(file, &st); err != nil {
		return err
	}
	var system unix.Statfs_t
	if err := unix.Fstatfs(file, &system); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFSOCK:
		return errors.New("it is not a socket")
	case system.Type == unix.FUSE_SUPER_MAGIC: // its server reports the owner of the file
		return fmt.Errorf("it is on a FUSE file system, which may name any owner: %w", errStranger)
	}
	if err := trust(int(st.Uid)); err != nil {
		return err
	}
	return unix.Connect(fd, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(file)})
}

// connectName connects to a socket that has only a name. The kernel is asked who made the socket that this one is
// connected to by then.
func connectName(fd int, name string) error {
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	other, err := diagnose(uint32(st.Ino), showPeer, peerAttribute)
	if err != nil {
		return fmt.Errorf("the kernel does not say who made it: %w: %w", errStranger, err)
	}
	uid, err := diagnose(other, showUser, userAttribute)
	if err != nil {
		return fmt.Errorf("the kernel does not say who made it: %w: %w", errStranger, err)
	}
	return trust(int(uid))
}

// Numbers of linux/sock_diag.h and linux/unix_diag.h.
const (
	diagByFamily  = 20
	showPeer      = 1 << 2
	showUser      = 1 << 6
	peerAttribute = 2
	userAttribute = 7
	diagHeader    = 16 // of the kernel's answer, before its attributes
)

// diagnose asks the kernel for a number that it has of a socket of this machine, given by the number of its inode.
func diagnose(inode, show uint32, attribute uint16) (uint32, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	const anyState = ^uint32(0)
	le := binary.NativeEndian
	ask := le.AppendUint32(nil, unix.SizeofNlMsghdr+24)
	ask = le.AppendUint16(ask, diagByFamily)
	ask = le.AppendUint16(ask, unix.NLM_F_REQUEST)
	ask = le.AppendUint64(ask, 0) // number and sender
	ask = append(ask, unix.AF_UNIX, 0, 0, 0)
	for _, n := range []uint32{anyState, inode, show, ^uint32(0), ^uint32(0)} { // the last two are for any socket of that inode
		ask = le.AppendUint32(ask, n)
	}
	if err := unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, err := unix.Read(fd, answer)
	if err != nil {
		return 0, err
	}
	return attributeOf(answer[:n], attribute)
}

// attributeOf returns a number in an answer of the kernel.
func attributeOf(answer []byte, attribute uint16) (uint32, error) {
	const header, number = unix.SizeofNlMsghdr, unix.SizeofNlAttr + 4
	le := binary.NativeEndian
	if len(answer) >= header+4 && le.Uint16(answer[4:]) == unix.NLMSG_ERROR {
		return 0, unix.Errno(-int32(le.Uint32(answer[header:])))
	}
	for b := answer[min(header+diagHeader, len(answer)):]; len(b) >= unix.SizeofNlAttr; {
		size := int(le.Uint16(b))
		if size < unix.SizeofNlAttr || size > len(b) {
			break
		}
		if le.Uint16(b[2:]) == attribute && size == number {
			return le.Uint32(b[unix.SizeofNlAttr:]), nil
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return 0, errors.New("it is not known")
}
