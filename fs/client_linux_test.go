package fs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing/fstest"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// clients are what a client process can do with a mount. The first argument is
// the mount point.
var clients = map[string]func(args []string) error{
	"readall":  clientReadAll,
	"pread":    clientPread,
	"mmap":     clientMmap,
	"direct":   clientDirect,
	"beside":   clientBeside,
	"readv":    clientReadv,
	"sendfile": clientSendfile,
	"testfs":   clientTestFS,
	"wide":     clientWide,
	"getdents": clientGetdents,
	"stat":     clientStat,
	"xattr":    clientXattr,
	"readonly": clientReadOnly,
	"owner":    clientOwner,
	"hold":     clientHold,
	"opens":    clientOpens,
	"writable": clientWritable,
	"eio":      clientEIO,
	"forgets":  clientForgets,
	"stream":   clientStream,
	"random":   clientRandom,
	"exercise": clientExercise,
}

// treeFile is a file of the test's tree.
type treeFile struct {
	path string
	size int64
}

// treeFiles lists the files whose bytes want computes.
func treeFiles(model string) ([]treeFile, int64, error) {
	size, err := strconv.ParseInt(model, 10, 64)
	if err != nil {
		return nil, 0, err
	}
	var all []treeFile
	for _, dir := range []string{"raw", "f16", "joined"} {
		for _, p := range parts(size) {
			n := p.n
			if dir == "f16" {
				n *= 2
			}
			all = append(all, treeFile{dir + "/" + p.name, n})
		}
	}
	return all, size, nil
}

// eachFile opens the files of the tree in turn.
func eachFile(args []string, flags int, fn func(f *os.File, tf treeFile, want func(p []byte, off int64) error) error) error {
	all, size, err := treeFiles(args[1])
	if err != nil {
		return err
	}
	for _, tf := range all {
		f, err := os.OpenFile(filepath.Join(args[0], tf.path), os.O_RDONLY|flags, 0)
		if err != nil {
			return err
		}
		err = fn(f, tf, func(p []byte, off int64) error { return want(p, tf.path, size, off) })
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", tf.path, err)
		}
	}
	return nil
}

// compare compares got with the bytes at off.
func compare(got []byte, off int64, want func(p []byte, off int64) error) error {
	w := make([]byte, len(got))
	if err := want(w, off); err != nil {
		return err
	}
	if !bytes.Equal(got, w) {
		for i := range w {
			if got[i] != w[i] {
				return fmt.Errorf("%d bytes at %d: the byte at %d is %#x, want %#x", len(got), off, off+int64(i), got[i], w[i])
			}
		}
	}
	return nil
}

func clientTestFS(args []string) error {
	return fstest.TestFS(os.DirFS(args[0]), "a", "b/c", "b/d/e", "b/f", "g", "h")
}

// clientWide checks a directory of 50,000 files.
func clientWide(args []string) error {
	d := wide(50000)
	list, err := os.ReadDir(args[0])
	if err != nil {
		return err
	}
	if len(list) != d.Len() {
		return fmt.Errorf("%d entries", len(list))
	}
	for i, e := range list {
		if e.Name() != d.Entry(i).Name || !e.Type().IsRegular() {
			return fmt.Errorf("entry %d is %s", i, e.Name())
		}
	}
	for i := 0; i < d.Len(); i += 997 {
		path := filepath.Join(args[0], list[i].Name())
		b, err := os.ReadFile(path)
		if err != nil || string(b) != string(number(i).text()) {
			return fmt.Errorf("%s: %q, %v", path, b, err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil || st.Ino != uint64(i)+2 {
			return fmt.Errorf("%s: inode %d, %v", path, st.Ino, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(args[0], "tensor.050000.weight")); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("a file after the last: %v", err)
	}
	return nil
}

// direntsFrom reads names from an open directory with buffers of n bytes.
func direntsFrom(fd, n int) ([]string, error) {
	var all []string
	buf := make([]byte, n)
	for {
		got, err := unix.Getdents(fd, buf)
		if err != nil {
			return nil, err
		}
		if got == 0 {
			return all, nil
		}
		_, _, names := unix.ParseDirent(buf[:got], -1, nil)
		all = append(all, names...)
	}
}

// clientGetdents reads a directory in steps of different sizes and from places
// in the middle.
func clientGetdents(args []string) error {
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	first, err := direntsFrom(fd, 1<<20)
	if err != nil {
		return err
	}
	for _, n := range []int{300, 1000, 4096, 65536} {
		if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
			return err
		}
		again, err := direntsFrom(fd, n)
		if err != nil {
			return err
		}
		if !slices.Equal(first, again) {
			return fmt.Errorf("with a buffer of %d: %d names, not the same %d", n, len(again), len(first))
		}
	}
	// Offset 2+i comes after entry i-1; "." and ".." come first and are not in the list.
	for _, i := range []int{0, 1, len(first) / 2, len(first) - 1, len(first)} {
		if _, err := unix.Seek(fd, int64(2+i), io.SeekStart); err != nil {
			return err
		}
		rest, err := direntsFrom(fd, 4096)
		if err != nil {
			return err
		}
		if !slices.Equal(rest, first[i:]) {
			return fmt.Errorf("from entry %d: %d names, want %d", i, len(rest), len(first)-i)
		}
	}
	return nil
}

// clientStat checks attributes, links and the sums of the file system.
func clientStat(args []string) error {
	mnt := args[0]
	var sum int64
	seen := map[uint64]string{}
	err := filepath.WalkDir(mnt, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		wantMode := uint32(unix.S_IFREG | 0o444)
		switch {
		case d.IsDir():
			wantMode = unix.S_IFDIR | 0o555
		case d.Type()&os.ModeSymlink != 0:
			wantMode = unix.S_IFLNK | 0o777
		}
		mtime := time.Unix(st.Mtim.Sec, st.Mtim.Nsec)
		if st.Mode != wantMode || int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid() || !mtime.Equal(modTime) {
			return fmt.Errorf("%s: mode %o, owner %d:%d, mtime %v", path, st.Mode, st.Uid, st.Gid, mtime)
		}
		if other := seen[st.Ino]; other != "" {
			return fmt.Errorf("%s and %s have the inode %d", path, other, st.Ino)
		}
		seen[st.Ino] = path
		if d.Type().IsRegular() {
			if st.Blocks*512 < st.Size || st.Blocks*512 > st.Size+4095 {
				return fmt.Errorf("%s: %d blocks for %d bytes", path, st.Blocks, st.Size)
			}
			sum += st.Blocks * 512
		}
		return nil
	})
	if err != nil {
		return err
	}
	var sf unix.Statfs_t
	if err := unix.Statfs(mnt, &sf); err != nil {
		return err
	}
	if int64(sf.Blocks)*sf.Bsize != sum || sf.Bfree != 0 || sf.Namelen != 255 || sf.Files != uint64(len(seen)) {
		return fmt.Errorf("statfs: %+v, want %d bytes in %d files", sf, sum, len(seen))
	}
	if sf.Flags&(unix.ST_RDONLY|unix.ST_NOSUID|unix.ST_NODEV|unix.ST_NOEXEC) != unix.ST_RDONLY|unix.ST_NOSUID|unix.ST_NODEV|unix.ST_NOEXEC {
		return fmt.Errorf("mounted with flags %x", sf.Flags)
	}
	target, err := os.Readlink(filepath.Join(mnt, "source/model"))
	if err != nil || target != args[2] {
		return fmt.Errorf("source/model points to %s, %v", target, err)
	}
	b, err := os.ReadFile(filepath.Join(mnt, "README"))
	if err != nil || string(b) != readme {
		return fmt.Errorf("README: %q, %v", b, err)
	}
	through, err := os.Stat(filepath.Join(mnt, "source/model"))
	if err != nil || strconv.FormatInt(through.Size(), 10) != args[1] {
		return fmt.Errorf("through the link: %v, %v", through, err)
	}
	return nil
}

func clientXattr(args []string) error {
	path := filepath.Join(args[0], "raw/c.page")
	buf := make([]byte, 1000)
	n, err := unix.Listxattr(path, buf)
	if err != nil || string(buf[:n]) != "user.tensorfs.dtype\x00user.tensorfs.shape\x00" {
		return fmt.Errorf("list: %q, %v", buf[:max(n, 0)], err)
	}
	n, err = unix.Getxattr(path, "user.tensorfs.shape", buf)
	if err != nil || string(buf[:n]) != "[4096]" {
		return fmt.Errorf("value: %q, %v", buf[:max(n, 0)], err)
	}
	for name, want := range map[string]error{
		"user.other":              unix.ENODATA,
		"security.selinux":        unix.EOPNOTSUPP,
		"system.posix_acl_access": unix.EOPNOTSUPP,
	} {
		if _, err := unix.Getxattr(path, name, buf); !errors.Is(err, want) {
			return fmt.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if _, err := unix.Getxattr(path, "user.tensorfs.shape", buf[:2]); !errors.Is(err, unix.ERANGE) {
		return fmt.Errorf("a buffer that is too small: %v", err)
	}
	return nil
}

func clientReadOnly(args []string) error {
	dir := args[0]
	file, absent := filepath.Join(dir, "README"), filepath.Join(dir, "new")
	open := func(flags int) error {
		fd, err := unix.Open(file, flags, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	for name, err := range map[string]error{
		"create":      os.WriteFile(absent, nil, 0o644),
		"mkdir":       os.Mkdir(absent, 0o755),
		"symlink":     os.Symlink("x", absent),
		"link":        os.Link(file, absent),
		"rename":      os.Rename(file, absent),
		"unlink":      os.Remove(file),
		"rmdir":       unix.Rmdir(filepath.Join(dir, "empty")),
		"chmod":       os.Chmod(file, 0o777),
		"chown":       os.Chown(file, 1, 1),
		"utimes":      os.Chtimes(file, time.Now(), time.Now()),
		"truncate":    os.Truncate(file, 0),
		"mknod":       unix.Mknod(absent, unix.S_IFIFO, 0),
		"setxattr":    unix.Setxattr(file, "user.x", nil, 0),
		"removexattr": unix.Removexattr(filepath.Join(dir, "raw/c.page"), "user.tensorfs.dtype"),
		"open rw":     open(unix.O_RDWR),
		"open wo":     open(unix.O_WRONLY),
		"open trunc":  open(unix.O_RDONLY | unix.O_TRUNC),
	} {
		if !errors.Is(err, unix.EROFS) {
			return fmt.Errorf("%s: %v", name, err)
		}
	}
	return nil
}

// clientOpens opens the file of each directory of imagedTree in turn.
func clientOpens(args []string) error {
	for i := range maxImages {
		f, err := os.Open(filepath.Join(args[0], fmt.Sprintf("%03d/x", i)))
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

// clientHold opens or maps a file, reports that, and reads the file again on request.
func clientHold(args []string) error {
	path, how := filepath.Join(args[0], args[1]), args[2]
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	read := func() ([]byte, error) { b := make([]byte, st.Size()); _, err := f.ReadAt(b, 0); return b, err }
	switch how {
	case "map":
		m, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		f.Close()
		read = func() ([]byte, error) { return bytes.Clone(m), nil }
	case "cwd":
		if err := os.Chdir(filepath.Dir(path)); err != nil {
			return err
		}
	}
	fmt.Println("holding")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		b, err := read()
		if err != nil {
			return err
		}
		fmt.Println("read", len(b))
	}
	return nil
}

// clientEIO expects that files cannot be read by any means, and that no way of
// reading waits for the server: runClient ends a client that does.
func clientEIO(args []string) error {
	for _, name := range args[1:] {
		f, err := os.Open(filepath.Join(args[0], name))
		if errors.Is(err, syscall.EIO) {
			continue // the server is asked for every open
		}
		if err != nil {
			return err
		}
		if _, err := io.ReadAll(f); !errors.Is(err, syscall.EIO) {
			return fmt.Errorf("%s: %v", name, err)
		}
		if err := touch(f); err == nil {
			return fmt.Errorf("%s: a mapping of it can be read", name)
		}
		f.Close()
	}
	return nil
}

// clientForgets reads a file while its source is overwritten. The first read may get bytes; later
// reads and mappings must not.
func clientForgets(args []string) error {
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 4096)
	for end := time.Now().Add(testlimit.Patience); ; time.Sleep(2 * time.Millisecond) {
		n, err := f.ReadAt(b, 0)
		if errors.Is(err, syscall.EIO) {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d bytes of a reply that was under way can still be read: %v", n, err)
		}
	}
	if err := touch(f); err == nil {
		return errors.New("a mapping can be read")
	}
	return nil
}

// clientOwner prints mode and owner of files: PATH...
func clientOwner(args []string) error {
	for _, path := range args {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		fmt.Printf("%o %d %d\n", st.Mode, st.Uid, st.Gid)
	}
	return nil
}
