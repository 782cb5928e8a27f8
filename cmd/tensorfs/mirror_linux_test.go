package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmirror"
)

// hubConf is the file that docs/mirrors.md tells people to copy.
const hubConf = "../../docs/examples/nginx-hub.conf"

// node is another machine of a cluster, with a cache of its own.
func node(t *testing.T, mirror, token string) {
	t.Helper()
	apart(t)
	t.Setenv("HF_ENDPOINT", mirror)
	t.Setenv("HF_TOKEN", token)
}

// mirrored is a Hub with a model of the size of a small real one.
func mirrored(t *testing.T, tensors int, each int64) (h *testhub.Hub, commit string, file madeFile) {
	h, file = testhub.NewHub(t), newMadeFile(tensors, each)
	commit = h.Commit("org/m", map[string][]byte{
		"model.safetensors": file.all(), "config.json": []byte(`{"model_type": "llama"}`), "a file/with blanks?.json": []byte("{}"), "README.md": []byte("# M\n"),
	})
	return h, commit, file
}

// dataRequests are what the servers were asked for the bytes of files.
func dataRequests(h *testhub.Hub) (n int, bytes string) {
	var all []string
	for _, r := range h.Requests() {
		if r.Data || strings.Contains(r.Path, "/resolve-cache/") {
			all = append(all, r.Path+" "+r.Range)
		}
	}
	return len(all), strings.Join(all, "\n")
}

// What one node has read through the mirror, every other gets from it: by commands and
// mounted, to the byte.
func TestMirrorHub(t *testing.T) {
	const each = 5<<20 + 4711*8
	h, commit, file := mirrored(t, 3, each)
	m := testmirror.Hub(t, hubConf, h.URL)
	check := func(name string) {
		t.Helper()
		dir := mountedFar(t, name)
		for i := range 3 {
			got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("raw/t%d", i)))
			if err != nil || !bytes.Equal(got, file.tensor(i, each, 0, each)) {
				t.Errorf("%s: tensor %d has wrong bytes, %v", name, i, err)
			}
		}
		if got := succeeds(t, "cat", name, "raw/t1"); got != string(file.tensor(1, each, 0, each)) {
			t.Errorf("%s: tensor 1 has wrong bytes", name)
		}
	}
	node(t, m.URL, "")
	check("hf:org/m@" + commit)
	if n, asked := dataRequests(h); n != int(file.size>>20)+1+1 { // and config.json
		t.Errorf("the first node made %d requests for data:\n%s", n, asked)
	}
	if sent := h.Sent(); sent < file.size || sent > file.size+file.size/20 {
		t.Errorf("%d bytes were sent for %d", sent, file.size)
	}
	for _, r := range h.Requests() {
		if !r.Data && !strings.Contains(r.Agent, "tensorfs") {
			t.Errorf("the Hub is not told who asks: %+v", r)
		}
	}
	first := loggedData(t, m)
	if !strings.Contains(first, " MISS ") {
		t.Errorf("the log is\n%s", first)
	}
	h.Reset()
	for _, name := range []string{"hf:org/m@" + commit, "hf:org/m"} {
		node(t, m.URL, "")
		check(name)
		succeeds(t, "fetch", name)
	}
	// The remaining small files, which have not been read yet.
	if n, asked := dataRequests(h); n != 2 || strings.Contains(asked, "config.json") {
		t.Errorf("other nodes made %d requests for data:\n%s", n, asked)
	}
	if sent := h.Sent(); sent > 16<<10 {
		t.Errorf("%d bytes were sent for other nodes", sent)
	}
	if more := strings.TrimPrefix(loggedData(t, m), first); strings.Contains(more, " MISS ") || !strings.Contains(more, " HIT ") {
		t.Errorf("of other nodes the log says\n%s", more)
	}
	// If the Hub cannot be reached, files that were read before can still be read.
	h.Break(func(w http.ResponseWriter, _ *http.Request, _ bool) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	node(t, m.URL, "")
	check("hf:org/m@" + commit)
}

// loggedData is the log about the model's data: docs/mirrors.md shows it.
func loggedData(t *testing.T, m *testmirror.Mirror) string {
	t.Helper()
	b, err := os.ReadFile(m.Log)
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "/model.safetensors\" bytes=") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// A token opens only the models that the Hub allows it to read, and answers to it are not reused
// for other users; storage never sees the token, and it is not kept on disk.
func TestMirrorTokens(t *testing.T) {
	const each = 3 << 20
	for _, kind := range []string{"private", "gated"} {
		t.Run(kind, func(t *testing.T) {
			h, commit, file := mirrored(t, 1, each)
			want := "hf:org/m: by the Hub's answer there is no such model, or you may not see it; check the name"
			if kind == "gated" {
				h.Gated["org/m"], h.Granted["org/m"] = true, "hf_right"
				want = "the model is gated"
			} else {
				h.Private["org/m"] = "hf_right"
			}
			m := testmirror.Hub(t, hubConf, h.URL)
			refused := func(when string) {
				t.Helper()
				for _, token := range []string{"", "hf_wrong"} {
					node(t, m.URL, token)
					code, out, stderr := command("cat", "hf:org/m", "raw/t0")
					if code != 1 || out != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
						t.Errorf("%s, token %q: exit code %d, %d bytes, %q", when, token, code, len(out), stderr)
					}
				}
			}
			reads := func() {
				t.Helper()
				node(t, m.URL, "hf_right")
				if got := succeeds(t, "cat", "hf:org/m", "raw/t0"); got != string(file.tensor(0, each, 0, each)) {
					t.Error("wrong bytes")
				}
			}
			confused := confusedPaths(t, h, commit)
			refused("at first")
			confused(m.URL, file.head)
			h.Reset()
			reads()
			for _, r := range h.Requests() {
				if r.Data && r.Authorization != "" {
					t.Errorf("storage was sent %q", r.Authorization)
				}
			}
			h.Reset()
			refused("when all of it is in the mirror")
			confused(m.URL, file.head)
			reads()
			if n, asked := dataRequests(h); n > 0 {
				t.Errorf("data was asked for again:\n%s", asked)
			}
			mirrorKeeps(t, m, "hf_right")
		})
	}
}

// An answer of the Hub is valid for longer while the Hub cannot be reached, but not if it answers
// differently: a withdrawn token soon opens nothing.
func TestMirrorLater(t *testing.T) {
	const each = 1 << 20
	h, _, file := mirrored(t, 1, each)
	h.Private["org/m"] = "hf_right"
	m := testmirror.Hub(t, hubConf, h.URL, "308 10m;", "308 1s;", "200 1m;", "200 1s;", "404 10s;", "404 1s;")
	reads := func() (ok bool, stderr string) {
		t.Helper()
		node(t, m.URL, "hf_right")
		code, out, stderr := command("cat", "hf:org/m", "raw/t0")
		if code == 0 && out != string(file.tensor(0, each, 0, each)) || code != 0 && out != "" {
			t.Fatalf("exit code %d, %d bytes", code, len(out))
		}
		return code == 0, stderr
	}
	must := func(when string) {
		t.Helper()
		if ok, stderr := reads(); !ok {
			t.Fatalf("%s: %s", when, stderr)
		}
	}
	must("at first")
	h.Break(func(w http.ResponseWriter, _ *http.Request, _ bool) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	h.Reset()
	testlimit.Wait(t, "question of the mirror whether its answers are still right", func() bool {
		must("while the Hub is away")
		return h.Count("/resolve/") > 0 && h.Count("/revision/") > 0
	})
	h.Private["org/m"] = "hf_new"
	h.Break(nil)
	testlimit.Wait(t, "end of a token that was withdrawn", func() bool {
		ok, stderr := reads()
		if !ok && !strings.Contains(stderr, "you may not see it") {
			t.Fatal(stderr)
		}
		return !ok
	})
}

// mirrorKeeps holds that no file on the disk has a token or the address of data.
func mirrorKeeps(t *testing.T, m *testmirror.Mirror, token string) {
	t.Helper()
	has := func(dir string) (n int) {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if bytes.Contains(b, []byte(token)) || bytes.Contains(b, []byte("sig=")) {
				n++
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return n
	}
	if has(m.Answers) == 0 {
		t.Error("the answers have no token: this looks in the wrong place")
	}
	for _, path := range []string{m.Data, m.Log, m.Errors} {
		if n := has(path); n > 0 {
			t.Errorf("%s has a token or an address in %d files", path, n)
		}
	}
}

// confusedPaths gives the Hub a file whose address nginx shortens to the address of another
// repository. The returned function requests it, with a cookie, and holds that the answer is the
// Hub's, and that the Hub sees no cookie.
func confusedPaths(t *testing.T, h *testhub.Hub, commit string) func(mirror string, secret []byte) {
	const path = "../../../../org/m/resolve/"
	mine := h.Commit("me/mine", map[string][]byte{path + commit + "/model.safetensors": []byte("what everybody may read")})
	h.Break(func(_ http.ResponseWriter, r *http.Request, _ bool) bool {
		if len(r.Cookies()) > 0 || r.Header.Get("X-Other") != "" {
			t.Errorf("%s came with %v", r.URL.Path, r.Header)
		}
		return false
	})
	return func(mirror string, secret []byte) {
		t.Helper()
		host := strings.TrimPrefix(mirror, "http://")
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /me/mine/resolve/%s/%s%s/model.safetensors HTTP/1.1\r\nHost: %s\r\nCookie: token=hf_right\r\nX-Other: 1\r\nRange: bytes=0-99\r\nConnection: close\r\n\r\n", mine, path, commit, host)
		said, err := io.ReadAll(c)
		if err != nil || !bytes.HasSuffix(said, []byte("what everybody may read")) || bytes.Contains(said, secret[:8]) {
			t.Errorf("the answer is %q, %v", said, err)
		}
	}
}
