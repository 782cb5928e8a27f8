package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testweb"
)

// mountedFar is mounted for a server that keeps files in the test's cache until it has
// ended.
func mountedFar(t *testing.T, model string, flags ...string) string {
	t.Helper()
	dir := mounted(t, model, flags...)
	st := statusOf(t, dir)
	if st == nil {
		t.Fatal("it is not mounted")
	}
	t.Cleanup(func() {
		_ = mounts.Unmount(dir, true) // it may be gone
		ended(t, st.PID)
	})
	return dir
}

// sameIn compares 4 KiB of tensor i, which has size bytes, with what a mount has.
func (s madeFile) sameIn(dir string, i int, size, off int64, flags int) error {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("raw/t%d", i)), flags, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 4096)
	if _, err := f.ReadAt(b, off); err != nil {
		return err
	}
	if !bytes.Equal(b, s.tensor(i, size, off, 4096)) {
		return errors.New("wrong bytes")
	}
	return nil
}

// rendezvous is a server's fault that holds each request until its reader has come so
// far: what is held is what was asked for ahead of him.
type rendezvous struct {
	at   atomic.Int64 // of the file, where the reader is
	mu   sync.Mutex
	now  int
	most int
}

// ahead is how far the kernel reads on its own, and more.
const ahead = 4 << 20

func (p *rendezvous) hold(_ int, _ http.ResponseWriter, r *http.Request) bool {
	first, _ := testweb.Asked(r)
	p.mu.Lock()
	p.now++
	p.most = max(p.most, p.now)
	p.mu.Unlock()
	for first > p.at.Load()+ahead && r.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	p.mu.Lock()
	p.now--
	p.mu.Unlock()
	return false
}

// Row 4: for a reader that goes through a large model several requests are under way
// at any time, and little more is sent than it reads. How much faster than one
// connection that is, BenchmarkRemote measures.
func TestRemoteStream(t *testing.T) {
	apart(t)
	const each = 100 << 20
	file := newMadeFile(2, each)
	s := testweb.New(t)
	s.Put("/m.safetensors", file)
	dir := mountedFar(t, s.URL+"/m.safetensors")
	s.Reset()
	var p rendezvous
	s.Break(p.hold)
	n := int64(0)
	for i := range 2 {
		n += sameAs(t, filepath.Join(dir, fmt.Sprintf("raw/t%d", i)), func(off, n int64) []byte {
			p.at.Store(int64(i)*each + off)
			return file.tensor(i, each, off, n)
		})
	}
	t.Logf("%d requests, at most %d at the same time, %d bytes for %d", len(s.Requests()), p.most, s.Sent(), n)
	if sent := s.Sent(); sent > n+n/10 || p.most < 6 || p.most > 16 {
		t.Errorf("%d bytes were sent for %d, by %d requests at the same time", sent, n, p.most)
	}
}

// sameAs reads a file as dd does and compares it.
func sameAs(t testing.TB, path string, want func(off, n int64) []byte) int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1<<20)
	for off := int64(0); ; {
		n, err := f.Read(b)
		// Comparing all of it would take longer than reading it.
		if k := min(n, 4096); !bytes.Equal(b[:k], want(off, int64(k))) {
			t.Fatalf("%s differs after %d bytes", path, off)
		}
		off += int64(n)
		if err == io.EOF {
			return off
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Row 5: small reads here and there bring in a block each.
func TestRemoteRandom(t *testing.T) {
	apart(t)
	const size, reads, readers = 1 << 30, 200, 8
	file := newMadeFile(1, size)
	s := testweb.New(t)
	s.Put("/m.safetensors", file)
	f, err := os.Open(filepath.Join(mountedFar(t, s.URL+"/m.safetensors"), "raw/t0"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s.Reset()
	var group sync.WaitGroup
	for reader := range uint64(readers) {
		group.Go(func() {
			r := rand.New(rand.NewPCG(reader, 1))
			b := make([]byte, 4096)
			for range reads / readers {
				off := r.Int64N(size/4096) * 4096
				if _, err := f.ReadAt(b, off); err != nil || !bytes.Equal(b, file.tensor(0, size, off, 4096)) {
					t.Errorf("at %d: %v", off, err)
				}
			}
		})
	}
	group.Wait()
	if sent := s.Sent(); sent > reads<<20+8<<20 {
		t.Errorf("%d bytes were sent for %d reads", sent, reads)
	}
}

// Row 13: after a change of the file a mount keeps the bytes that came before, fails for the rest,
// and reports it once.
func TestRemoteChanges(t *testing.T) {
	for _, careless := range []bool{false, true} {
		t.Run(fmt.Sprintf("careless %t", careless), func(t *testing.T) {
			apart(t)
			const size = 20 << 20
			file := newMadeFile(3, size)
			s := testweb.New(t)
			s.Change(func(b *testweb.Behaviour) { b.Careless = careless })
			s.Put("/m.safetensors", file)
			logged := filepath.Join(t.TempDir(), "log")
			dir := mountedFar(t, s.URL+"/m.safetensors", "--log", logged)
			read := func(i int, off int64) error {
				return file.sameIn(dir, i, size, off, os.O_RDONLY|syscall.O_DIRECT)
			}
			if err := read(0, 0); err != nil {
				t.Fatal(err)
			}
			s.Change(func(b *testweb.Behaviour) { b.ETag = `"two"` })
			for i := range 3 {
				for range 2 {
					if err := read(i, 15<<20); !errors.Is(err, syscall.ESTALE) {
						t.Errorf("t%d: %v", i, err)
					}
				}
			}
			if err := read(0, 8192); err != nil {
				t.Errorf("what came before: %v", err)
			}
			st := statusOf(t, dir)
			if st == nil || st.State != "changed" || !slices.Equal(st.Changed, []string{s.URL + "/m.safetensors"}) || st.Model != s.URL+"/m.safetensors" {
				t.Errorf("status %+v", st)
			}
			var text []byte
			testlimit.Wait(t, "log", func() bool { // the server writes it
				text, _ = os.ReadFile(logged)
				return len(text) > 0
			})
			if strings.Count(string(text), "changed") != 1 {
				t.Errorf("log %q", text)
			}
		})
	}
}

// Row 20: a mount stays with its commit; a new one has the next, and what both have
// is not sent again.
func TestRemoteMoves(t *testing.T) {
	apart(t)
	h := testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	one, two := newMadeFile(1, 5<<20), newMadeFile(2, 3<<20)
	files := map[string][]byte{"config.json": []byte(`{"model_type":"llama"}`), "model-00001-of-00002.safetensors": one.all(), "model-00002-of-00002.safetensors": strangers(two)}
	first := h.Commit("acme/tiny", files)
	dir := mountedFar(t, "hf:acme/tiny")
	all, err := os.ReadFile(filepath.Join(dir, "source/model-00001-of-00002.safetensors"))
	if err != nil || !bytes.Equal(all, files["model-00001-of-00002.safetensors"]) {
		t.Fatal(len(all), err)
	}
	if _, err := os.ReadFile(filepath.Join(dir, "source/model-00002-of-00002.safetensors")); err != nil {
		t.Fatal(err)
	}
	if st := statusOf(t, dir); st == nil || st.Model != "hf:acme/tiny@"+first {
		t.Errorf("status %+v", st)
	}
	next := map[string][]byte{"config.json": files["config.json"], "model-00001-of-00002.safetensors": files["model-00001-of-00002.safetensors"], "model-00002-of-00002.safetensors": strangers(newMadeFile(2, 4<<20))}
	second := h.Commit("acme/tiny", next)
	h.Reset()
	if got, err := os.ReadFile(filepath.Join(dir, "source/model-00002-of-00002.safetensors")); err != nil || !bytes.Equal(got, files["model-00002-of-00002.safetensors"]) {
		t.Errorf("the first mount: %d bytes, %v", len(got), err)
	}
	again := mountedFar(t, "hf:acme/tiny")
	for name, want := range next {
		if got, err := os.ReadFile(filepath.Join(again, "source", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	var index struct {
		Model struct{ Path string }
	}
	text, err := os.ReadFile(filepath.Join(again, "index.json"))
	if err != nil || json.Unmarshal(text, &index) != nil || index.Model.Path != "hf:acme/tiny@"+second {
		t.Errorf("index.json says %q, %v", index.Model.Path, err)
	}
	if sent, most := h.Sent(), int64(len(next["model-00002-of-00002.safetensors"]))+64<<10; sent > most {
		t.Errorf("%d bytes were sent, want at most %d", sent, most)
	}
}

// strangers returns a file whose tensors have other names than t0, t1 and so on.
func strangers(f madeFile) []byte {
	b := f.all()
	copy(b, bytes.ReplaceAll(f.head, []byte(`"t`), []byte(`"s`)))
	return b
}

// The flags of remote models are options of fstab too, and reach the server.
func TestRemoteMountOptions(t *testing.T) {
	apart(t)
	file := newMadeFile(2, 5<<20)
	s := testweb.New(t)
	s.Put("/m.safetensors", file)
	dir := filepath.Join(t.TempDir(), "other")
	succeeds(t, "cat", "--cache", dir, s.URL+"/m.safetensors", "raw/t0")
	t.Chdir(filepath.Dir(dir))
	s.Reset()
	mnt := mountedFar(t, s.URL+"/m.safetensors", "-o", "cache=other,timeout=2s,offline,_netdev")
	if got, err := os.ReadFile(filepath.Join(mnt, "raw/t0")); err != nil || !bytes.Equal(got, file.tensor(0, 5<<20, 0, 5<<20)) {
		t.Errorf("what is here: %d bytes, %v", len(got), err)
	}
	if _, err := os.ReadFile(filepath.Join(mnt, "raw/t1")); err == nil {
		t.Error("what is not here was read")
	}
	if r := s.Requests(); len(r) > 0 {
		t.Errorf("offline it was asked for %v", r)
	}
	if st := statusOf(t, mnt); st == nil || len(st.Errors) != 1 || !strings.Contains(st.Errors[0].Message, "not on this machine, and --offline forbids asking for it") {
		t.Errorf("status %+v", st)
	}
	// Nothing on the disk: all is read, nothing is kept.
	mnt = mountedFar(t, s.URL+"/m.safetensors", "-o", "cache_size=0")
	if got, err := os.ReadFile(filepath.Join(mnt, "source/m.safetensors")); err != nil || !bytes.Equal(got, file.all()) {
		t.Errorf("without a cache: %d bytes, %v", len(got), err)
	}
	if _, err := os.Stat(os.Getenv("TENSORFS_CACHE")); !os.IsNotExist(err) {
		t.Errorf("a cache was made: %v", err)
	}
	for _, option := range []string{"timeout=x", "cache_size=-1"} {
		failsWith(t, 2, []string{"mount", "-o", option, s.URL + "/m.safetensors", t.TempDir()}, "-o "+option+": want a ")
	}
}

// Row 26: secrets are only in the places that need them.
func TestRemoteSecrets(t *testing.T) {
	dir := apart(t)
	const secret = "tiger"
	h := testhub.NewHub(t)
	h.Private["acme/tiny"] = secret
	model, err := os.ReadFile(q8)
	if err != nil {
		t.Fatal(err)
	}
	h.Commit("acme/tiny", map[string][]byte{"tiny.gguf": model})
	s := testweb.New(t)
	s.Put("/m.gguf", bytes.NewReader(model))
	s.Break(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user == secret && password == secret && r.URL.Query().Get("sig") == secret {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_TOKEN", secret)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	host := strings.TrimPrefix(s.URL, "http://")
	address := fmt.Sprintf("http://%s:%s@%s/m.gguf?sig=%s", secret, secret, host, secret)
	clean := func(what, text string) {
		t.Helper()
		if strings.Contains(text, secret) {
			t.Errorf("%s has a secret: %q", what, text)
		}
	}
	for _, model := range []string{address, "hf:acme/tiny", "hf:acme/none", strings.Replace(address, "/m.gguf", "/none.gguf", 1), strings.Replace(address, ":"+secret+"@", "@", 1), strings.Replace(address, "http://", "ftp://", 1)} {
		for _, args := range [][]string{{"info"}, {"info", "--json"}, {"ls", "-l"}, {"cat", "README"}, {"cat", "index.json"}, {"cat", "nothing"}, {"ls", "nothing"}, {"stat"}, {"stat", "nothing"}, {"verify"}, {"verify", "--json"},
			{"fetch"}, {"fetch", "--json"}, {"export", filepath.Join(t.TempDir(), "out"), "config.json"}, {"info", "--timeout=x"}, {"info", "--offline"}, {"cat", "--offline", "raw/nothing"}} {
			at := 1
			for at < len(args) && strings.HasPrefix(args[at], "-") {
				at++
			}
			args = slices.Insert(slices.Clone(args), at, model)
			code, out, stderr := command(args...)
			clean(strings.Join(args[:1], " "), out)
			clean(strings.Join(args[:1], " "), stderr)
			if code != 0 && stderr == "" {
				t.Errorf("%s: exit code %d in silence", args[0], code)
			}
		}
		code, out, stderr := command("diff", model, q8)
		clean("diff", out+stderr)
		if code == 0 && strings.Contains(model, "none") {
			t.Errorf("%s is equal to what there is", model)
		}
	}
	_, out, stderr := command(address)
	clean("no command", out+stderr)
	logged := filepath.Join(t.TempDir(), "log")
	for _, model := range []string{address, "hf:acme/tiny"} {
		mnt := mountedFar(t, model, "--log", logged, "--debug")
		err := filepath.WalkDir(mnt, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if strings.HasPrefix(path, filepath.Join(mnt, "README")) || strings.HasSuffix(path, ".json") {
				clean(path, string(b))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		st := statusOf(t, mnt)
		if st == nil {
			t.Fatal("no mount")
		}
		text, _ := json.Marshal(st)
		clean("status", string(text))
		for _, name := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", st.PID, name))
			if err != nil {
				t.Error(err)
			}
			clean(name+" of the server", string(b))
		}
	}
	b, err := os.ReadFile(logged)
	if err != nil {
		t.Error(err)
	}
	clean("log", string(b))
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Error(err)
	}
	clean("table of mounts", string(table))
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[d.IsDir()]; st.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, st.Mode())
		}
		if !d.IsDir() {
			files++
			b, err := os.ReadFile(path)
			clean(path, string(b))
			clean(path, path)
			return err
		}
		return nil
	})
	if err != nil || files < 5 {
		t.Errorf("%d files in the cache, %v", files, err)
	}
}
