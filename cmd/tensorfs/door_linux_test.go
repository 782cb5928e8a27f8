package main

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/testing/testhost"
	"github.com/tensorfs/tensorfs/internal/testing/testoptions"
	"github.com/tensorfs/tensorfs/metal"
)

// TestOptionsEverywhere: cat, export, a mount and the loader give the same bytes for every option
// of a model.
func TestOptionsEverywhere(t *testing.T) {
	ownStates(t)
	for _, c := range testoptions.Cases(t) {
		t.Run(filepath.Base(c.Model)+" "+strings.Join(c.Options, " "), func(t *testing.T) {
			code, want, stderr := command(append(append([]string{"cat"}, c.Flags()...), c.Model, c.File)...)
			if code != 0 {
				t.Fatal(stderr)
			}
			same := func(what string, b []byte) {
				t.Helper()
				if string(b) != want {
					t.Errorf("%s: %d bytes, %x, and cat has %d, %x", what, len(b), sha256.Sum256(b), len(want), sha256.Sum256([]byte(want)))
				}
			}
			out := filepath.Join(t.TempDir(), "out")
			if code, _, stderr := command(append(append([]string{"export"}, c.Flags()...), c.Model, out, c.File)...); code != 0 {
				t.Error(stderr)
			} else {
				b, err := os.ReadFile(filepath.Join(out, c.File))
				must(t, err)
				same("export", b)
			}
			t.Run("mount", func(t *testing.T) {
				if testing.Short() {
					t.Skip("not in the short form: it mounts each model")
				}
				b, err := os.ReadFile(filepath.Join(mounted(t, c.Model, c.Flags()...), c.File))
				must(t, err)
				same("mount", b)
			})
			l, err := metal.Open(c.Model, metal.Options{Device: testhost.New(t, testhost.Options{}), Convert: c.Convert(t)})
			must(t, err)
			defer l.Close()
			e, err := tensorfs.Find(l.Tree().Root, c.File)
			must(t, err)
			same("the loader's tree", catted(t, e.Data))
			view, _, _ := strings.Cut(c.File, "/")
			if view == "gguf" || !strings.HasSuffix(c.File, ".safetensors") {
				return
			}
			// The loader has the file's tensors as a view.
			file, err := safetensors.Parse(tensorfs.Bytes([]byte(want)))
			must(t, err)
			if n := len(l.Names(view)); n != len(file.Tensors) {
				t.Errorf("the loader has %d tensors of %s/, and the file %d", n, view, len(file.Tensors))
			}
			for _, x := range file.Tensors {
				b, err := l.Tensor(view, x.Name)
				must(t, err)
				if !bytes.Equal(b.Contents, catted(t, x.Data)) {
					t.Errorf("%s: other numbers", x.Name)
				}
				must(t, b.Release())
			}
		})
	}
}

// TestWrongOptionsEverywhere: the command and the loader refuse options in the same words.
func TestWrongOptionsEverywhere(t *testing.T) {
	for _, c := range testoptions.Wrongs(t) {
		code, _, stderr := command(append(append([]string{"cat"}, c.Flags()...), c.Model, c.File)...)
		want := map[bool]int{true: cli.ExitUsage, false: cli.ExitFailed}[c.Always]
		_, err := metal.Open(c.Model, metal.Options{Convert: c.Convert(t)})
		if err == nil || code != want || stderr != "tensorfs: "+err.Error()+"\n" || !strings.HasPrefix(err.Error(), c.Message) {
			t.Errorf("%q: exit code %d, %q, and the loader says %v", c.Options, code, stderr, err)
		}
	}
}
