package ollama

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnreadable opens a store as an ordinary user.
func TestUnreadable(t *testing.T) {
	const blob, manifest = "blobs/" + controlBlob, "manifests/registry.ollama.ai/library/control/latest"
	files := make(map[string][]byte)
	for _, path := range []string{blob, manifest, "blobs/sha256-3984643df951a35941f29c8819964b4aef5b328a4c7b763ef126ffade8b4a53a"} {
		b, err := os.ReadFile(filepath.Join(hostileData, "models", path))
		if err != nil {
			t.Fatal(err)
		}
		files[path] = b
	}
	dir, err := os.MkdirTemp("", "unreadable")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // on a thread that has its identity still
		var wg sync.WaitGroup
		wg.Go(func() { os.RemoveAll(dir) })
		wg.Wait()
	}()
	if os.Geteuid() == 0 {
		const nobody = 65534
		if err := os.Chown(dir, nobody, -1); err != nil {
			t.Fatal(err)
		}
		runtime.LockOSThread() // for good: the thread keeps the identity and ends with the test
		if err := unix.Setfsuid(nobody); err != nil {
			t.Fatal(err)
		}
	}
	for path, b := range files {
		to := filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{blob, manifest} {
		if err := os.Chmod(filepath.Join(dir, path), 0); err != nil {
			t.Fatal(err)
		}
		m, err := Open(filepath.Join(dir, manifest))
		if m != nil {
			m.Close()
		}
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "no permission to read it") {
			t.Errorf("%s: error %v", path, err)
		}
	}
}
