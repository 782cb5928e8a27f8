package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"

	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testweb"
	"github.com/tensorfs/tensorfs/internal/web"
)

// apart gives the test an empty cache and home, in which other machines may be
// asked. It returns the directory of the cache.
func apart(t testing.TB) string {
	t.Helper()
	home := t.TempDir()
	dir := filepath.Join(home, "cache")
	for name, value := range map[string]string{
		"HOME": home, "XDG_CACHE_HOME": "", "TENSORFS_CACHE": dir, "TENSORFS_OFFLINE": "", "HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": "",
		"HF_HOME": "", "HF_HUB_CACHE": "", "HF_TOKEN": "", "HF_TOKEN_PATH": "", "HF_ENDPOINT": "", "OLLAMA_MODELS": filepath.Join(home, "ollama"), "NETRC": "",
	} {
		t.Setenv(name, value)
	}
	return dir
}

// succeeds runs a command that succeeds in silence, and returns its output.
func succeeds(t testing.TB, args ...string) string {
	t.Helper()
	code, out, stderr := command(args...)
	if code != 0 || stderr != "" {
		t.Fatalf("tensorfs %s: exit code %d, %q", strings.Join(args, " "), code, stderr)
	}
	return out
}

// failsWith runs a command that fails with one line that has all the texts.
func failsWith(t testing.TB, code int, args []string, texts ...string) {
	t.Helper()
	got, _, stderr := command(args...)
	if got != code || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "tensorfs: ") {
		t.Errorf("tensorfs %s: exit code %d, %q", strings.Join(args, " "), got, stderr)
	}
	for _, text := range texts {
		if !strings.Contains(stderr, text) {
			t.Errorf("tensorfs %s: %q does not say %q", strings.Join(args, " "), stderr, text)
		}
	}
}

// madeFile is a safetensors file of tensors t0, t1 and so on of equal size, whose
// bytes are made when they are read.
type madeFile struct {
	head []byte
	size int64 // of the file
}

// newMadeFile returns such a file.
func newMadeFile(tensors int, bytes int64) madeFile {
	header := map[string]any{}
	for i := range int64(tensors) {
		header[fmt.Sprintf("t%d", i)] = map[string]any{"dtype": "U8", "shape": []int64{bytes}, "data_offsets": []int64{i * bytes, (i + 1) * bytes}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	head := make([]byte, 8, 8+len(text))
	head[0], head[1], head[2] = byte(len(text)), byte(len(text)>>8), byte(len(text)>>16)
	head = append(head, text...)
	return madeFile{head, int64(len(head)) + int64(tensors)*bytes}
}

func (s madeFile) Size() int64 { return s.size }

// ReadAt implements io.ReaderAt.
func (s madeFile) ReadAt(p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(s.size, p, off)
	for i := copy(p[:n], s.head[min(off, int64(len(s.head))):]); i < n; i++ {
		at := off + int64(i)
		p[i] = byte(at ^ at>>8 ^ at>>16*31)
	}
	return n, eof
}

// tensor returns bytes [off, off+n) of tensor i; all tensors have size bytes.
func (s madeFile) tensor(i int, size, off, n int64) []byte {
	b := make([]byte, n)
	if _, err := s.ReadAt(b, int64(len(s.head))+int64(i)*size+off); err != nil && err != io.EOF {
		panic(err)
	}
	return b
}

// all returns the whole file.
func (s madeFile) all() []byte {
	b := make([]byte, s.size)
	_, _ = s.ReadAt(b, 0)
	return b
}

// serveTestdata returns a server of testdata/gguf.
func serveTestdata(t testing.TB) *testweb.Server {
	t.Helper()
	s := testweb.New(t)
	files, err := filepath.Glob(ggufDir + "*.gguf")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s.Put("/"+filepath.Base(path), bytes.NewReader(b))
	}
	return s
}

// longHeader writes a GGUF model of 1.2 GB with a header of 5.6 MB, mostly holes.
func longHeader(t testing.TB) *os.File {
	t.Helper()
	const tensors, rows, columns = 254, 1024, 2304
	tokens := make([]string, 151_936)
	for i := range tokens {
		tokens[i] = fmt.Sprintf("token%023d", i)
	}
	meta := []tensorfs.Meta{{Key: "general.architecture", Value: "llama"}, {Key: "general.name", Value: "Big"}, {Key: "tokenizer.ggml.tokens", Value: tokens}}
	var list []gguf.Stored
	data := tensorfs.Bytes(make([]byte, rows*columns*2))
	for i := range tensors {
		list = append(list, gguf.Stored{Name: fmt.Sprintf("blk.%d.attn_q.weight", i), DType: tensorfs.BF16, Shape: []int64{rows, columns}, Data: data})
	}
	d, err := gguf.Compose(meta, list)
	if err != nil {
		t.Fatal(err)
	}
	head := make([]byte, d.Size()-tensors*data.Size())
	f, err := os.Create(filepath.Join(t.TempDir(), "big.gguf"))
	if err == nil {
		t.Cleanup(func() { f.Close() })
		_, err = d.ReadAt(head, 0)
	}
	if err == nil {
		_, err = f.Write(head)
	}
	if err == nil {
		err = f.Truncate(d.Size())
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(head) < 5_000_000 || len(head) > 6_000_000 || d.Size() < 1_100_000_000 {
		t.Fatalf("a header of %d bytes, %d in all", len(head), d.Size())
	}
	return f
}

// infoOf returns the output of info --json without the model's name.
func infoOf(t testing.TB, args ...string) string {
	t.Helper()
	var info map[string]any
	if err := json.Unmarshal([]byte(succeeds(t, append([]string{"info", "--json"}, args...)...)), &info); err != nil {
		t.Fatal(err)
	}
	delete(info, "model")
	delete(info, "path")
	text, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Rows 1 and 2: a model is described as a local one, for little more than its
// header, and afterwards without its server.
func TestRemoteInfo(t *testing.T) {
	apart(t)
	f := longHeader(t)
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	s := testweb.New(t)
	s.Put("/big.gguf", io.NewSectionReader(f, 0, st.Size()))
	address := testweb.Shape(t, s.URL, 20*time.Millisecond, 0) + "/big.gguf"
	want := infoOf(t, f.Name())
	if got := infoOf(t, address); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if n, sent := len(s.Requests()), s.Sent(); sent > 8<<20 || n > 8 {
		t.Errorf("%d requests, %d bytes", n, sent)
	}
	text := succeeds(t, "info", address)
	s.Reset()
	if got := infoOf(t, "--offline", address); got != want {
		t.Errorf("offline: %s\nwant\n%s", got, want)
	}
	t.Setenv("HF_HUB_OFFLINE", "yes")
	if got := succeeds(t, "info", address); got != text {
		t.Errorf("offline: %s\nwant\n%s", got, text)
	}
	if r := s.Requests(); len(r) > 0 {
		t.Errorf("offline it was asked for %v", r)
	}
	failsWith(t, 1, []string{"info", s.URL + "/other.gguf"}, s.URL+"/other.gguf: not on this machine, and HF_HUB_OFFLINE forbids asking for it")
	failsWith(t, 1, []string{"info", "hf:org/name"}, "hf:org/name: there is no cache ", ", and HF_HUB_OFFLINE forbids asking for it")
	failsWith(t, 2, []string{"info", "--offline", "--remote", address}, "exclude each other")
	if r := s.Requests(); len(r) > 0 {
		t.Errorf("offline it was asked for %v", r)
	}
}

// Row 3: every file of the tree has the bytes of the local model's.
func TestRemoteBytes(t *testing.T) {
	apart(t)
	s := serveTestdata(t)
	files, err := filepath.Glob(ggufDir + "*.gguf")
	if err != nil {
		t.Fatal(err)
	}
	open := func(model string) (map[string]tensorfs.Data, error) {
		tree, err := (&modelFlags{}).open(model)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { tree.Model.Close() })
		all := map[string]tensorfs.Data{}
		return all, tensorfs.Walk(tree.Root, func(path string, e tensorfs.Entry) error {
			if e.Data != nil && !namesModel(path) {
				all[path] = e.Data
			}
			return nil
		})
	}
	compared := 0
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			near, nerr := open(path)
			far, err := open(s.URL + "/" + filepath.Base(path))
			if err != nil || nerr != nil {
				if err == nil || nerr == nil {
					t.Errorf("error %v, and of the path %v", err, nerr)
				}
				return
			}
			for name, want := range near {
				got := far[name]
				if got == nil || got.Size() != want.Size() || !bytes.Equal(bytesOf(t, got), bytesOf(t, want)) {
					t.Errorf("%s differs", name)
				}
				compared++
			}
			for name, d := range far {
				if base, ok := strings.CutPrefix(name, "source/"); ok {
					if b, err := os.ReadFile(ggufDir + base); err != nil || !bytes.Equal(bytesOf(t, d), b) {
						t.Errorf("%s is not the file: %v", name, err)
					}
				} else if near[name] == nil {
					t.Errorf("%s is only in the remote model", name)
				}
			}
		})
	}
	if compared < 1000 {
		t.Errorf("only %d files were compared", compared)
	}
}

func bytesOf(t testing.TB, d tensorfs.Data) []byte {
	t.Helper()
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Error(err)
	}
	return b
}

// Row 14: a server that sends only whole files.
func TestRemoteWhole(t *testing.T) {
	apart(t)
	s := testweb.New(t)
	s.Change(func(b *testweb.Behaviour) { b.Whole = true })
	small, large := newMadeFile(1, 10<<20), newMadeFile(1, 5_000_000_000)
	s.Put("/small.safetensors", small)
	s.Put("/large.safetensors", large)
	if got := succeeds(t, "cat", s.URL+"/small.safetensors", "source/small.safetensors"); got != string(small.all()) {
		t.Error("it differs")
	}
	s.Reset()
	failsWith(t, 1, []string{"info", s.URL + "/large.safetensors"}, s.URL+"/large.safetensors: the server sends only whole files (5.0 GB); use --download to fetch it first")
	if n, sent := len(s.Requests()), s.Sent(); n != 1 || sent > 8<<20 { // the rest is in the buffers of the system
		t.Errorf("%d requests, %d bytes", n, sent)
	}
	medium := newMadeFile(1, 70<<20)
	s.Put("/medium.safetensors", medium)
	succeeds(t, "info", "--download", s.URL+"/medium.safetensors")
	s.Reset()
	if got := succeeds(t, "cat", "--offline", s.URL+"/medium.safetensors", "raw/t0"); got != string(medium.tensor(0, 70<<20, 0, 70<<20)) || len(s.Requests()) > 0 {
		t.Errorf("%d bytes, %d requests", len(got), len(s.Requests()))
	}
}

// Row 15: redirects that are not followed.
func TestRemoteRedirects(t *testing.T) {
	apart(t)
	s := testweb.New(t)
	to := ""
	s.Break(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, to, http.StatusFound)
		return true
	})
	s.Put("/m.gguf", bytes.NewReader(nil))
	defer func(public func(netip.Addr) bool) { web.Public = public }(web.Public)
	web.Public = netip.Addr.IsLoopback
	for target, want := range map[string]string{
		"/m.gguf?sig=secret":                           "it was redirected 10 times",
		"http://169.254.169.254/latest/?sig=secret":    "http://169.254.169.254/latest/?...: a public server redirected to an address that is not public: 169.254.169.254",
		"file:///etc/passwd":                           "it redirects to an address that is not of the web",
		"http://huggingface.example/m.gguf?sig=secret": "http:// is not protected on its way",
	} {
		to = target
		failsWith(t, 1, []string{"info", s.URL + "/m.gguf"}, want)
	}
}

// A name of an unknown kind is an error, without its secrets.
func TestRemoteKinds(t *testing.T) {
	apart(t)
	failsWith(t, 1, []string{"info", "ftp://me:secret@host/m.gguf?secret"}, "ftp://host/m.gguf?...: models cannot be read from such an address", "hf:", "https://")
	failsWith(t, 1, []string{"info", "http://host.example/m.gguf"}, "http://host.example/m.gguf: http:// is not protected on its way; use https://, or --plain-http")
	failsWith(t, 1, []string{"ftp://me:secret@host/m.gguf?secret"}, "ftp://host/m.gguf?...: models cannot be read from such an address")
	failsWith(t, 2, []string{"https://me:secret@host/m.gguf?secret", "info"}, "did you mean tensorfs info https://host/m.gguf?...?")
}

// A store of this machine comes first; what it does not have, or not all of, comes
// from the Hub.
func TestRemoteLocalFirst(t *testing.T) {
	apart(t)
	h := testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	b, err := os.ReadFile(q8)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(ggufDir + "llama-xs.q4_k_m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	id := h.Commit("acme/tiny", map[string][]byte{"tiny-Q8_0.gguf": b, "tiny-Q4_K_M.gguf": other})
	failsWith(t, 1, []string{"info", "hf:acme/tiny"}, "hf:acme/tiny: it has 2 GGUF models: Q4_K_M, Q8_0; name one, such as hf:acme/tiny:Q4_K_M")
	failsWith(t, 1, []string{"info", "hf:acme/tiny:Q2_K"}, `hf:acme/tiny:Q2_K: it has no GGUF model "Q2_K", only Q4_K_M, Q8_0`)
	failsWith(t, 1, []string{"info", "hf:acme/none"}, "hf:acme/none: by the Hub's answer there is no such model, or you may not see it; check the name, or set HF_TOKEN")
	if got := infoOf(t, "hf:acme/tiny:Q8_0"); !strings.Contains(got, id) {
		t.Errorf("%s does not name the commit", got)
	}
	if got := succeeds(t, "cat", "hf:acme/tiny:q8_0", "source/tiny-Q8_0.gguf"); got != string(b) {
		t.Error("it differs")
	}
	var index struct {
		Model struct{ Path string }
	}
	if err := json.Unmarshal([]byte(succeeds(t, "cat", "hf:acme/tiny@main:Q8_0", "index.json")), &index); err != nil || index.Model.Path != "hf:acme/tiny@"+id+":Q8_0" {
		t.Errorf("index.json says %q, %v", index.Model.Path, err)
	}
	if got := succeeds(t, "cat", index.Model.Path, "source/tiny-Q8_0.gguf"); got != string(b) {
		t.Error("by the name in index.json it differs")
	}
	// The cache of Hugging Face's programs has one of the two files.
	dir := filepath.Join(os.Getenv("HOME"), "hub")
	t.Setenv("HF_HUB_CACHE", dir)
	snapshot := filepath.Join(dir, "models--acme--tiny", "snapshots", id)
	if err := errors.Join(os.MkdirAll(snapshot, 0o755), os.MkdirAll(filepath.Join(dir, "models--acme--tiny/refs"), 0o755),
		os.WriteFile(filepath.Join(dir, "models--acme--tiny/refs/main"), []byte(id), 0o644), os.WriteFile(filepath.Join(snapshot, "tiny-Q8_0.gguf"), b, 0o644)); err != nil {
		t.Fatal(err)
	}
	h.Reset()
	succeeds(t, "info", "hf:acme/tiny:Q8_0")
	if r := h.Requests(); len(r) > 0 {
		t.Errorf("what is here was asked for: %v", r)
	}
	succeeds(t, "info", "--remote", "hf:acme/tiny:Q8_0")
	if len(h.Requests()) == 0 {
		t.Error("--remote did not ask")
	}
	succeeds(t, "info", "hf:acme/tiny:Q4_K_M")
	if got, want := succeeds(t, "fetch", "hf:acme/tiny:Q8_0"), "hf:acme/tiny:Q8_0: all of it is on this machine, in "+filepath.Join(snapshot, "tiny-Q8_0.gguf")+"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	failsWith(t, 1, []string{"info", "--offline", "hf:acme/tiny:Q2_K"}, `it has no GGUF model "Q2_K", only Q8_0, and --offline forbids asking for it`)
	failsWith(t, 1, []string{"info", "hf:acme/tyny"}, "hf:acme/tyny: by the Hub's answer there is no such model", "did you mean hf:acme/tiny? If not, check the name, or set HF_TOKEN")
	// The same where the Hub cannot be reached, or has no time; not where what was said
	// of it is wrong.
	h.Break(func(w http.ResponseWriter, _ *http.Request, _ bool) bool {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	failsWith(t, 1, []string{"info", "hf:acme/tyny"}, "hf:acme/tyny: the Hub limits requests; did you mean hf:acme/tiny? If not, try again in 3600 s")
	t.Setenv("HF_ENDPOINT", "http://127.0.0.1:1")
	failsWith(t, 1, []string{"info", "--timeout", "1ns", "hf:acme/tyny"}, "did you mean hf:acme/tiny? If not, ")
	failsWith(t, 1, []string{"info", "--timeout", "100ms", "hf:acme/tyny"}, `"127.0.0.1:1" refuses connections; did you mean hf:acme/tiny? If not, check the address`)
	failsWith(t, 1, []string{"info", "--timeout", "100ms", "hf:other/none"}, `"127.0.0.1:1" refuses connections; check the address`)
	t.Setenv("HF_ENDPOINT", "nowhere")
	failsWith(t, 1, []string{"info", "hf:acme/tyny"}, "HF_ENDPOINT: it is not an address of the web; write it as ")
}
