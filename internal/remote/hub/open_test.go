package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

const token = "hf_testsecret"

// machine is one that asks a Hub.
type machine struct {
	*testremote.Machine
	o Options
}

func newMachine(t testing.TB, h *testhub.Hub) *machine {
	t.Helper()
	m := &machine{Machine: testremote.NewMachine(t)}
	m.Env["HF_ENDPOINT"] = h.URL + "/"
	m.o = Options{Client: m.Client, Store: m.Store, Env: m.Getenv}
	return m
}

// restart is another process there.
func (m *machine) restart(t testing.TB) {
	t.Helper()
	m.Restart(t, time.Minute)
	m.o.Client, m.o.Store = m.Client, m.Store
}

func (m *machine) open(name, revision string) (*remote.Listing, string, error) {
	return Open(context.Background(), name, revision, m.o)
}

// mustOpen opens what is there.
func (m *machine) mustOpen(t testing.TB, name, revision string) *remote.Listing {
	t.Helper()
	l, rest, err := m.open(name, revision)
	if err != nil || rest != "" {
		t.Fatalf("%s@%s: %v, rest %q", name, revision, err, rest)
	}
	return l
}

// readParts reads a file as readers of tensors do: by several ranges.
func readParts(l *remote.Listing, name string) ([]byte, error) {
	f, err := l.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, b := f.Section(0, f.Size()), make([]byte, f.Size())
	for off := 0; off < len(b); off += 1 << 20 {
		if err := tensorfs.ReadFull(d, b[off:min(off+1<<20, len(b))], int64(off)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// pattern is the content of a large file.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*7 ^ byte(i>>16)*31 ^ seed
	}
	return b
}

// secret reports whether a text has something that must not be shown.
func secret(s string) bool {
	return strings.Contains(s, token) || strings.Contains(s, "secret") || strings.Contains(s, "sig=")
}

// A process that is given another token uses it for the next request.
func TestTokenChanges(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	h.Private["org/name"] = token
	h.Commit("org/name", map[string][]byte{"a.gguf": pattern(9<<20, 1), "b.gguf": pattern(9<<20, 2)}, "main")
	m := newMachine(t, h)
	m.Env["HF_TOKEN"] = token
	l := m.mustOpen(t, "org/name", "")
	if _, err := readParts(l, "a.gguf"); err != nil {
		t.Fatal(err)
	}
	h.Private["org/name"] = token + "2"
	if _, err := readParts(l, "b.gguf"); !errors.Is(err, syscall.EACCES) {
		t.Errorf("with the old token: %v", err)
	}
	m.Env["HF_TOKEN"] = token + "2"
	if _, err := readParts(l, "b.gguf"); err != nil {
		t.Error(err)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	files := map[string][]byte{
		"config.json": []byte(`{"model_type":"llama"}`), "model.safetensors": pattern(3<<20+77, 1),
		"a dir/50%#?.gguf": pattern(200_000, 2), "empty.txt": {}, "unet/é.json": []byte("{}"),
	}
	id := h.Commit("org/name", files, "main", "refs/pr/1", "a branch/with%signs")
	m := newMachine(t, h)
	for _, revision := range []string{"", "main", "refs/pr/1", "a branch/with%signs", id} {
		l := m.mustOpen(t, "org/name", revision)
		if want := "hf:org/name@" + id; l.Name != want || l.Location("config.json") != want+"/config.json" {
			t.Errorf("%s: it is called %s", revision, l.Name)
		}
		for name, want := range files {
			if got, err := testremote.Read(l, name); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		}
	}
	if n := h.Count("/tree/"); n != 1 {
		t.Errorf("the files of one commit were listed %d times", n)
	}
	h.Reset()
	m.restart(t)
	for _, x := range m.mustOpen(t, "org/name", id).Items() {
		if want := testhub.Key(x.Name, files[x.Name]); x.ID.Digest != want || x.ID.Key != want || x.ID.Size != int64(len(files[x.Name])) {
			t.Errorf("%s is %+v", x.Name, x.ID)
		}
	}
	if r := h.Requests(); len(r) != 0 {
		t.Errorf("a commit that is known was asked for: %v", r)
	}
}

func TestPathAfterRevision(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	h.Commit("org/name", map[string][]byte{"unet/model.safetensors": pattern(1000, 1)}, "main", "refs/pr/1")
	m := newMachine(t, h)
	for range 2 {
		for given, want := range map[string]string{"refs/pr/1": "", "refs/pr/1/unet": "unet", "main/unet/model.safetensors": "unet/model.safetensors"} {
			l, rest, err := m.open("org/name", given)
			if err != nil || rest != want || l == nil {
				t.Errorf("%s: rest %q, %v", given, rest, err)
			}
		}
		m.o.Offline = "--offline"
	}
	if _, _, err := m.open("org/name", "no/such/branch"); err == nil || !strings.Contains(err.Error(), "hf:org/name@no/such/branch: not on this machine, and --offline forbids asking for it") {
		t.Error(err)
	}
	m.o.Offline = ""
	if _, _, err := m.open("org/name", "no/such/branch"); err == nil || !strings.HasPrefix(err.Error(), "hf:org/name@no/such/branch: the Hub has no such revision") {
		t.Error(err)
	}
}

// Pages of 1,000 entries are followed by the query of their Link.
func TestPages(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	files := map[string][]byte{}
	for i := range 2345 {
		files[fmt.Sprintf("dir%d/file%04d.json", i%3, i)] = []byte("{}")
	}
	h.Commit("org/name", files)
	m := newMachine(t, h)
	if l := m.mustOpen(t, "org/name", ""); len(l.Items()) != len(files) {
		t.Errorf("%d files of %d", len(l.Items()), len(files))
	}
	if n := h.Count("/tree/"); n != 3 {
		t.Errorf("%d pages", n)
	}
}

// Row 16: the server with the data gets no credentials, and a file is resolved once,
// however many ranges are read.
func TestCredentialsAndOneResolve(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	h.Private["org/name"] = token
	model := pattern(40<<20, 3)
	h.Commit("org/name", map[string][]byte{"config.json": []byte("{}"), "model.safetensors": model})
	m := newMachine(t, h)
	m.Env["HF_TOKEN"] = token + "\n"
	l := m.mustOpen(t, "org/name", "")
	f, err := l.OpenFile("model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := f.Section(0, f.Size())
	var wg sync.WaitGroup
	for reader := range int64(8) {
		wg.Go(func() {
			b := make([]byte, 1<<20)
			for off := reader << 20; off < d.Size(); off += 8 << 20 {
				if err := tensorfs.ReadFull(d, b, off); err != nil || !bytes.Equal(b, model[off:off+int64(len(b))]) {
					t.Errorf("at %d: %v", off, err)
				}
			}
		})
	}
	wg.Wait()
	if _, err := testremote.Read(l, "config.json"); err != nil {
		t.Error(err)
	}
	if n := h.Count("/resolve/"); n != 2 {
		t.Errorf("two files were resolved %d times", n)
	}
	if n := h.Count("/api/resolve-cache/"); n != 1 {
		t.Errorf("a small file, which the Hub has itself, was asked for %d times", n)
	}
	ranges := 0
	for _, r := range h.Requests() {
		want := "Bearer " + token
		if r.Data {
			want = ""
			ranges++
		}
		if r.Authorization != want {
			t.Errorf("%s got Authorization %q", r.Path, r.Authorization)
		}
	}
	if ranges < 5 {
		t.Errorf("only %d ranges", ranges)
	}
}

// Row 17: an address that ends is resolved once more, and a file is refused only if
// that does not help.
func TestAddressEnds(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusGone} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			h := testhub.NewHub(t)
			model := pattern(64<<20, 4)
			h.Commit("org/name", map[string][]byte{"model.safetensors": model})
			var mu sync.Mutex
			ended, ranges := false, 0
			h.Break(func(w http.ResponseWriter, r *http.Request, data bool) bool {
				mu.Lock()
				defer mu.Unlock()
				if ranges++; !data || ranges <= 3 || ended && !strings.HasSuffix(r.URL.RawQuery, "sig=secret1") {
					return false
				}
				ended = true
				w.WriteHeader(status)
				return true
			})
			m := newMachine(t, h)
			l := m.mustOpen(t, "org/name", "")
			ranges = 0
			got, err := readParts(l, "model.safetensors")
			if err != nil || !bytes.Equal(got, model) || !ended {
				t.Errorf("%v, ended: %v", err, ended)
			}
			if n := h.Count("/resolve/"); n != 2 {
				t.Errorf("it was resolved %d times", n)
			}
		})
	}
	t.Run("for good", func(t *testing.T) {
		h := testhub.NewHub(t)
		h.Commit("org/name", map[string][]byte{"model.safetensors": pattern(100_000, 4)})
		h.Break(func(w http.ResponseWriter, r *http.Request, data bool) bool {
			if data {
				w.WriteHeader(http.StatusForbidden)
			}
			return data
		})
		m := newMachine(t, h)
		_, err := testremote.Read(m.mustOpen(t, "org/name", ""), "model.safetensors")
		if !errors.Is(err, syscall.EACCES) || secret(err.Error()) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		}
		if n := h.Count("/resolve/"); n != 2 {
			t.Errorf("it was resolved %d times", n)
		}
	})
}

// Row 19: what the Hub refuses, in one line.
func TestRefusals(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	files := map[string][]byte{"config.json": []byte("{}"), "model.safetensors": pattern(1000, 1)}
	for _, name := range []string{"org/name", "org/private", "org/gated", "org/new", "org/busy"} {
		h.Commit(name, files)
	}
	h.Private["org/private"] = token
	h.Gated["org/gated"] = true
	h.Renamed["org/old"] = "org/new"
	h.Break(func(w http.ResponseWriter, r *http.Request, _ bool) bool {
		busy := strings.Contains(r.URL.Path, "org/busy")
		switch {
		case busy:
			w.Header().Set("RateLimit", `"api";r=0;t=54`)
			w.WriteHeader(http.StatusTooManyRequests)
		case strings.Contains(r.URL.Path, "org/echo"):
			w.Header().Set("X-Error-Message", "no "+r.Header.Get("Authorization"))
			w.WriteHeader(http.StatusForbidden)
		default:
			return false
		}
		return true
	})
	for _, tt := range []struct {
		name, revision, token, want string
		kind                        error
	}{
		{"org/none", "", "", "hf:org/none: by the Hub's answer there is no such model, or you may not see it; check the name, or set HF_TOKEN", fs.ErrPermission},
		{"org/private", "", "", "hf:org/private: by the Hub's answer there is no such model, or you may not see it; check the name, or set HF_TOKEN", fs.ErrPermission},
		{"org/private", "", "hf_wrongsecret", "hf:org/private: by the Hub's answer there is no such model, or you may not see it; check the name, and whether the token is valid", fs.ErrPermission},
		{"org/private", "", token, "", nil},
		{"org/gated", "", "", "/config.json: the model is gated; accept its terms on the model's page, and set HF_TOKEN", syscall.EACCES},
		{"org/gated", "", token, "/config.json: the model is gated and this token has no access; accept its terms on the model's page", syscall.EACCES},
		{"org/name", "v9", "", "hf:org/name@v9: the Hub has no such revision of it; check the branch or tag; a commit needs all of its 40 digits", fs.ErrNotExist},
		{"org/busy", "", "", "hf:org/busy: the Hub limits requests; try again in 55 s, or set HF_TOKEN", syscall.EAGAIN},
		{"org/echo", "", token, "hf:org/echo: the Hub refuses to show it; check what the token may read", fs.ErrPermission},
		{"org/old", "", "", "", nil},
	} {
		t.Run(tt.name+tt.revision, func(t *testing.T) {
			m := newMachine(t, h)
			m.Env["HF_TOKEN"] = tt.token
			l, _, err := m.open(tt.name, tt.revision)
			if err == nil {
				_, err = testremote.Read(l, "config.json")
			}
			if err == nil && tt.want == "" {
				if _, err = testremote.Read(l, "model.safetensors"); err == nil {
					return
				}
			}
			if err == nil || tt.want == "" || !strings.HasSuffix(err.Error(), tt.want) || !errors.Is(err, tt.kind) || secret(err.Error()) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
	if n := h.Count("/org/old/"); n != 1 {
		t.Errorf("the old name was asked for %d times", n)
	}
}

// The Hub limits how often files are resolved, and states for how long.
func TestLimited(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	model := pattern(1000, 1)
	h.Commit("org/name", map[string][]byte{"model.safetensors": model})
	var asked []time.Time
	h.Break(func(w http.ResponseWriter, r *http.Request, _ bool) bool {
		if !strings.Contains(r.URL.Path, "/resolve/") {
			return false
		}
		if asked = append(asked, time.Now()); len(asked) > 1 {
			return false
		}
		w.Header().Set("RateLimit", `"resolvers";r=0;t=0`)
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	m := newMachine(t, h)
	if got, err := testremote.Read(m.mustOpen(t, "org/name", ""), "model.safetensors"); err != nil || !bytes.Equal(got, model) {
		t.Error(err)
	}
	if len(asked) != 2 || asked[1].Sub(asked[0]) < time.Second {
		t.Errorf("asked at %v", asked)
	}
}

// Row 20: what is open stays as it is when main moves; who opens it again gets the
// new commit, and equal files are not sent again.
func TestMainMoves(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	one := map[string][]byte{"config.json": []byte(`{"a":1}`), "same.safetensors": pattern(2<<20, 1), "model.safetensors": pattern(2<<20, 2)}
	two := map[string][]byte{"config.json": []byte(`{"a":2}`), "renamed.safetensors": one["same.safetensors"], "model.safetensors": pattern(2<<20, 3)}
	old := h.Commit("org/name", one)
	m := newMachine(t, h)
	mounted := m.mustOpen(t, "org/name", "")
	if _, err := testremote.Read(mounted, "same.safetensors"); err != nil {
		t.Fatal(err)
	}
	now := h.Commit("org/name", two)
	for name, want := range one {
		if got, err := testremote.Read(mounted, name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s of what is open: %v", name, err)
		}
	}
	h.Reset()
	l := m.mustOpen(t, "org/name", "")
	if mounted.Name != "hf:org/name@"+old || l.Name != "hf:org/name@"+now {
		t.Errorf("%s and %s", mounted.Name, l.Name)
	}
	for name, want := range two {
		if got, err := testremote.Read(l, name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if sent := h.Sent(); sent > 2<<20+16<<10 {
		t.Errorf("%d bytes were sent for a new file of 2 MiB", sent)
	}
	if n := h.Count("renamed"); n != 0 {
		t.Errorf("the same file by another name was asked for %d times", n)
	}
}

// Offline opens what was opened before, and reads what came, without a request.
func TestOffline(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	h.Commit("org/name", map[string][]byte{"config.json": []byte("{}"), "model.safetensors": pattern(4<<20, 1)})
	m := newMachine(t, h)
	l := m.mustOpen(t, "org/name", "")
	if _, err := testremote.Read(l, "config.json"); err != nil {
		t.Fatal(err)
	}
	h.Reset()
	for _, how := range []string{"--offline", "HF_HUB_OFFLINE"} {
		m.restart(t)
		m.o.Offline = how
		l := m.mustOpen(t, "org/name", "")
		if b, err := testremote.Read(l, "config.json"); err != nil || string(b) != "{}" {
			t.Errorf("%q, %v", b, err)
		}
		want := ": not on this machine, and " + how + " forbids asking for it; run 'tensorfs fetch' on it when it is allowed"
		if _, err := testremote.Read(l, "model.safetensors"); err == nil || !strings.HasSuffix(err.Error(), "/model.safetensors"+want) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%v", err)
		}
		if _, _, err := m.open("org/other", ""); err == nil || err.Error() != "hf:org/other"+want {
			t.Errorf("%v", err)
		}
	}
	if r := h.Requests(); len(r) > 0 {
		t.Errorf("it was asked for %v", r)
	}
}

// Blobs that Hugging Face's own programs have downloaded are read in place.
func TestBeside(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	files := map[string][]byte{"config.json": []byte("{}"), "model.safetensors": pattern(2<<20, 1), "b.gguf": pattern(1<<20, 2), "c.gguf": pattern(1<<20, 3)}
	h.Commit("org/name", files)
	dir := t.TempDir()
	blobs := filepath.Join(dir, "models--org--name", "blobs")
	if err := os.MkdirAll(blobs, 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(name string, b []byte) {
		_, id, _ := strings.Cut(testhub.Key(name, files[name]), ":")
		if err := os.WriteFile(filepath.Join(blobs, id), b, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	put("config.json", files["config.json"])
	put("model.safetensors", files["model.safetensors"])
	put("b.gguf", files["b.gguf"][:1000]) // broken off, under its full name
	_, id, _ := strings.Cut(testhub.Key("c.gguf", files["c.gguf"]), ":")
	if err := os.Symlink("/dev/zero", filepath.Join(blobs, id)); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, h)
	m.o.HubCache = dir
	l := m.mustOpen(t, "org/name", "")
	for name, want := range files {
		if got, err := testremote.Read(l, name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]bool{"config.json": false, "model.safetensors": false, "b.gguf": true, "c.gguf": true} {
		if asked := h.Count("/"+name) > 0; asked != want {
			t.Errorf("%s was asked for: %v", name, asked)
		}
	}
}

// The Hub's answer about a file when it is resolved has to match the listing.
func TestAnotherFile(t *testing.T) {
	t.Parallel()
	for name, header := range map[string][2]string{
		"size":   {"X-Linked-Size", "7"},
		"digest": {"X-Linked-ETag", `"` + strings.Repeat("0", 64) + `"`},
		"commit": {"X-Repo-Commit", strings.Repeat("0", 40)},
		"gone":   {},
	} {
		t.Run(name, func(t *testing.T) {
			h := testhub.NewHub(t)
			h.Commit("org/name", map[string][]byte{"model.safetensors": pattern(1000, 1)})
			m := newMachine(t, h)
			l := m.mustOpen(t, "org/name", "")
			h.Break(func(w http.ResponseWriter, r *http.Request, data bool) bool {
				if data || header[0] == "" {
					w.WriteHeader(http.StatusNotFound)
					return true
				}
				w.Header().Set(header[0], header[1])
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(http.StatusFound)
				return true
			})
			if _, err := testremote.Read(l, "model.safetensors"); !errors.Is(err, tensorfs.ErrChanged) || !errors.Is(err, syscall.ESTALE) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
		})
	}
}

// Row 26: no secret is in what is printed or kept.
func TestSecrets(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	h.Private["org/name"] = token
	h.Commit("org/name", map[string][]byte{"config.json": []byte("{}"), "model.safetensors": pattern(1<<20, 1)})
	m := newMachine(t, h)
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.Env["HF_TOKEN_PATH"] = tokenFile
	l := m.mustOpen(t, "org/name", "")
	for _, x := range l.Items() {
		if _, err := testremote.Read(l, x.Name); err != nil || secret(fmt.Sprint(x.ID, x.Name, l.Location(x.Name))) {
			t.Errorf("%v, %+v", err, x.ID)
		}
	}
	testremote.NoSecrets(t, m.Dir, []string{token, "secret", "sig="}, nil)
	for _, endpoint := range []string{"https://user:secret@example.org", "https://example.org/?token=secret", "ftp://secret", "https://", "%secret"} {
		m.Env["HF_ENDPOINT"] = endpoint
		if _, _, err := m.open("org/name", ""); err == nil || secret(err.Error()) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	m.Env["HF_ENDPOINT"] = h.URL
	for _, bad := range []string{"two secrets", "sec\nsecret", "s\x7fsecret"} {
		m.Env["HF_TOKEN"] = bad
		if _, _, err := m.open("org/name", ""); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
}
