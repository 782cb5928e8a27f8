package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

// gateway starts versitygw with an empty bucket, and sets the environment for its
// user.
func gateway(t *testing.T) string {
	t.Helper()
	program := testremote.Program(t, "versitygw")
	dir, address := t.TempDir(), testremote.Address(t)
	if err := os.Mkdir(filepath.Join(dir, "models"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--port", address, "posix", dir)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+goodKey, "ROOT_SECRET_KEY="+goodSecret)
	testremote.Serve(t, address, cmd)
	setEnv(t, "AWS_ENDPOINT_URL", "http://"+address, "AWS_ACCESS_KEY_ID", goodKey, "AWS_SECRET_ACCESS_KEY", goodSecret)
	return "http://" + address
}

// upload puts an object there.
func upload(t *testing.T, server, key string, data []byte) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPut, server, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	req.URL = (endpoint{req.URL}).address("", "models", key)
	req.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	resp, err := http.DefaultClient.Do(signer.SignV4(*req, goodKey, goodSecret, "", "us-east-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", resp.Status, b)
	}
}

// Row 21 against a real server: signed; wrong secret; anonymous without permission; overwritten; a
// prefix with index and shards is one model.
func TestVersitygw(t *testing.T) {
	server := gateway(t)
	for _, m := range testremote.Models(t, testdata) {
		for name, b := range m.Files {
			upload(t, server, "some where/"+m.Name+"/"+name, b)
		}
		for _, name := range []string{nameOf(m), "s3://models/some where/" + m.Name + "/"} {
			l, file, err := Open(t.Context(), name, options(t))
			if err != nil {
				t.Fatal(err)
			}
			if file != m.Open {
				t.Errorf("%s: the model is %q", name, file)
			}
			testremote.Same(t, l, file, m.Local(t))
		}
	}
	upload(t, server, "m.bin", make([]byte, 20<<20))
	_, read := opened(t, "s3://models/m.bin", options(t))
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	upload(t, server, "m.bin", append(make([]byte, 20<<20-1), 1))
	if err := read(19 << 20); !errors.Is(err, syscall.ESTALE) || !errors.Is(err, tensorfs.ErrChanged) {
		t.Errorf("overwritten: %v", err)
	}
	refused := func(name, want string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, _, err := Open(ctx, name, options(t)); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused("s3://models/none", "s3://models/none: there is no such object; ")
	refused("s3://none/none", "s3://none/none: there is no such bucket; ")
	refused("s3://none/", "s3://none: there is no such bucket; ")
	t.Setenv("AWS_REGION", "eu-west-1")
	if _, _, err := Open(t.Context(), "s3://models/m.bin", options(t)); err != nil {
		t.Errorf("another region: %v", err)
	}
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	refused("s3://models/m.bin", "s3://models/m.bin: the secret key does not fit the access key; ")
	t.Setenv("AWS_ACCESS_KEY_ID", "hunter2")
	refused("s3://models/m.bin", "s3://models/m.bin: ") // in words of its own
	t.Setenv("AWS_NO_SIGN_REQUEST", "true")
	refused("s3://models/m.bin", "s3://models/m.bin: it is not public, or does not exist, and there are no credentials; ")
}
