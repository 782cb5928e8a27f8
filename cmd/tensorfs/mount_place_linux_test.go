package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// Each mount without a mount point has a directory of its own below the one that all have: a store, a model, and
// another model of the same name.
func TestPlaces(t *testing.T) {
	needFUSE(t)
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	t.Cleanup(func() {
		all, _ := filepath.Glob(dir + "/tensorfs/*")
		for _, at := range all {
			_ = mounts.Unmount(at, true) // it may be unmounted
		}
	})
	other := filepath.Join(t.TempDir(), filepath.Base(q8))
	b, err := os.ReadFile(q8)
	must(t, err)
	must(t, os.WriteFile(other, b, 0o600))
	want := map[string]string{"hf:": "hf", q8: "llama-xs.q8_0", other: "llama-xs.q8_0-2"}
	for _, model := range []string{"hf:", q8, other} {
		at := filepath.Join(dir, "tensorfs", want[model])
		if code, out, stderr := command("mount", model); code != 0 || out != at+"\n" || stderr != "" {
			t.Errorf("%s: %d, %q, %q; want %s", model, code, out, stderr, at)
		}
	}
	if code, _, stderr := command("mount", q8); code != 1 || !strings.Contains(stderr, "mounted") {
		t.Errorf("the same model again: %d, %q", code, stderr)
	}
	for _, name := range want {
		if code, _, stderr := command("umount", name); code != 0 || stderr != "" || isMounted(t, filepath.Join(dir, "tensorfs", name)) {
			t.Errorf("umount %s: %d, %q", name, code, stderr)
		}
	}
}

// A directory of the session that another user could change is not used for a mount.
func TestPlaceOfOthers(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(dir string) error
		want  string
	}{
		{"writable for others", func(dir string) error { return os.Chmod(dir, 0o777) }, "has mode 0777"},
		{"writable for a group", func(dir string) error { return os.Chmod(dir, 0o770) }, "has mode 0770"},
		{"of another user", func(dir string) error { return os.Chown(dir, 65534, -1) }, "belongs to user 65534"},
		{"a link", func(dir string) error {
			return errors.Join(os.Mkdir(dir+"-real", 0o700), os.Remove(dir), os.Symlink(dir+"-real", dir))
		}, "is a link"},
		{"a file", func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) }, "not a directory"},
		{"missing", os.Remove, "no such directory"},
		{"a link below it", func(dir string) error { return os.Symlink("/etc", dir+"/tensorfs") }, "is a link"},
		{"a directory for all below it", func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/tensorfs", 0o700), os.Chmod(dir+"/tensorfs", 0o777))
		}, "has mode 0777"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			must(t, os.Mkdir(dir, 0o700))
			if os.Geteuid() != 0 && c.name == "of another user" {
				t.Skip("only root gives a directory away")
			}
			must(t, c.spoil(dir))
			t.Setenv("XDG_RUNTIME_DIR", dir)
			if code, out, stderr := command("mount", q8); code != 2 || out != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%d, %q, %q; want %q", code, out, stderr, c.want)
			}
		})
	}
}

// TestMountOfMerge holds that the mount of a merge is named after its recipe.
func TestMountOfMerge(t *testing.T) {
	needFUSE(t)
	dir := t.TempDir()
	b, err := os.ReadFile(ggufDir + "llama-xs.f16.gguf")
	must(t, err)
	recipe := filepath.Join(dir, "recipe.yml")
	must(t, testmodel.Write(dir, map[string][]byte{
		"a.gguf": b, "b.gguf": b, "recipe.yml": []byte("merge_method: linear\nmodels:\n  - model: ./a.gguf\n    parameters: {weight: 1}\n  - model: ./b.gguf\n    parameters: {weight: 1}\n"),
	}))
	at := mounted(t, recipe)
	m, err := mounts.At(at)
	must(t, err)
	if m == nil || m.Source != recipe {
		t.Errorf("%+v, want the source %s", m, recipe)
	}
}
