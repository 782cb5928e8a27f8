package oci

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

// oras pushes the files of a model with the program oras, and returns the artifact's name.
func oras(t *testing.T, registry string, m testremote.Model) (repository string) {
	t.Helper()
	program := testremote.Program(t, "oras")
	dir := t.TempDir()
	if err := testmodel.Write(dir, m.Files); err != nil {
		t.Fatal(err)
	}
	repository = registry + "/pushed/" + m.Name
	args := []string{"push", "--plain-http", "--no-tty", "--artifact-type", "application/vnd.example.model", repository + ":v1"}
	for name := range m.Files {
		args = append(args, name+":application/octet-stream")
	}
	slices.Sort(args[6:])
	run(t, dir, program, args...)
	return repository
}

func run(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	c := exec.Command(program, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v: %s", program, args, err, out)
	}
}

// What the program oras pushed to the registry of Docker is a model of each shape.
func TestPushedByOras(t *testing.T) {
	d := newDistribution(t)
	for _, m := range testremote.Models(t, testdata) {
		t.Run(m.Name, func(t *testing.T) {
			repository := oras(t, d.host, m)
			environ(t, "")
			l, file, err := Open(t.Context(), Scheme+repository+":v1", options(t))
			if err != nil {
				t.Fatal(err)
			}
			testremote.Same(t, l, file, m.Local(t))
		})
	}
}

// A folder that oras pushed is an archive, which is unpacked.
func TestFolderPushedByOras(t *testing.T) {
	d := newDistribution(t)
	program := testremote.Program(t, "oras")
	for _, m := range testremote.Models(t, testdata) {
		t.Run(m.Name, func(t *testing.T) {
			dir := t.TempDir()
			if err := testmodel.Write(filepath.Join(dir, "folder"), m.Files); err != nil {
				t.Fatal(err)
			}
			name := d.host + "/folders/" + m.Name + ":v1"
			run(t, dir, program, "push", "--plain-http", "--no-tty", name, "folder")
			environ(t, "")
			o := options(t)
			if _, _, err := Open(t.Context(), Scheme+name, o); err == nil || !strings.Contains(err.Error(), "use --download, or run 'tensorfs fetch'") {
				t.Error(err)
			}
			o.Download = true
			l, file, err := Open(t.Context(), Scheme+name, o)
			if err != nil {
				t.Fatal(err)
			}
			testremote.Same(t, l, file, m.Local(t))
		})
	}
}

// counter stands before a registry and remembers which blobs it was asked for.
type counter struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func newCounter(t *testing.T, host string) *counter {
	c := &counter{}
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: host})
	to.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {} // of connections that are closed
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			c.mu.Lock()
			c.asked = append(c.asked, r.URL.Path)
			c.mu.Unlock()
		}
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *counter) blobs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

// The registry of Docker before another one, as the mirror of a cluster: what it has
// whole no node asks the other one for. What it has not yet it sends whole, whatever
// part is asked for, and that is read, too.
func TestMirror(t *testing.T) {
	origin := newDistribution(t)
	far := newCounter(t, origin.host)
	mirror := newDistribution(t, far.URL)
	program := testremote.Program(t, "oras")
	for _, m := range testremote.Models(t, testdata) {
		pushed, _, _ := strings.Cut(strings.TrimPrefix(oras(t, origin.host, m), origin.host+"/"), ":")
		name := mirror.host + "/" + pushed
		near := m.Local(t)
		node := func(t *testing.T) {
			t.Helper()
			environ(t, "")
			l, file, err := Open(t.Context(), Scheme+name+":v1", options(t))
			if err != nil {
				t.Fatal(err)
			}
			testremote.Same(t, l, file, near)
		}
		t.Run(m.Name, func(t *testing.T) {
			if m.Name == "split" {
				node(t) // it has not been fetched
			} else {
				run(t, t.TempDir(), program, "pull", "--plain-http", "--no-tty", name+":v1")
			}
			if len(far.blobs()) == 0 {
				t.Error("nobody asked the other registry: the test looks in the wrong place")
			}
			for _, b := range m.Files {
				testlimit.Wait(t, "blob in the mirror", func() bool { return mirror.has(digestOf(b)) })
			}
			before := far.blobs()
			for range 2 {
				node(t)
			}
			if more := far.blobs()[len(before):]; len(more) > 0 {
				t.Errorf("other nodes asked the other registry for %q", more)
			}
		})
	}
}

// has reports whether the registry has a blob whole.
func (d *distribution) has(digest string) bool {
	hex := strings.TrimPrefix(digest, "sha256:")
	_, err := os.Stat(filepath.Join(d.dir, "docker/registry/v2/blobs/sha256", hex[:2], hex, "data"))
	return err == nil
}
