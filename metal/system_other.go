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

// populate waits until the pages are there. On macOS readAhead had them read before.
func populate(mem []byte) error {
	touch(mem)
	return nil
}

func freeMemory() int64 { return 0 }
