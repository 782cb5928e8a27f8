package source

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// TestOpenAfterClose holds that a directory can be closed once a model is open,
// and the rest of its files be opened later, by the same rules.
func TestOpenAfterClose(t *testing.T) {
	for _, links := range []Links{Inside, Anywhere} {
		dir, out := t.TempDir(), t.TempDir()
		for name, text := range map[string]string{filepath.Join(dir, "a"): "inside", filepath.Join(out, "b"): "outside"} {
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(filepath.Join(out, "b"), filepath.Join(dir, "b")); err != nil {
			t.Fatal(err)
		}
		d, err := Dir(dir, links)
		if err != nil {
			t.Fatal(err)
		}
		read := func(when string) {
			t.Helper()
			if b, err := ReadSmall(d, "a", 100); err != nil || string(b) != "inside" {
				t.Errorf("%s: %q, %v", when, b, err)
			}
			b, err := ReadSmall(d, "b", 100)
			if links == Inside && !errors.Is(err, ErrLink) || links == Anywhere && string(b) != "outside" {
				t.Errorf("%s: through the link %q, %v", when, b, err)
			}
		}
		read("open")
		for _, when := range []string{"closed", "closed twice"} {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			read(when)
		}
	}
}

var _ tensorfs.File = File(nil)
