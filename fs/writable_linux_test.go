package fs

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRemountedWritable: after root has remounted a model writable, no file can be opened for
// writing, so no process can map one and change what other processes read.
func TestRemountedWritable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: a remount takes root")
	}
	s := serve(t, "model", newModel(t, 5<<20))
	s.run("readall", s.mountpoint, s.sizeArg())
	if err := unix.Mount("", s.mountpoint, "", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	s.run("writable", s.path("raw/e.aligned"), s.mountpoint)
	s.run("readall", s.mountpoint, s.sizeArg())
}

// clientWritable holds that neither the file nor the directory that it is given
// can be written to.
func clientWritable(args []string) error {
	file, dir := args[0], args[1]
	for name, err := range map[string]error{
		"open for writing":                       opens(file, unix.O_WRONLY),
		"open for both":                          opens(file, unix.O_RDWR),
		"open and truncate":                      opens(file, unix.O_RDONLY|unix.O_TRUNC),
		"create":                                 opens(dir+"/new", unix.O_RDWR|unix.O_CREAT),
		"truncate":                               unix.Truncate(file, 1),
		"remove":                                 unix.Unlink(file),
		"rename":                                 unix.Rename(file, dir+"/other"),
		"chmod":                                  unix.Chmod(file, 0o777),
		"set an attribute":                       unix.Setxattr(file, "user.x", []byte("y"), 0),
		"map what is open read-only for writing": mapsWritable(file),
	} {
		if err != unix.EROFS && err != unix.EACCES {
			return fmt.Errorf("%s: %v", name, err)
		}
	}
	return nil
}

func opens(path string, flags int) error {
	fd, err := unix.Open(path, flags, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func mapsWritable(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	mem, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		unix.Munmap(mem)
	}
	return err
}
