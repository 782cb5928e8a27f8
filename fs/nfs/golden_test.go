package nfs

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"

	"github.com/tensorfs/tensorfs/internal/testing/testnfs"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
	"github.com/tensorfs/tensorfs/views/tree"
)

// goldenModels are trees of models of several formats, by name.
func goldenModels(t *testing.T) map[string]tensorfs.Dir {
	t.Helper()
	trees := map[string]tensorfs.Dir{}
	add := func(name string, m *tensorfs.Model) { trees[name] = tree.New(m, tree.Options{}).Root }
	for _, m := range testremote.Models(t, "../../testdata") {
		add(m.Name, m.Local(t))
	}
	for _, name := range []string{"gpt-oss.mxfp4.gguf", "llama-xs.bf16.gguf", "phi3.q4_k_m.gguf"} {
		m, err := formats.Open(filepath.Join("../../testdata/gguf", name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		add(name, m)
	}
	return trees
}

// content returns all bytes of Data.
func content(t *testing.T, d tensorfs.Data) []byte {
	t.Helper()
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGoldenModels holds every file of models, of every view, to the tree that is
// served.
func TestGoldenModels(t *testing.T) {
	for name, root := range goldenModels(t) {
		t.Run(name, func(t *testing.T) {
			c, h, s := mounted(t, root, Options{})
			served := map[string]bool{}
			err := c.Walk(h, func(path string, e testnfs.DirEntry) error {
				served[path] = true
				want, err := tensorfs.Find(root, path)
				if err != nil {
					return err
				}
				switch {
				case want.Dir != nil && e.Attr.Type != testnfs.Dir, want.Link != "" && e.Attr.Type != testnfs.Link:
					t.Errorf("%s has type %d", path, e.Attr.Type)
				case want.Link != "":
					if target, err := c.ReadLink(e.Handle); err != nil || target != want.Link {
						t.Errorf("%s leads to %q, %v", path, target, err)
					}
				case want.Data != nil:
					b, err := c.ReadAll(e.Handle, 100_003)
					if err != nil || !bytes.Equal(b, content(t, want.Data)) {
						t.Errorf("%s: %d bytes that differ, or %v", path, len(b), err)
					}
					if e.Attr.Size != uint64(len(b)) {
						t.Errorf("%s has %d bytes and says %d", path, len(b), e.Attr.Size)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			i := 0
			if err := tensorfs.Walk(root, func(path string, _ tensorfs.Entry) error {
				if !served[path] {
					t.Errorf("%s is not there", path)
				}
				i++
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if i != len(served) || i < 50 {
				t.Errorf("%d entries are served of %d", len(served), i)
			}
			if h := s.Health(); len(h.Errors) > 0 {
				t.Errorf("it complains: %+v", h.Errors)
			}
		})
	}
}

// libnfs runs a program of libnfs on a path below the root of a tree. Each program mounts again, so
// each has its own server.
func libnfs(t *testing.T, root tensorfs.Dir, program, path string, args ...string) string {
	t.Helper()
	s, address := serve(t, root, Options{})
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("nfs://127.0.0.1/%s/%s?nfsport=%s&mountport=%s", s.Token(), path, port, port)
	cmd := exec.Command(testremote.Program(t, program), append([]string{url}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s of %s: %v: %s%s", program, path, err, said.Bytes(), out)
	}
	if h := s.Health(); len(h.Errors) > 0 {
		t.Errorf("%s of %s: the server complains: %+v", program, path, h.Errors)
	}
	return string(out)
}

// TestLibnfs lets the programs of libnfs list and read a model.
func TestLibnfs(t *testing.T) {
	for _, program := range []string{"nfs-ls", "nfs-cp", "nfs-cat"} {
		testremote.Program(t, program) // skips without it
	}
	root := goldenModels(t)["llama-xs.bf16.gguf"]
	t.Run("nfs-ls", func(t *testing.T) {
		for _, dir := range []string{"", "f16", "metadata", "gguf"} {
			d := tensorfs.Entry{Dir: root}
			if dir != "" {
				var err error
				if d, err = tensorfs.Find(root, dir); err != nil {
					t.Fatal(err)
				}
			}
			lines := strings.Split(strings.TrimSpace(libnfs(t, root, "nfs-ls", dir)), "\n")
			names := map[string][]string{}
			for _, line := range lines {
				f := strings.Fields(line)
				names[f[len(f)-1]] = f
			}
			for i := range d.Dir.Len() {
				e := d.Dir.Entry(i)
				f, ok := names[e.Name]
				if !ok {
					t.Errorf("%s is not in %q", e.Name, dir)
				} else if e.Data != nil && (f[0] != "-r--r--r--" || f[4] != strconv.FormatInt(e.Data.Size(), 10)) {
					t.Errorf("%s: %q", e.Name, f)
				}
			}
			if len(lines) < d.Dir.Len() {
				t.Errorf("%d lines for %d files", len(lines), d.Dir.Len())
			}
		}
	})
	t.Run("nfs-cat", func(t *testing.T) {
		e, err := tensorfs.Find(root, "index.json")
		if err != nil {
			t.Fatal(err)
		}
		if got := libnfs(t, root, "nfs-cat", "index.json"); got != string(content(t, e.Data)) {
			t.Errorf("index.json has %d bytes that differ", len(got))
		}
	})
	t.Run("nfs-cp", func(t *testing.T) {
		copied := 0
		err := tensorfs.Walk(root, func(path string, e tensorfs.Entry) error {
			// One file of each directory, and all of one: each takes a server.
			if e.Data == nil || e.Data.Size() == 0 || !strings.HasPrefix(path, "fused-f16/") && !strings.HasSuffix(path, "norm.weight") && !strings.Contains(path, "model.gguf") {
				return nil
			}
			copied++
			to := filepath.Join(t.TempDir(), "copy")
			libnfs(t, root, "nfs-cp", path, to)
			if b, err := os.ReadFile(to); err != nil || !bytes.Equal(b, content(t, e.Data)) {
				t.Errorf("%s: %d bytes that differ, or %v", path, len(b), err)
			}
			return nil
		})
		if err != nil || copied < 10 {
			t.Errorf("%d files, %v", copied, err)
		}
	})
}
