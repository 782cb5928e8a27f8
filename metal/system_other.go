//go:build !linux

package metal

// mapsLimit: there is no such setting.
const mapsLimit = ""

func advise([]byte) {}

// populate waits until the pages are there. On macOS readAhead had them read before.
func populate(mem []byte) error {
	touch(mem)
	return nil
}

func freeMemory() int64 { return 0 }
