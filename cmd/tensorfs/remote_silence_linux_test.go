package main

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// smallHub is a Hub without models, and a model to give to it.
func smallHub(t *testing.T) (*testhub.Hub, []byte) {
	t.Helper()
	h := testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	b, err := os.ReadFile(q8)
	if err != nil {
		t.Fatal(err)
	}
	return h, b
}

// Fetched models open while the Hub cannot be reached, and info, status, the mount's README and the
// log report this. If the Hub answers that the model is gone, it is gone.
func TestFetchedOpensInSilence(t *testing.T) {
	apart(t)
	needFUSE(t)
	h, b := smallHub(t)
	id := h.Commit("acme/tiny", map[string][]byte{"tiny-Q8_0.gguf": b})
	succeeds(t, "fetch", "hf:acme/tiny:tiny-Q8_0.gguf")
	if out := succeeds(t, "info", "hf:acme/tiny"); strings.Contains(out, "did not answer") {
		t.Errorf("info says %s", out)
	}
	for name, answer := range map[string]http.HandlerFunc{
		"no answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"busy":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			h.Break(func(w http.ResponseWriter, r *http.Request, _ bool) bool {
				answer(w, r)
				return true
			})
			out := succeeds(t, "info", "hf:acme/tiny")
			if !strings.Contains(out, id) || !strings.Contains(strings.Join(strings.Fields(out), " "), "the Hub did not answer") {
				t.Errorf("info says %s", out)
			}
			if out := succeeds(t, "info", "--json", "hf:acme/tiny"); !strings.Contains(out, `"warnings": [`) || !strings.Contains(out, "the Hub did not answer") {
				t.Errorf("info --json says %s", out)
			}
			if got := succeeds(t, "cat", "hf:acme/tiny", "source/tiny-Q8_0.gguf"); got != string(b) {
				t.Error("it differs")
			}
			log := filepath.Join(t.TempDir(), "log")
			dir := mountedFar(t, "hf:acme/tiny", "--log", log)
			readme, err := os.ReadFile(filepath.Join(dir, "README"))
			if err != nil || !strings.Contains(string(readme), "hf:acme/tiny@"+id) || !strings.Contains(string(readme), "the Hub did not answer") {
				t.Errorf("README says %s, %v", readme, err)
			}
			testlimit.Wait(t, "the log to say that the Hub did not answer", func() bool { // a goroutine of its own writes it
				text, err := os.ReadFile(log)
				return err == nil && strings.Contains(string(text), "the Hub did not answer")
			})
			if _, out, _ := command("status", "--json"); !strings.Contains(out, "hf:acme/tiny@"+id) || !strings.Contains(out, "the Hub did not answer") {
				t.Errorf("status says %s", out)
			}
			got, err := os.ReadFile(filepath.Join(dir, "source/tiny-Q8_0.gguf"))
			if err != nil || !bytes.Equal(got, b) {
				t.Errorf("%d bytes of %d, %v", len(got), len(b), err)
			}
		})
	}
	h.Break(nil)
	h.Private["acme/tiny"] = "a token that nobody has"
	failsWith(t, 1, []string{"info", "hf:acme/tiny"}, "hf:acme/tiny: by the Hub's answer there is no such model, or you may not see it")
}

// If no server answers, the error has the name as typed, what is local of it, and how to stay
// offline, but not the requested address.
func TestSilenceNames(t *testing.T) {
	apart(t)
	home := os.Getenv("HOME")
	gone := httptest.NewServer(nil)
	host := strings.TrimPrefix(gone.URL, "http://")
	gone.Close()
	t.Setenv("HF_ENDPOINT", gone.URL)
	t.Setenv("HF_HUB_CACHE", filepath.Join(home, "hub"))
	tags := filepath.Join(home, "ollama/manifests", host, "library/tiny")
	snapshot := filepath.Join(home, "hub/models--bart--Tiny-GGUF/snapshots/0123456789012345678901234567890123456789")
	refs := filepath.Join(home, "hub/models--bart--Tiny-GGUF/refs")
	b, err := os.ReadFile(q8)
	if err := errors.Join(err, os.MkdirAll(tags, 0o755), os.MkdirAll(filepath.Join(home, "ollama/blobs"), 0o755), os.MkdirAll(snapshot, 0o755), os.MkdirAll(refs, 0o755),
		os.WriteFile(filepath.Join(tags, "bf16"), nil, 0o644), os.WriteFile(filepath.Join(tags, "int4"), nil, 0o644),
		os.WriteFile(filepath.Join(refs, "main"), []byte(filepath.Base(snapshot)), 0o644), os.WriteFile(filepath.Join(snapshot, "Tiny-Q4_K_M.gguf"), b, 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"hf:foo/bar":                       {"hf:foo/bar: the Hub did not answer: ", "refuses connections; check the address", "; --offline asks no server"},
		"hf:bart/tiny-gguf":                {"hf:bart/tiny-gguf: the Hub did not answer: ", "; write it as hf:bart/Tiny-GGUF, or check", "; --offline asks no server"},
		"hf:bart/Tiny-GGUF:Q5_K_M":         {"hf:bart/Tiny-GGUF:Q5_K_M: the Hub did not answer: ", ", only Q4_K_M", "--offline asks no server"},
		"hf:bart/Tiny-GGU":                 {"hf:bart/Tiny-GGU: the Hub did not answer: ", "; did you mean hf:bart/Tiny-GGUF? If not, check", "--offline asks no server"},
		"ollama:" + host + "/library/tiny": {"ollama:" + host + "/library/tiny: the registry " + host + " did not answer: ", "has the tags bf16, int4, not latest; name one, such as ollama:" + host + "/library/tiny:", ", or ", "; --offline asks no server"},
	} {
		_, _, stderr := command("info", "--timeout", "1s", name)
		if strings.Contains(stderr, "http://") {
			t.Errorf("%q names what was asked", stderr)
		}
		failsWith(t, 1, []string{"info", "--timeout", "1s", name}, want...)
	}
}

// The address of a page of the Hub, and of a file of it, is the name of the model.
func TestHubPages(t *testing.T) {
	apart(t)
	h, b := smallHub(t)
	id := h.Commit("acme/tiny", map[string][]byte{"tiny-Q8_0.gguf": b, "other.gguf": b}, "main", "v1")
	for _, address := range []string{"/acme/tiny/blob/main/tiny-Q8_0.gguf", "/acme/tiny/resolve/v1/tiny-Q8_0.gguf?download=true"} {
		if out := succeeds(t, "info", h.URL+address); !strings.Contains(out, "\nrevision      "+id+"\n") {
			t.Errorf("%s is %s", address, out)
		}
	}
	failsWith(t, 1, []string{"info", h.URL + "/acme/tiny"}, "hf:acme/tiny: it has 2 GGUF models")
	failsWith(t, 1, []string{"info", h.URL + "/acme/tiny/tree/none"}, "hf:acme/tiny@none: the Hub has no such revision of it")
}

// On a terminal a command that has waited for a second prints what it waits for, until it
// continues; elsewhere, or if the wait is short, it prints nothing.
func TestAsking(t *testing.T) {
	apart(t)
	h, b := smallHub(t)
	h.Commit("acme/tiny", map[string][]byte{"tiny.gguf": b})
	info := func() (shown string) {
		return withTerminal(t, 80, func(tty *os.File) {
			var out bytes.Buffer
			if code := run([]string{"info", "hf:acme/tiny"}, &out, tty); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
	h.Delay(cli.Patience * 3 / 4) // for each of some requests
	shown := info()
	if !strings.Contains(shown, "\r\x1b[Kasking 127.0.0.1 ...") || !strings.HasSuffix(shown, "\r\x1b[K") || strings.Contains(shown, "\n") {
		t.Errorf("it shows %q", shown)
	}
	t.Run("mount", func(t *testing.T) {
		needFUSE(t)
		apart(t)
		t.Setenv("HF_ENDPOINT", h.URL)
		dir := mountDir(t)
		shown := withTerminal(t, 80, func(tty *os.File) {
			if code := run([]string{"mount", "hf:acme/tiny", dir}, &bytes.Buffer{}, tty); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
		if !strings.Contains(shown, "asking 127.0.0.1 ...") || !strings.HasSuffix(shown, "\r\x1b[K") {
			t.Errorf("it shows %q", shown)
		}
		succeeds(t, "umount", dir)
	})
	t.Setenv("TENSORFS_CACHE", t.TempDir())
	if code, _, stderr := command("info", "hf:acme/tiny"); code != 0 || stderr != "" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// Bytes that a server sends after the end of an answer are not read.
func TestUnsolicited(t *testing.T) {
	apart(t)
	b, err := os.ReadFile(q8)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		var first, last int
		if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); n != 2 {
			last = len(b) - 1
		}
		last = min(last, len(b)-1)
		fmt.Fprintf(conn, "HTTP/1.1 206 Partial Content\r\nETag: \"x\"\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n\r\n%sUNASKED FOR\r\n", first, last, len(b), last-first+1, b[first:last+1])
		time.Sleep(100 * time.Millisecond)
	}))
	defer s.Close()
	c := program(t, "stat", s.URL+"/m.gguf")
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	if err := c.Run(); err != nil || stderr.Len() > 0 || out.Len() == 0 {
		t.Errorf("%v, %q", err, stderr.String())
	}
}

// A password of ~/.netrc is sent only to its own host, over https.
func TestNetrcOverTLS(t *testing.T) {
	apart(t)
	home := os.Getenv("HOME")
	b, err := os.ReadFile(q8)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	}))
	defer s.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := errors.Join(os.WriteFile(filepath.Join(home, "ca.pem"), certificate, 0o600),
		os.WriteFile(filepath.Join(home, ".netrc"), []byte("machine 127.0.0.1 login me password secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", filepath.Join(home, "ca.pem"))
	info := func() (string, error) {
		c := program(t, "info", s.URL+"/m.gguf")
		var stderr bytes.Buffer
		c.Stderr = &stderr
		err := c.Run()
		return stderr.String(), err
	}
	if stderr, err := info(); err != nil || stderr != "" {
		t.Errorf("%v, %q", err, stderr)
	}
	if err := os.WriteFile(filepath.Join(home, ".netrc"), []byte("machine localhost login me password secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if stderr, err := info(); err == nil || !strings.Contains(stderr, "401 Unauthorized") {
		t.Errorf("%v, %q", err, stderr)
	}
}
