package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// told listens as systemd does, and returns what servers say.
func told(t *testing.T) (socket string, next func() string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return socket, func() string {
		if err := c.SetReadDeadline(time.Now().Add(testlimit.Patience)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 4096)
		n, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

// A server gets secrets through a pipe, new ones later, and no other process sees them.
func TestSecretsByPipe(t *testing.T) {
	const first, second = "hf_firstS3CRET", "hf_secondS3CRET"
	_, config := hubModel()
	weights := testmodel.Safetensors([]testmodel.SafeTensor{{Name: "model.norm.weight", DType: tensorfs.F32, Shape: []int64{4 << 20}, Data: make([]byte, 16<<20)}}, nil)
	h := testhub.NewHub(t)
	h.Private["acme/tiny"] = first
	commit := h.Commit("acme/tiny", map[string][]byte{"config.json": config, "model.safetensors": weights}, "main")
	cache := t.TempDir()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	give := func(pipe, line string) {
		t.Helper()
		var f *os.File
		testlimit.Wait(t, "a server that listens", func() (ok bool) {
			var err error
			f, err = os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			return err == nil
		})
		defer f.Close()
		if _, err := f.WriteString(line + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	socket, next := told(t)
	dir := mountDir(t)
	p := program(t, "mount", "-f", "--secrets", pipe, "--cache", cache, "hf:acme/tiny@"+commit, dir)
	p.Env = append(p.Env, "HF_ENDPOINT="+h.URL, "TENSORFS_OFFLINE=", "NOTIFY_SOCKET="+socket)
	var said bytes.Buffer
	p.Stderr = &said
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	give(pipe, `{"token":"`+first+`"}`)
	if got := next(); got != "READY=1" {
		t.Fatalf("%s\n%s", got, &said)
	}
	for _, name := range []string{"cmdline", "environ"} {
		b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Process.Pid), name))
		if err != nil || bytes.Contains(b, []byte("S3CRET")) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	h.Private["acme/tiny"] = second
	give(pipe, `{"tokn":"`+second+`"}`) // which changes nothing
	give(pipe, `{"token":"`+second+`"}`)
	testlimit.Wait(t, "the second token", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "raw/output_norm.weight"))
		return err == nil && len(b) == 16<<20
	})
	if st := statusOf(t, dir); st.Counts == nil || st.Counts.Read["raw"] == 0 || st.Counts.Fetched == 0 {
		t.Errorf("it counted %+v", st.Counts)
	}

	// A server with another token sends requests with that token, although both servers use a cache that has
	// the complete model.
	other := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(other, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{nil, {"--offline"}} {
		q := program(t, append(append([]string{"mount", "-f", "--secrets", other, "--cache", cache}, words...), "hf:acme/tiny@"+commit, mountDir(t))...)
		q.Env = append(q.Env, "HF_ENDPOINT="+h.URL, "TENSORFS_OFFLINE=", "NOTIFY_SOCKET="+socket)
		if err := q.Start(); err != nil {
			t.Fatal(err)
		}
		give(other, `{"token":"hf_wrongS3CRET"}`)
		if got := next(); !strings.HasPrefix(got, "STATUS=hf:acme/tiny") || !strings.Contains(got, "ERRNO=") {
			t.Errorf("with another token %v: %s", words, got)
		}
		_ = q.Process.Kill() // it may have ended
		_ = q.Wait()         // with an error, by its exit code
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	unmounted(t, p, dir)
	if s := said.String(); strings.Contains(s, "S3CRET") || !strings.Contains(s, "want one JSON object a line") || !strings.Contains(s, "took other secrets") {
		t.Errorf("it said %s", s)
	}
}

// The command that started a server learns the kind of its error.
func TestNotifyFailed(t *testing.T) {
	h := testhub.NewHub(t)
	h.Private["acme/tiny"] = "a token that nobody has"
	h.Commit("acme/tiny", map[string][]byte{"config.json": []byte("{}")}, "main")
	broken, missing := filepath.Join(t.TempDir(), "broken.gguf"), filepath.Join(t.TempDir(), "missing.gguf")
	if err := os.WriteFile(broken, []byte("GGUF\x03\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		words []string
		no    syscall.Errno
		says  string
	}{
		{[]string{missing}, syscall.ENOENT, "missing.gguf"},
		{[]string{broken}, syscall.EBADMSG, "broken.gguf"},
		{[]string{"hf:acme/tiny"}, syscall.EACCES, "hf:acme/tiny"},
		{[]string{"--timeout", "1s", "http://127.0.0.1:1/x.gguf"}, syscall.EAGAIN, "127.0.0.1:1"},
		{[]string{"--secrets", broken, "hf:acme/tiny"}, 0, "not a pipe"},
	} {
		socket, next := told(t)
		p := program(t, append([]string{"mount", "-f", "--takeover", filepath.Join(t.TempDir(), "none"), "--cache", t.TempDir()}, append(tt.words, mountDir(t))...)...)
		p.Env = append(p.Env, "HF_ENDPOINT="+h.URL, "TENSORFS_OFFLINE=", "NOTIFY_SOCKET="+socket)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		got := next()
		_ = p.Wait() // with an error, by its exit code
		status, no, _ := strings.Cut(got, "\nERRNO=")
		if tt.no == 0 && no != "" || tt.no != 0 && no != strconv.Itoa(int(tt.no)) || !strings.HasPrefix(status, "STATUS=") || !strings.Contains(status, tt.says) {
			t.Errorf("%v: %q, want %d", tt.words, got, tt.no)
		}
	}
}
