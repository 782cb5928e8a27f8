package formats_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnreadable opens what an ordinary user may not read.
func TestUnreadable(t *testing.T) {
	dir := tempFiles(t, map[string]string{
		"a.gguf": string(ggufFile), "closed/model.safetensors": string(tensorFile), "listed/model.safetensors": string(tensorFile), "part/config.json": "{}", "part/model.safetensors": string(tensorFile),
		"weights/config.json": "{}", "weights/model.safetensors": string(tensorFile),
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, mode := range map[string]os.FileMode{"a.gguf": 0, "closed": 0, "listed": 0o444, "part/config.json": 0, "weights/model.safetensors": 0} {
		if err := os.Chmod(at(name), mode); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(at(name), 0o777)
	}
	if os.Geteuid() == 0 {
		for path := dir; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		const nobody = 65534
		runtime.LockOSThread() // for good: the thread ends with the test
		if err := unix.Setfsuid(nobody); err != nil {
			t.Fatal(err)
		}
		defer unix.Setfsuid(0) // the directory is removed on this thread
	}
	for name, says := range map[string]string{
		"a.gguf":                    at("a.gguf") + ": no permission to read it; change its mode or run as its owner",
		"closed":                    at("closed") + ": no permission to read it; change its mode or run as its owner",
		"closed/model.safetensors":  "no permission to read it; change its mode or run as its owner",
		"listed":                    at("listed"),
		"part":                      at("part/config.json") + ": no permission to read it; change its mode or run as its owner",
		"weights":                   at("weights/model.safetensors") + ": no permission to read it; change its mode or run as its owner",
		"weights/model.safetensors": at("weights/model.safetensors") + ": no permission to read it; change its mode or run as its owner",
	} {
		m, err := open(t, at(name)) // not in a test of its own: that would run on another thread
		refused(t, m, err, fs.ErrPermission, says)
	}
}
