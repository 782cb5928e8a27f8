package metal

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// mapsLimit names the setting that limits the mappings of a process.
const mapsLimit = " (vm.max_map_count)"

// advise asks for huge pages, which makes the kernel read a mounted file 1 MiB
// at a time instead of 128 KiB, and gives memory in large parts. Advice only:
// without it reads and first writes are slower.
func advise(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }

// populate brings in the pages of mem, which begins on one, in a single system
// call. Kernels before 5.14 cannot; there they come with the first touch.
func populate(mem []byte) error {
	err := unix.Madvise(mem, unix.MADV_POPULATE_READ)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		touch(mem)
		return nil
	}
	return err
}

// freeMemory returns how much memory the system can give without swapping.
func freeMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("MemAvailable:"))
	if fields := bytes.Fields(rest); len(fields) > 1 && string(fields[1]) == "kB" {
		kib, _ := strconv.ParseInt(string(fields[0]), 10, 50)
		return kib << 10
	}
	return 0
}
