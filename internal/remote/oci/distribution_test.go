package oci

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

// distribution is the registry of Docker, as Debian has it.
type distribution struct{ host, dir string }

// newDistribution starts it, as the mirror of another one if its address is given.
func newDistribution(t *testing.T, of ...string) *distribution {
	t.Helper()
	program := testremote.Program(t, "docker-registry")
	d := &distribution{testremote.Address(t), t.TempDir()}
	config := filepath.Join(t.TempDir(), "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog:\n  level: error\n  accesslog:\n    disabled: true\nstorage:\n  filesystem:\n    rootdirectory: %s\nhttp:\n  addr: %s\n", d.dir, d.host)
	for _, far := range of {
		text += "proxy:\n  remoteurl: " + far + "\n"
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	testremote.Serve(t, d.host, exec.Command(program, "serve", config))
	return d
}

// send makes a request that must succeed.
func (d *distribution) send(t testing.TB, method, address, mediaType string, body []byte) http.Header {
	t.Helper()
	req, err := http.NewRequest(method, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", mediaType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if said, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s: %s", method, address, resp.Status, said)
	}
	return resp.Header
}

func (d *distribution) blob(t testing.TB, repository string, data []byte) string {
	t.Helper()
	at, err := url.Parse(d.send(t, http.MethodPost, "http://"+d.host+"/v2/"+repository+"/blobs/uploads/", "", nil).Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	digest := digestOf(data)
	q := at.Query()
	q.Set("digest", digest)
	at.RawQuery = q.Encode()
	d.send(t, http.MethodPut, at.String(), "application/octet-stream", data)
	return digest
}

func (d *distribution) manifest(t testing.TB, repository, tag, mediaType string, text []byte) string {
	t.Helper()
	return d.send(t, http.MethodPut, "http://"+d.host+"/v2/"+repository+"/manifests/"+tag, mediaType, text).Get("Docker-Content-Digest")
}

// Row 22 against a real registry: all kinds of artifacts; what is compressed,
// leaves the directory or was changed is refused.
func TestDistribution(t *testing.T) {
	d := newDistribution(t) // before the user's cache is another
	environ(t, "")
	everyWay(t, d, d.host, func() int { return 0 })
	refused := func(name, want string) {
		t.Helper()
		if _, _, err := Open(t.Context(), Scheme+d.host+"/"+name, options(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	const gguf = "application/vnd.docker.ai.gguf.v3"
	push(t, d, "a/gzip", "latest", packed, modelPack, entry{"application/vnd.cncf.model.weight.v1.tar+gzip", []byte("x"), nil})
	refused("a/gzip", "its layer 1 is compressed (gzip)")
	push(t, d, "a/parent", "latest", "", dockerV2, entry{gguf, []byte("GGUF"), named("../x.gguf")})
	refused("a/parent", `"../x.gguf" is not the name of a file in a model`)
	digest := push(t, d, "a/changed", "latest", "", dockerV2, entry{gguf, []byte("GGUF"), named("x.gguf")})
	hex := strings.TrimPrefix(digest, "sha256:")
	file := filepath.Join(d.dir, "docker/registry/v2/blobs/sha256", hex[:2], hex, "data")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte("x.gguf"), []byte("y.gguf"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a/changed", "its manifest is not the one of its digest")
	refused("a/changed@"+digest, "its manifest is not the one of its digest")
	if _, _, err := Open(t.Context(), Scheme+d.host+"/a/none", options(t)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
