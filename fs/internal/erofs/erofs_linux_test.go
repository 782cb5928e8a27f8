package erofs_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs/fs/internal/erofs"
	"golang.org/x/sys/unix"
)

// TestKernel has the kernel mount images and compares what it reads.
func TestKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting takes root")
	}
	for _, files := range []int{1, 2, 60, 61, 202, 203, 500} {
		t.Run(fmt.Sprint(files), func(t *testing.T) { testKernel(t, files) })
	}
}

func testKernel(t *testing.T, files int) {
	random := rand.NewChaCha8([32]byte{byte(files)})
	contents := make([][]byte, files)
	sizes := make([]int64, files)
	for i := range contents {
		contents[i] = make([]byte, []int{0, 1, 4095, 4096, 4097, 70000, 12288}[i%7])
		random.Read(contents[i])
		sizes[i] = int64(len(contents[i]))
	}
	image := make([]byte, erofs.New(sizes).Size())
	if err := erofs.New(sizes).Read(image, 0, func(i int, p []byte, off int64) error {
		copy(p, contents[i][off:])
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(name, image, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, err := unix.Fsopen("erofs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		t.Skip("the kernel has no EROFS: ", err)
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigSetString(ctx, "source", name); err != nil {
		t.Fatal(err)
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		t.Skip("the kernel mounts no EROFS from a file: ", err)
	}
	dir, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	for i, want := range contents {
		fd, err := unix.Openat(dir, erofs.Name(i), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
		f := os.NewFile(uintptr(fd), "")
		got := make([]byte, len(want)+1)
		n, _ := f.Read(got)
		f.Close()
		if n != len(want) || !bytes.Equal(got[:n], want) {
			t.Fatalf("file %d of %d bytes: read %d other ones", i, len(want), n)
		}
	}
	list, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := os.NewFile(uintptr(list), "")
	defer d.Close()
	if all, err := d.Readdirnames(-1); err != nil || len(all) != files {
		t.Fatalf("%d names and %v, want %d", len(all), err, files)
	}
}
