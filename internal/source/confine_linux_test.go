package source

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestConfine: nothing outside of the directory is opened, by whichever path, and the directory is
// the one that it was when the process was confined.
func TestConfine(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(base, name) }
	var all []error
	for _, dir := range []string{"local/d", "localx", "outside"} {
		all = append(all, os.MkdirAll(at(dir), 0o755))
	}
	for _, name := range []string{"local/d/m", "local/x", "localx/m", "outside/m"} {
		all = append(all, os.WriteFile(at(name), []byte(name), 0o600))
	}
	for name, target := range map[string]string{"local/in": "d", "local/abs": at("local/d/m"), "local/out": "../outside", "local/m": "../outside/m", "local/near": "../localx/m", "link": "local", "local/d/up": "../x"} {
		all = append(all, os.Symlink(target, at(name)))
	}
	if err := errors.Join(append(all, Confine(at("link")))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { confinement.Swap(nil).Close() })
	look := func(name string) error {
		f, err := Map(at(name), "m")
		if err == nil {
			f.Close()
		}
		for _, links := range []Links{Anywhere, Inside} {
			d, file, derr := Named(at(name), links)
			if derr == nil {
				var f File
				if f, derr = d.OpenFile(file); derr == nil {
					f.Close()
				}
				d.Close()
			}
			if errors.Is(derr, ErrLink) != errors.Is(err, ErrLink) {
				t.Errorf("%s: %v, by its directory %v", name, err, derr)
			}
		}
		return err
	}
	list := func(name string) error {
		d, err := Dir(at(name), Anywhere)
		if err != nil {
			return err
		}
		defer d.Close()
		_, err = d.ReadDir(".")
		return err
	}
	for name, inside := range map[string]bool{
		"local/d/m": true, "local/x": true, "local/in/m": true, "local/abs": true, "link/d/m": true, "local/d/up": true,
		"outside/m": false, "local/out/m": false, "local/m": false, "local/near": false, "localx/m": false, "local/../outside/m": false,
	} {
		if err := look(name); inside && err != nil || !inside && !errors.Is(err, ErrLink) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, inside := range map[string]bool{"local": true, "link": true, "local/in": true, ".": false, "outside": false, "local/out": false, "localx": false} {
		if err := list(name); inside && err != nil || !inside && !errors.Is(err, ErrLink) {
			t.Errorf("directory %s: %v", name, err)
		}
	}
	if err := errors.Join(os.Rename(at("local"), at("moved")), os.Rename(at("outside"), at("local"))); err != nil {
		t.Fatal(err)
	}
	if err := look("local/m"); !errors.Is(err, ErrLink) {
		t.Errorf("what came to the directory's path is read: %v", err)
	}
	if err := look("moved/x"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"nowhere", "moved/x"} {
		if Confine(at(name)) == nil {
			t.Errorf("confined to %s", name)
		}
	}
}
