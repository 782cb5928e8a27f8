package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
	"github.com/tensorfs/tensorfs/metal"
)

// TestSameEverywhere holds every way to a model's bytes to what tensorfs cat writes:
// the mount, an exported tree, NFS, and loaders of all these and of the model itself.
func TestSameEverywhere(t *testing.T) {
	needFUSE(t)
	ownStates(t)
	compared := map[string]int{} // files of a view, whole models and the rest
	for i, model := range allModels(t) {
		if testing.Short() && i%4 > 0 {
			continue // under the race detector all would take minutes
		}
		t.Run(filepath.Base(model), func(t *testing.T) {
			flags := &modelFlags{}
			flags.views = strings.Join(allViews, ",")
			tree, err := flags.open(model)
			must(t, err)
			defer tree.Model.Close()
			files, links := map[string][]byte{}, map[string]string{}
			all := 0
			must(t, tensorfs.Walk(tree.Root, func(path string, e tensorfs.Entry) error {
				all++
				if e.Link != "" {
					links[path] = e.Link
				} else if e.Data != nil {
					files[path] = catted(t, e.Data)
					top, _, _ := strings.Cut(path, "/")
					compared[top]++
				}
				return nil
			}))

			mount, export := mounted(t, model, "--views", flags.views), t.TempDir()
			// An exported tree has the views that are there by default.
			if code, _, stderr := command("export", model, export, "."); code != 0 || stderr != "" {
				t.Fatalf("export: exit code %d, %q", code, stderr)
			}
			if list := exported(t, export); len(list) < len(files)/2 {
				t.Errorf("%d files are exported of %d", len(list), len(files))
			}
			for path, want := range files {
				if got, err := os.ReadFile(filepath.Join(mount, path)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: the mount has %d bytes, %v; want %d", path, len(got), err, len(want))
				}
				got, err := os.ReadFile(filepath.Join(export, path))
				if optional := strings.HasPrefix(path, "npy-f32/") || namesModel(path); err != nil && !optional || err == nil && !optional && !bytes.Equal(got, want) {
					t.Errorf("%s: the export has %d bytes, %v; want %d", path, len(got), err, len(want))
				}
			}
			sameOverNFS(t, model, flags.views, all, files, links)
			for _, open := range []struct {
				name string
				in   func() (*metal.Loader, error)
			}{
				{"the model", func() (*metal.Loader, error) {
					return metal.Open(model, metal.Options{Views: allViews, CacheDir: t.TempDir()})
				}},
				{"the mount", func() (*metal.Loader, error) { return metal.Open(mount, metal.Options{}) }},
				{"the export", func() (*metal.Loader, error) { return metal.Open(export, metal.Options{}) }},
			} {
				l, err := open.in()
				if err != nil {
					t.Errorf("a loader of %s: %v", open.name, err)
					continue
				}
				sameInLoader(t, open.name, l, files)
				must(t, l.Close())
			}
		})
	}
	for _, view := range append(allViews, "gguf", "hf", "mlx", "config.json") {
		if compared[view] == 0 {
			t.Errorf("no file of %s was compared", view)
		}
	}
	t.Log(compared)
}

// sameOverNFS compares what tensorfs serve shows with all entries of a tree.
func sameOverNFS(t *testing.T, model, views string, all int, files map[string][]byte, links map[string]string) {
	t.Helper()
	c, at := servedNFS(t, model, "--views", views)
	client := dialNFS(t, at.Query().Get("nfsport"))
	root, err := client.Mount(at.Path)
	must(t, err)
	seen := 0
	must(t, client.Walk(root, func(path string, e testnfs.DirEntry) error {
		seen++
		switch e.Attr.Type {
		case testnfs.Link:
			if target, err := client.ReadLink(e.Handle); err != nil || target != links[path] {
				t.Errorf("%s links over NFS to %q, %v; want %q", path, target, err, links[path])
			}
		case testnfs.File:
			want, ok := files[path]
			if got, err := client.ReadAll(e.Handle, 1<<20); err != nil || !ok || !bytes.Equal(got, want) {
				t.Errorf("%s: over NFS it has %d bytes, %v; want %d", path, len(got), err, len(want))
			}
		}
		return nil
	}))
	if seen != all || all == 0 {
		t.Errorf("%d entries over NFS, %d in the tree", seen, all)
	}
	must(t, c.Process.Signal(syscall.SIGTERM))
	must(t, c.Wait())
}

// sameInLoader compares every tensor of every view that a loader has, each with the
// file of that name.
func sameInLoader(t *testing.T, what string, l *metal.Loader, files map[string][]byte) {
	t.Helper()
	tensors := 0
	for _, view := range l.Views() {
		for _, name := range l.Names(view) {
			tensors++
			want, ok := files[view+"/"+name]
			b, err := l.Tensor(view, name)
			if err != nil || !ok {
				t.Errorf("%s/%s in a loader of %s: %v; it is in the tree: %v", view, name, what, err, ok)
				continue
			}
			if err := b.View(func(got []byte) error {
				if !bytes.Equal(got, want) {
					t.Errorf("%s/%s: in a loader of %s it has %d bytes, from %v; want %d", view, name, what, len(got), b.Origin, len(want))
				}
				return nil
			}); err != nil {
				t.Errorf("%s/%s in a loader of %s: %v", view, name, what, err)
			}
			must(t, b.Release())
		}
	}
	if tensors == 0 {
		t.Errorf("a loader of %s has no tensors", what)
	}
}

// TestExportReplacedUnderALoader replaces an export by another model's while a loader has it open.
// The loader continues with its open files, and refuses to open others instead of mixing two
// models.
func TestExportReplacedUnderALoader(t *testing.T) {
	const model = ggufDir + "llama-xs.bf16.gguf"
	other := filepath.Join(t.TempDir(), "other.gguf")
	b, err := os.ReadFile(model)
	must(t, err)
	b[len(b)-1] ^= 1
	must(t, os.WriteFile(other, b, 0o600))
	for _, test := range []struct {
		name   string
		first  []string // what is exported before it is opened
		refuse bool     // files of f16/ are opened when they are asked for
	}{
		{"the tensors themselves", []string{"f16/*"}, false},
		{"beside the tensors", []string{"raw/*", "f16/*"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			export := func(args ...string) {
				t.Helper()
				if code, _, stderr := command(append([]string{"export"}, args...)...); code != 0 {
					t.Fatal(stderr)
				}
			}
			export(append([]string{model, dir}, test.first...)...)
			l, err := metal.Open(dir, metal.Options{})
			must(t, err)
			names := l.Names("f16")
			want := map[string][]byte{}
			for _, name := range names {
				want[name], err = os.ReadFile(filepath.Join(dir, "f16", name))
				must(t, err)
			}
			same := func(b metal.Buffer, name string) {
				t.Helper()
				must(t, b.View(func(p []byte) error {
					if !bytes.Equal(p, want[name]) {
						t.Errorf("%s: the bytes of another export", name)
					}
					return nil
				}))
				must(t, b.Release())
			}
			first, err := l.Tensor("f16", names[0])
			must(t, err)
			// More of the same model is no other export.
			export(model, dir, "raw/*")
			second, err := l.Tensor("f16", names[1])
			must(t, err)
			same(second, names[1])
			export("--force", other, dir, "f16/*")
			same(first, names[0])
			for _, name := range names {
				b, err := l.Tensor("f16", name)
				switch {
				case err == nil && !test.refuse:
					same(b, name)
				case err == nil || !test.refuse || !strings.Contains(err.Error(), "another export took the place of the one that was opened"):
					t.Errorf("%s: %v", name, err)
				}
			}
			must(t, l.Close())
		})
	}
}
