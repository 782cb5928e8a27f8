//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fixedRoom is what models of many small tensors take.
const fixedRoom = 128 << 20

// rooms returns what a run takes, in bytes: models on disk, a copy of the largest
// in a tmpfs, and all that the page cache should hold at once, mounts' pages and
// hot files included. It follows from the table of sequential.
func (o *options) rooms() (disk, tmpfs, memory int64) {
	size, part := o.mib<<20, o.partMiB()<<20
	disk = size*13/10 + part*19/4 + fixedRoom
	tmpfs = size + fixedRoom
	return disk, tmpfs, disk + tmpfs + 5*size
}

// partMiB is the size of tensors of the less important types.
func (o *options) partMiB() int64 { return min(o.mib, 256) }

// makeRoom makes the directories of the run, unless there is no room.
func (b *bench) makeRoom() error {
	if !b.wantsMounts() {
		return nil
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("nothing can be mounted here, so that only --only kernels can be measured: %w", err)
	}
	f.Close()
	disk, tmpfs, memory := b.rooms()
	if err := enough("memory", available(), memory); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "tensorfs-bench-"); err != nil {
		return err
	}
	if err := enough(filepath.Dir(b.dir)+" (TMPDIR says where)", free(b.dir), disk); err != nil {
		return err
	}
	if fsName("/dev/shm") != "tmpfs" {
		b.say("/dev/shm is no tmpfs: what is compared with one is left out")
		return nil
	}
	if err := enough("/dev/shm", free("/dev/shm"), tmpfs); err != nil {
		return err
	}
	b.shm, err = os.MkdirTemp("/dev/shm", "tensorfs-bench-")
	return err
}

func enough(where string, has, needs int64) error {
	if has < needs {
		return fmt.Errorf("%d MiB free in %s, this takes %d MiB; a smaller --size takes less", has>>20, where, needs>>20)
	}
	return nil
}

func free(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}

// fsNames are the file systems that a temporary directory may be in.
var fsNames = map[int64]string{
	unix.TMPFS_MAGIC: "tmpfs", unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs",
	unix.BTRFS_SUPER_MAGIC: "btrfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.F2FS_SUPER_MAGIC: "f2fs",
}

func fsName(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "unknown"
	}
	if name := fsNames[int64(st.Type)]; name != "" {
		return name
	}
	return fmt.Sprintf("%#x", st.Type)
}

// available returns how much memory the kernel would give.
func available() int64 { return kibAt("/proc/meminfo", "MemAvailable:") }

// kibAt returns the bytes behind a key of a file like /proc/meminfo, 0 without.
func kibAt(path, key string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(textAt(path, key), " kB"), 10, 64)
	return n << 10
}

// textAt returns what stands behind a key in the first line that begins with it.
func textAt(path, key string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), ":"))
		}
	}
	return ""
}

// touch makes a virtual machine have n bytes of memory at hand. The first touch
// of a page that the host has to give may cost ten times a later one, and a host
// may take free memory back within seconds.
func (b *bench) touch(n int64) error {
	if n = min(n, available()*3/4); n <= 0 {
		return nil
	}
	_, err := b.measureRead("touch", os.DevNull, strconv.FormatInt(n, 10))
	return err
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(text)); err == nil && len(f) > 0 {
		return f[0]
	}
	return "unknown"
}

func oneLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// describe prints where all this is measured.
func (b *bench) describe() {
	const cpuinfo = "/proc/cpuinfo"
	user := "root: the mount's read-ahead is 1 MiB"
	if os.Geteuid() != 0 {
		user = "an ordinary user: the mount's read-ahead is the kernel's 128 KiB"
	}
	fmt.Fprintf(b.out, "- %s, as %s\n", time.Now().UTC().Format("2006-01-02 15:04 MST"), user)
	fmt.Fprintf(b.out, "- %d processors, %s (family %s, model %s), %d MiB memory, %s/%s, Linux %s\n", runtime.NumCPU(),
		textAt(cpuinfo, "model name"), textAt(cpuinfo, "cpu family"), strings.TrimPrefix(textAt(cpuinfo, "model\t"), ": "),
		kibAt("/proc/meminfo", "MemTotal:")>>20, runtime.GOOS, runtime.GOARCH, oneLine("/proc/sys/kernel/osrelease"))
	version, err := b.command(b.tensorfs, "version").Output()
	if err != nil {
		version = []byte("tensorfs")
	}
	fmt.Fprintf(b.out, "- %s; load average %s\n", strings.TrimSpace(string(version)), loadAverage())
	if b.dir != "" {
		fmt.Fprintf(b.out, "- models in %s, in the page cache; pages of a mount dropped by mounting anew where it says cold\n", fsName(b.dir))
		fmt.Fprintf(b.out, "- --size %d; GB are 10^9 bytes\n", b.mib)
	}
}

// errNoTmpfs says why something is left out.
var errNoTmpfs = errors.New("there is no tmpfs at /dev/shm")
