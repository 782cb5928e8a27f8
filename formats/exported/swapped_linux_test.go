package exported_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"golang.org/x/sys/unix"
)

// TestSwappedLink: the links of a directory that claims to be an export are exchanged all the
// time for links to a file outside, whose state index.json has. Nothing is read of that file,
// neither as a tensor nor through source/, when it is opened and later.
func TestSwappedLink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	secret := bytes.Repeat([]byte("secret"), 100)
	for name, text := range map[string][]byte{"secret": secret, "out/note": secret, "t/inside": bytes.Repeat([]byte("inside"), 100), "t/real/note": []byte("note"), "t/raw/w.weight": make([]byte, 600)} {
		must(os.MkdirAll(filepath.Dir(at(name)), 0o777))
		must(os.WriteFile(at(name), text, 0o600))
	}
	must(os.Mkdir(at("t/source"), 0o777))
	for name, to := range map[string]string{"t/source/w": "../inside", "t/w2": at("secret"), "t/source/note": "../real/note", "t/note2": at("out/note"), "t/real2": at("out")} {
		must(os.Symlink(to, at(name)))
	}
	st, err := os.Stat(at("secret"))
	must(err)
	sys := st.Sys().(*syscall.Stat_t)
	index, err := json.Marshal(map[string]any{"version": 1, "absent": map[string]any{},
		"model": map[string]any{"format": "safetensors", "architecture": "llama", "layout": "hf", "files": []any{map[string]any{
			"name": "w", "bytes": 600, "inode": sys.Ino, "mtime_ns": sys.Mtim.Nano(), "ctime_ns": sys.Ctim.Nano()}}},
		"views": map[string]any{"raw": map[string]any{"w.weight": map[string]any{"dtype": "U8", "shape": []int{600}, "bytes": 600, "source_name": "w",
			"extents": []any{map[string]any{"file": "w", "offset": 0, "bytes": 600}}}}}})
	must(err)
	must(os.WriteFile(at("t/index.json"), index, 0o666))

	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			for _, pair := range [][2]string{{"t/source/w", "t/w2"}, {"t/source/note", "t/note2"}, {"t/real", "t/real2"}} {
				if err := unix.Renameat2(unix.AT_FDCWD, at(pair[0]), unix.AT_FDCWD, at(pair[1]), unix.RENAME_EXCHANGE); err != nil {
					stopped <- err
					return
				}
			}
		}
	}()
	opened := 0
	for range 500 {
		m, err := formats.Options{KeepInside: true}.Open(at("t"))
		if err != nil {
			continue
		}
		opened++
		b := make([]byte, m.Tensors[0].Data.Size())
		if err := tensorfs.ReadFull(m.Tensors[0].Data, b, 0); err == nil && bytes.Contains(b, []byte("secret")) {
			t.Fatalf("the tensor is %.20q", b)
		}
		for _, name := range []string{"w", "note"} {
			if d, err := m.File(name); err == nil {
				b := make([]byte, d.Size())
				if err := tensorfs.ReadFull(d, b, 0); err == nil && strings.Contains(string(b), "secret") {
					t.Fatalf("source/%s is %.20q", name, b)
				}
			}
		}
		m.Close()
	}
	close(stop)
	must(<-stopped)
	if opened < 10 {
		t.Errorf("opened %d times", opened)
	}
}
