package mounts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const fuseDevice = "/dev/fuse"

// mountFlags are the flags of options with optFlag.
var mountFlags = map[string]uintptr{
	"noatime":    unix.MS_NOATIME,
	"nodiratime": unix.MS_NODIRATIME,
	"sync":       unix.MS_SYNCHRONOUS,
	"dirsync":    unix.MS_DIRSYNC,

	"nosymfollow": unix.MS_NOSYMFOLLOW,
}

// alwaysFlags protect every mount.
const alwaysFlags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// selinux is there if the kernel has SELinux. Otherwise FUSE itself would be asked for labels, and refuse them.
const selinux = "/sys/fs/selinux/enforce"

// MountFUSE mounts a FUSE file system, with mount(2) as root and by fusermount3 otherwise, also if this process may not
// open the device, which such a program may do for it. It returns the open device of the mount. No read that the kernel sends there is larger
// than maxRead. options come from ParseOptions.
func MountFUSE(mountpoint, source string, maxRead int, options Options) (int, error) {
	flags, data := options.Flags, append(slices.Clip(options.Data), "max_read="+strconv.Itoa(maxRead))
	if _, err := os.Lstat(selinux); err != nil {
		data = slices.DeleteFunc(data, isContext)
	}
	fd, err := unix.Open(fuseDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case err != nil:
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			return -1, deviceError(err)
		}
		err = deviceError(err)
	case os.Geteuid() == 0:
		err = mountDirect(fd, mountpoint, source, flags, data)
		if err == nil {
			return fd, nil
		}
		unix.Close(fd)
		if !errors.Is(err, unix.EPERM) { // a root without the right to mount may still have fusermount3
			return -1, err
		}
		err = Advised{"root may not mount here; in a container, " + containerAdvice, err}
	default:
		unix.Close(fd)
	}
	fd, helpErr := mountHelped(mountpoint, source, flags, data)
	if helpErr != nil && err != nil {
		return -1, err
	}
	return fd, helpErr
}

// inContainer are files that container runtimes leave.
var inContainer = []string{"/.dockerenv", "/run/.containerenv", "/run/systemd/container"}

func deviceError(err error) error {
	container := os.Getenv("container") != "" || os.Getenv("KUBERNETES_SERVICE_HOST") != "" ||
		slices.ContainsFunc(inContainer, func(path string) bool { _, err := os.Lstat(path); return err == nil })
	types, _ := os.ReadFile("/proc/filesystems") // unread, it is as if the module were missing
	return Advised{deviceAdvice(err, container, bytes.Contains(types, []byte("\tfuse\n"))), err}
}

// deviceAdvice is what to do if the device cannot be opened. Loading the module helps only
// outside of containers, and only if it is not loaded.
func deviceAdvice(err error, container, loaded bool) string {
	missing := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO)
	refused := errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
	switch {
	case container && (missing || refused):
		return "this container may not use " + fuseDevice + ": " + containerAdvice
	case missing && loaded:
		return "no " + fuseDevice + ", although the kernel has FUSE: make it as root (mknod -m 666 /dev/fuse c 10 229)"
	case missing:
		return "no " + fuseDevice + ": load the kernel module as root (modprobe fuse)"
	case refused:
		return "no access to " + fuseDevice + ": become a member of its group, or run as root"
	}
	return fuseDevice + ": " + err.Error()
}

// containerAdvice is how a container can mount, and what works if it cannot.
const containerAdvice = "start it with --device /dev/fuse --cap-add SYS_ADMIN, or do without a mount (tensorfs export, ls, cat)"

// mountDirect mounts with mount(2).
func mountDirect(fd int, mountpoint, source string, flags, data []string) error {
	bits := uintptr(alwaysFlags)
	for _, f := range flags {
		bits |= mountFlags[f]
	}
	opts := append([]string{
		"fd=" + strconv.Itoa(fd),
		fmt.Sprintf("rootmode=%o", unix.S_IFDIR),
		"user_id=" + strconv.Itoa(os.Geteuid()),
		"group_id=" + strconv.Itoa(os.Getegid()),
	}, data...)
	if err := unix.Mount(source, mountpoint, Type, bits, strings.Join(opts, ",")); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// mountHelped mounts through the setuid program of libfuse. It opens the device
// itself and sends it through a socket.
func mountHelped(mountpoint, source string, flags, data []string) (int, error) {
	helper, err := fusermount()
	if err != nil {
		return -1, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socketpair: %w", err)
	}
	defer unix.Close(pair[0])
	remote := os.NewFile(uintptr(pair[1]), "fusermount")
	defer remote.Close()

	opts := append([]string{"ro", "nosuid", "nodev", "noexec"}, flags...)
	opts = append(opts, data...)
	opts = append(opts, "subtype="+Program, "fsname="+escapeOption(source))
	cmd := exec.Command(helper, "-o", strings.Join(opts, ","), "--", mountpoint)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3") // the number of ExtraFiles[0]
	cmd.ExtraFiles = []*os.File{remote}
	if err := run(cmd); err != nil {
		return -1, err
	}
	return receiveDevice(pair[0])
}

// fusermount returns the path of the setuid helper.
func fusermount() (string, error) {
	for _, name := range []string{"fusermount3", "/bin/fusermount3", "fusermount", "/bin/fusermount"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no fusermount3: install the package fuse3, or run as root")
}

// run runs a helper and returns its output as the error. That is an error text of libfuse,
// whose last line is the most specific.
func run(cmd *exec.Cmd) error {
	var out bytes.Buffer
	// A Ctrl-C must reach only this process: a helper that it ended between mounting
	// and handing over the device would leave a dead mount.
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	text := strings.TrimSpace(lines[len(lines)-1])
	switch {
	case text == "":
		return fmt.Errorf("%s: %w", cmd.Path, err)
	case strings.Contains(text, "busy"):
		return fmt.Errorf("%s: %w", text, unix.EBUSY)
	}
	for _, a := range helperAdvice {
		if strings.Contains(text, a.about) {
			return fmt.Errorf("%s: %s", text, a.advice)
		}
	}
	return errors.New(text)
}

// helperAdvice is what to do about errors of fusermount3, by a part of their text.
var helperAdvice = []struct{ about, advice string }{
	{"user_allow_other", "add the line user_allow_other to /etc/fuse.conf, or mount without allow_other"},
	{"/etc/mtab", "make it as root: ln -s /proc/self/mounts /etc/mtab"},
	{"Operation not permitted", "fusermount3 must be setuid root, and a container must be allowed to mount"},
}

// escapeOption protects a value in a list of options.
func escapeOption(s string) string { return strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(s) }

// receiveDevice takes the descriptor that the helper sent.
func receiveDevice(socket int) (int, error) {
	var data [8]byte
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, data[:], oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("no device from fusermount3: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return -1, errors.New("no device from fusermount3")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.New("no device from fusermount3")
	}
	return fds[0], nil
}
