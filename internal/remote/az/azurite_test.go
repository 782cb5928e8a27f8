package az

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

// azurite starts Microsoft's emulator with a container for everybody and one for the account, and
// returns its connection string and a function that puts blobs into both.
func azurite(t *testing.T) (connection string, upload func(key string, data []byte)) {
	t.Helper()
	program, err := exec.LookPath("azurite-blob")
	if err != nil || testing.Short() {
		t.Skip("NOT TESTED: azurite-blob is not in PATH (npm install azurite), or this is the short form")
	}
	address := testremote.Address(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--silent", "--disableTelemetry", "--inMemoryPersistence", "--blobHost", host, "--blobPort", port)
	cmd.Dir = t.TempDir()
	testremote.Serve(t, address, cmd)
	connection = fmt.Sprintf("AccountName=%s;AccountKey=%s;BlobEndpoint=http://%s/%s", developmentAccount, developmentKey, address, developmentAccount)
	a, err := ofConnection(connection)
	if err != nil {
		t.Fatal(err)
	}
	put := func(container, key string, query url.Values, header map[string]string, data []byte) {
		t.Helper()
		if len(data) > 0 {
			header["Content-Length"] = fmt.Sprint(len(data))
		}
		s := &store{access: a, container: container}
		req, err := s.request(t.Context(), http.MethodPut, key, query, header)
		if err != nil {
			t.Fatal(err)
		}
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
		if len(data) == 0 {
			req.Body = http.NoBody
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %s", resp.Status, b)
		}
	}
	containers := []string{"models", "open"}
	put(containers[0], "", url.Values{"restype": {"container"}}, map[string]string{}, nil)
	put(containers[1], "", url.Values{"restype": {"container"}}, map[string]string{"X-Ms-Blob-Public-Access": "container"}, nil)
	return connection, func(key string, data []byte) {
		for _, c := range containers {
			put(c, key, nil, map[string]string{"X-Ms-Blob-Type": "BlockBlob"}, data)
		}
	}
}

// Azurite has models of each shape below names with odd letters, a blob that is overwritten, and
// names that it does not have. It checks signatures, and states an MD5 of all blobs.
func TestAzurite(t *testing.T) {
	connection, upload := azurite(t)
	o := func(env map[string]string) Options {
		store, _ := testremote.Cache(t)
		return Options{Client: testremote.Client(t, 20*time.Second), Store: store, Env: func(name string) string { return env[name] }}
	}
	key := map[string]string{connectionSetting: connection}
	nobody := map[string]string{connectionSetting: connection, anonymousSetting: "true"}
	for _, m := range testremote.Models(t, testdata) {
		for name, b := range m.Files {
			upload(odd+m.Name+"/"+name, b)
		}
		for name, env := range map[string]map[string]string{"az://models/": key, "az://open/": nobody} {
			l, file, err := Open(t.Context(), name+odd+m.Name+"/", o(env))
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
	upload("m.bin", make([]byte, 20<<20))
	read := opened(t, "az://models/m.bin", o(key))
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	upload("m.bin", append(make([]byte, 20<<20-1), 1))
	if err := read(19 << 20); !errors.Is(err, syscall.ESTALE) || !errors.Is(err, tensorfs.ErrChanged) {
		t.Errorf("overwritten: %v", err)
	}
	wrong := map[string]string{connectionSetting: strings.Replace(connection, developmentKey, "aHVudGVyMg==", 1)}
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"az://models/none", key, "az://models/none: there is no such blob; "},
		{"az://models/none/", key, "az://models/none: there are no blobs whose names begin so; "},
		{"az://none/none/", key, "az://none/none: there is no such container; "},
		{"az://models/m.bin", wrong, "az://models/m.bin: the credentials, or the account's network rules, do not allow this request; "},
		{"az://models/m.bin", nobody, "az://models/m.bin: it is not public, or does not exist, and there are no credentials; "},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, _, err := Open(ctx, tt.name, o(tt.env)); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}
