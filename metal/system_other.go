//go:build !linux

package metal

import (
	"os"

	"golang.org/x/sys/unix"
)

const noAttr = unix.ENOATTR

// mapsLimit: there is no such setting.
const mapsLimit = ""

// directRead has no counterpart here, and isFuse says so.
const directRead = 0

func isFuse(*os.File) bool { return false }

func advise([]byte) {}

// populate has the system read ahead, and waits until the pages are there.
func populate(mem []byte) error {
	_ = unix.Madvise(mem, unix.MADV_WILLNEED) // only advice
	touch(mem)
	return nil
}

func freeMemory() int64 { return 0 }
