package ollama

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

const token = "hf_testsecret"

// machine is one that asks a registry.
type machine struct {
	*testremote.Machine
	o Options
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	m := &machine{Machine: testremote.NewMachine(t)}
	m.o = Options{Client: m.Client, Store: m.Store, Env: m.Getenv}
	return m
}

func (m *machine) open(name string) (*remote.Listing, string, error) {
	return Open(context.Background(), name, m.o)
}

func digest(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// manifestOf returns a manifest with a layer of weights, and how it is not usually
// written.
func manifestOf(model []byte) []byte {
	return fmt.Appendf(nil, "{ \"layers\" : [ {\"mediaType\":\"application/vnd.ollama.image.model\",\"size\":%d,\"digest\":\"sha256:%s\",\"x\":1} ],\n\"schemaVersion\":2 }\n", len(model), digest(model))
}

func TestOpen(t *testing.T) {
	model := bytes.Repeat([]byte("GGUF0123456789abcdef"), 200_000)
	for _, here := range []bool{false, true} {
		r := testhub.NewRegistry(t)
		r.Here = here
		text := manifestOf(model)
		r.Push("library/tiny/latest", text, model)
		r.Push("library/tiny/again", text)
		m := newMachine(t)
		l, file, err := m.open(r.Host() + "/library/tiny")
		if err != nil || file != "manifests/"+r.Host()+"/library/tiny/latest" {
			t.Fatalf("%q, %v", file, err)
		}
		if got, err := testremote.Read(l, file); err != nil || !bytes.Equal(got, text) {
			t.Errorf("the manifest is %q, %v", got, err)
		}
		blob := "blobs/sha256-" + digest(model)
		for range 2 {
			if got, err := testremote.Read(l, blob); err != nil || !bytes.Equal(got, model) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		}
		if n := r.Count("/blobs/"); n != 1 && !here {
			t.Errorf("the blob was resolved %d times", n)
		}
		for _, x := range r.Requests() {
			if x.Authorization != "" {
				t.Errorf("%s got Authorization", x.Path)
			}
		}
		r.Reset()
		l, _, err = m.open(r.Host() + "/library/tiny:again")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := testremote.Read(l, blob); err != nil || r.Count("sha256") > 0 {
			t.Errorf("a blob of another model was asked for again: %v", err)
		}
		// Offline the last manifest is used.
		r.Reset()
		m.o.Offline = "--offline"
		if l, file, err = m.open(r.Host() + "/library/tiny"); err != nil {
			t.Fatal(err)
		}
		got, err := testremote.Read(l, file)
		whole, err2 := testremote.Read(l, blob)
		if err != nil || err2 != nil || !bytes.Equal(got, text) || !bytes.Equal(whole, model) {
			t.Errorf("%v, %v", err, err2)
		}
		if _, _, err := m.open(r.Host() + "/library/other"); err == nil || !strings.Contains(err.Error(), ":latest: not on this machine, and --offline forbids asking for it") {
			t.Error(err)
		}
		if n := r.Requests(); len(n) > 0 {
			t.Errorf("it was asked for %v", n)
		}
	}
}

// A tag may be a list of manifests: the one for llama.cpp is fetched, and it has to be the one that the list names.
func TestListOfManifests(t *testing.T) {
	model := []byte("GGUF of llama.cpp")
	text := manifestOf(model)
	for _, good := range []bool{true, false} {
		r := testhub.NewRegistry(t)
		size := len(text)
		if !good {
			size++
		}
		list := fmt.Appendf(nil, `{"schemaVersion":2,"manifests":[{"digest":"sha256:%s","size":9,"runner":"mlx"},{"digest":"sha256:%s","size":%d,"runner":"llamacpp"}]}`,
			digest([]byte("x")), digest(text), size)
		r.Push("library/tiny/latest", list, model)
		r.Push("library/tiny/sha256:"+digest(text), text)
		l, file, err := newMachine(t).open(r.Host() + "/library/tiny")
		if !good {
			if err == nil || !strings.Contains(err.Error(), "does not match its digest in the list") {
				t.Error(err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := testremote.Read(l, file); err != nil || !bytes.Equal(got, text) {
			t.Errorf("the manifest is %q, %v", got, err)
		}
	}
}

// A tag that moves is another manifest; what is open stays as it is.
func TestMoves(t *testing.T) {
	one, two := []byte("GGUF one"), []byte("GGUF two")
	r := testhub.NewRegistry(t)
	r.Push("library/tiny/latest", manifestOf(one), one)
	m := newMachine(t)
	was, _, err := m.open(r.Host() + "/library/tiny")
	if err != nil {
		t.Fatal(err)
	}
	r.Push("library/tiny/latest", manifestOf(two), two)
	now, _, err := m.open(r.Host() + "/library/tiny")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := testremote.Read(was, "blobs/sha256-"+digest(one)); err != nil || !bytes.Equal(b, one) {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := testremote.Read(now, "blobs/sha256-"+digest(two)); err != nil || !bytes.Equal(b, two) {
		t.Errorf("%q, %v", b, err)
	}
}

// An address that ends is resolved again, as the Hub's; see row 17 in remote/hub.
func TestAddressEnds(t *testing.T) {
	model := bytes.Repeat([]byte("GGUF0123456789abcdef"), 200_000)
	r := testhub.NewRegistry(t)
	r.Expire(2)
	r.Push("library/tiny/latest", manifestOf(model), model)
	m := newMachine(t)
	l, _, err := m.open(r.Host() + "/library/tiny")
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.OpenFile("blobs/sha256-" + digest(model))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for off := int64(0); off < f.Size(); off += 1 << 20 {
		b := make([]byte, min(1<<20, f.Size()-off))
		if err := tensorfs.ReadFull(f, b, off); err != nil || !bytes.Equal(b, model[off:off+int64(len(b))]) {
			t.Errorf("at %d: %v", off, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	r := testhub.NewRegistry(t)
	model := []byte("GGUF")
	for _, name := range []string{"me/private", "me/busy", "me/odd"} {
		r.Push(name+"/latest", manifestOf(model), model)
	}
	r.Push("me/html/latest", []byte("<html>secret"))
	r.Push("me/dots/latest", []byte(`{"layers":[{"mediaType":"application/vnd.ollama.image.model","size":1,"digest":"sha256:../../../../etc/passwd"}]}`))
	r.Push("me/huge/latest", fmt.Appendf(nil, `{"layers":[{"mediaType":"application/vnd.ollama.image.model","size":%d,"digest":"sha256:%s"}]}`, int64(1)<<60, digest(model)))
	r.Push("me/negative/latest", fmt.Appendf(nil, `{"layers":[{"mediaType":"application/vnd.ollama.image.model","size":-1,"digest":"sha256:%s"}]}`, digest(model)))
	r.Push("me/long/latest", bytes.Repeat([]byte(" "), maxManifest+1))
	r.Private["me/private"] = token
	r.Break(func(w http.ResponseWriter, req *http.Request, _ bool) bool {
		switch {
		case strings.Contains(req.URL.Path, "me/busy"):
			w.Header().Set("Retry-After", "100")
			w.WriteHeader(http.StatusTooManyRequests)
		case strings.Contains(req.URL.Path, "me/odd"):
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprintf(w, `{"error":"%s %s"}`, req.Header.Get("Authorization"), strings.Repeat("x", 5000))
		default:
			return false
		}
		return true
	})
	for _, tt := range []struct {
		name, endpoint, token, want string
		kind                        error
	}{
		{"me/private", "", token, `: the registry does not show it to everybody: "authentication required"; private models must be pulled with 'ollama pull'`, fs.ErrPermission},
		{"me/private", r.URL, "", `: the registry does not show it to everybody: "authentication required"; check the name, or set HF_TOKEN`, fs.ErrPermission},
		{"me/private", r.URL, token, "", nil},
		{"me/none", "", "", `: the registry has no such model: "manifest unknown"; check the name and the tag`, fs.ErrNotExist},
		{"me/busy", "", "", `: the registry limits requests; try again in 100 s`, syscall.EAGAIN},
		{"me/busy", r.URL, "", `: the registry limits requests; try again in 100 s, or set HF_TOKEN`, syscall.EAGAIN},
		{"me/odd", r.URL, token, `: the registry answers 418 I'm a teapot; try again later`, syscall.EIO},
		{"me/odd", "", "", `: the registry answers 418 I'm a teapot: " ` + strings.Repeat("x", 199) + `"...; try again later`, syscall.EIO},
		{"me/html", "", "", "the registry is at fault, or it is not one of Ollama models", tensorfs.ErrFormat},
		{"me/dots", "", "", "the registry is at fault, or it is not one of Ollama models", tensorfs.ErrFormat},
		{"me/huge", "", "", "which no file has; the registry is at fault", tensorfs.ErrFormat},
		{"me/negative", "", "", "the registry is at fault, or it is not one of Ollama models", tensorfs.ErrFormat},
		{"me/long", "", "", "the answer has more than 16777216 bytes; check the address", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			m.Env["HF_ENDPOINT"], m.Env["HF_TOKEN"] = tt.endpoint, tt.token
			l, _, err := m.open(r.Host() + "/" + tt.name)
			if tt.want == "" {
				if err == nil {
					_, err = testremote.Read(l, "blobs/sha256-"+digest(model))
				}
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.HasSuffix(err.Error(), tt.want) || tt.kind != nil && !errors.Is(err, tt.kind) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
	for _, x := range r.Requests() {
		if x.Data && x.Authorization != "" || !x.Data && !strings.Contains(x.Path, "private") && !strings.Contains(x.Path, "odd") && x.Authorization != "" {
			t.Errorf("%s got Authorization", x.Path)
		}
	}
}

// The token goes to the Hub's own hosts and to no other.
func TestWhoSeesTheToken(t *testing.T) {
	for _, tt := range []struct {
		name, endpoint string
		want           string
	}{
		{"gemma3:4b", "", "https://registry.ollama.ai/v2/library/gemma3 "},
		{"hf.co/user/repo:Q4_K_M", "", "https://hf.co/v2/user/repo " + token},
		{"HF.co/user/repo", "", "https://HF.co/v2/user/repo " + token},
		{"huggingface.co/user/repo", "", "https://huggingface.co/v2/user/repo " + token},
		{"hf.co/user/repo", "https://hub.example.org", "https://hf.co/v2/user/repo "},
		{"hub.example.org/user/repo", "https://hub.example.org", "https://hub.example.org/v2/user/repo " + token},
		{"hf.co.example.org/user/repo", "", "https://hf.co.example.org/v2/user/repo "},
		{"http://localhost:5000/ns/m", "", "http://localhost:5000/v2/ns/m "},
		{"127.0.0.1/ns/m", "", "http://127.0.0.1/v2/ns/m "},
		{"localhost.example.org/ns/m", "", "https://localhost.example.org/v2/ns/m "},
	} {
		m := newMachine(t)
		m.Env["HF_TOKEN"], m.Env["HF_ENDPOINT"] = token, tt.endpoint
		n, err := ollama.ParseName(tt.name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := newRegistry(n, m.o)
		if err != nil || r.address+" "+r.token() != tt.want {
			t.Errorf("%s: %s %s, %v", tt.name, r.address, r.token(), err)
		}
	}
}

// Row 26, for this protocol: no secret is kept.
func TestSecrets(t *testing.T) {
	r := testhub.NewRegistry(t)
	model := []byte("GGUF")
	r.Private["me/private"] = token
	r.Push("me/private/latest", manifestOf(model), model)
	m := newMachine(t)
	m.Env["HF_ENDPOINT"], m.Env["HF_TOKEN"] = r.URL, token
	l, _, err := m.open(r.Host() + "/me/private")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range l.Items() {
		if _, err := testremote.Read(l, x.Name); err != nil || strings.Contains(fmt.Sprint(x.ID, x.Name, l.Name), "secret") {
			t.Errorf("%v, %+v", err, x.ID)
		}
	}
	testremote.NoSecrets(t, m.Dir, []string{token, "secret"}, nil)
}
