package gs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

// gcsServer starts fake-gcs-server with an empty bucket, and returns its address.
func gcsServer(t *testing.T) string {
	t.Helper()
	program := testremote.Program(t, "fake-gcs-server")
	dir, address := t.TempDir(), testremote.Address(t)
	if err := os.Mkdir(filepath.Join(dir, "models"), 0o700); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	testremote.Serve(t, address, exec.Command(program, "-scheme", "http", "-backend", "memory", "-host", host, "-port", port, "-data", dir))
	return address
}

// upload puts an object there.
func upload(t *testing.T, address, key string, data []byte) {
	t.Helper()
	resp, err := http.Post("http://"+address+"/upload/storage/v1/b/models/o?"+url.Values{"uploadType": {"media"}, "name": {key}}.Encode(), "application/octet-stream", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", resp.Status, b)
	}
}

// fake-gcs-server has models of each shape below names with odd letters, an object that is
// overwritten, and names that it does not have. It states checksums of all objects.
func TestGCSServer(t *testing.T) {
	address := gcsServer(t)
	o := func() Options {
		store, _ := testremote.Cache(t)
		return Options{Client: testremote.Client(t, 20*time.Second), Store: store, Env: func(name string) string { return map[string]string{emulate: address}[name] }}
	}
	for _, m := range testremote.Models(t, testdata) {
		for name, b := range m.Files {
			upload(t, address, odd+m.Name+"/"+name, b)
		}
		for _, name := range []string{nameOf(m), "gs://models/" + odd + m.Name + "/"} {
			l, file, err := Open(t.Context(), name, o())
			if err != nil {
				t.Fatal(err)
			}
			if file != m.Open {
				t.Errorf("%s: the model is %q", name, file)
			}
			for _, x := range l.Items() {
				if !strings.HasPrefix(x.ID.Digest, "md5:") {
					t.Errorf("%s has the digest %q", x.Name, x.ID.Digest)
				}
			}
			testremote.Same(t, l, file, m.Local(t))
		}
	}
	upload(t, address, "m.bin", make([]byte, 20<<20))
	read := opened(t, "gs://models/m.bin", o())
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	upload(t, address, "m.bin", append(make([]byte, 20<<20-1), 1))
	if err := read(19 << 20); !errors.Is(err, syscall.ESTALE) || !errors.Is(err, tensorfs.ErrChanged) {
		t.Errorf("overwritten: %v", err)
	}
	for name, want := range map[string]string{
		"gs://models/none":  "gs://models/none: there is no such object; ",
		"gs://models/none/": "gs://models/none: there are no objects whose names begin so; ",
		"gs://none/none":    "gs://none/none: there is no such object; ", // it does not tell the two apart
		"gs://none/":        "gs://none: there is no such bucket; ",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, _, err := Open(ctx, name, o()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
