package testlimit

import (
	"fmt"
	"os"
	"strings"
)

// DiskReads returns how many bytes a process has had read from disks, -1 where the
// system does not say.
func DiskReads(pid int) (n int64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	_, rest, _ := strings.Cut(string(b), "\nread_bytes: ")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		return -1
	}
	return n
}
