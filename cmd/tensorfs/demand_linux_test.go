package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/libdir"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// demandHub starts a Hub with the whole model Qwen/Tiny, and acme/two with two GGUF files. This
// machine has no models.
func demandHub(t *testing.T) *testhub.Hub {
	t.Helper()
	apart(t)
	h := testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	h.Commit("Qwen/Tiny", filesOf(t, wholeGGUF+"llama3"))
	h.Commit("acme/two", map[string][]byte{"m-Q8_0.gguf": modelOf(1, 64), "m-F16.gguf": modelOf(2, 64)})
	return h
}

// demanded is what tensorfs.json has of a name.
type demanded struct {
	Model, Reason string
	Available     bool
}

// aboutDemand returns tensorfs.json.
func aboutDemand(t *testing.T, dir string) (about map[string]demanded) {
	t.Helper()
	text, err := os.ReadFile(dir + "/" + libdir.AboutName)
	must(t, err)
	must(t, json.Unmarshal(text, &about))
	for at, m := range about {
		if m.Available != (m.Reason == "") || m.Available && !strings.Contains(m.Model, "@") {
			t.Errorf("%s: %+v", at, m)
		}
	}
	return about
}

// walks are commands that list directories, and what programs do that come across them. They
// must not cause a request.
const walks = `
	cd "$1"
	find . >/dev/null; ls -lR . >/dev/null; du -a . >/dev/null
	bash -c 'compgen -f ./; compgen -f ./Qwen/; compgen -f ./Qwen/T; compgen -d ./acme/' >/dev/null
	for d in . Qwen acme fresh; do
		for n in .hidden .directory .Trash .Trash-0 .git .DS_Store .xdg-volume-info autorun.inf AutoRun.inf desktop.ini Thumbs.db folder.jpg \
			HEAD objects refs CVS package.json node_modules tsconfig.json __pycache__ pyvenv.cfg libc.so.6 libcuda.so tags Makefile .vscode; do
			test ! -e $d/$n || echo "$d/$n"
		done
	done
	cd fresh && git rev-parse 2>/dev/null
	true`

func walk(t *testing.T, h *testhub.Hub, dir string) {
	t.Helper()
	n := len(h.Requests())
	if out, err := exec.Command("sh", "-c", walks, "sh", dir).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s, %v", out, err)
	}
	if all := h.Requests(); len(all) > n {
		t.Errorf("listing asked for %+v", all[n:])
	}
}

// TestOnDemand opens models by their paths, with nothing on this machine. Listings cause no
// request, neither before nor after.
func TestOnDemand(t *testing.T) {
	h := demandHub(t)
	dir := mountedFar(t, "hf:", "--on-demand", "--gguf-type", "q8_0", "--max-open", "1")
	walk(t, h, dir)
	if len(h.Requests()) > 0 {
		t.Fatalf("%+v", h.Requests())
	}
	_, err := os.Stat(dir + "/Qwen/Tiny")
	must(t, err)
	walk(t, h, dir)
	got, err := os.ReadFile(dir + "/Qwen/Tiny/gguf/model.gguf")
	must(t, err)
	t.Logf("opened with %d requests, %d bytes", len(h.Requests()), h.Sent())
	walk(t, h, dir)

	h.Reset()
	if again, err := os.ReadFile(dir + "/Qwen/Tiny/gguf/model.gguf"); err != nil || !bytes.Equal(again, got) || len(h.Requests()) > 0 {
		t.Errorf("the second time: %v, %+v", err, h.Requests())
	}
	// The second model closes the first one.
	_, err = os.ReadFile(dir + "/acme/two:F16/raw/t")
	must(t, err)
	h.Reset()
	h.Commit("Qwen/Tiny", map[string][]byte{"README.md": nil}) // the mount keeps its commit
	walk(t, h, dir)
	if again, err := os.ReadFile(dir + "/Qwen/Tiny/gguf/model.gguf"); err != nil || !bytes.Equal(again, got) || len(h.Requests()) > 0 {
		t.Errorf("opened again: %v, %+v", err, h.Requests())
	}
	about := aboutDemand(t, dir)
	if len(about) != 2 || about["Qwen/Tiny"].Reason != "" || about["acme/two:F16"].Reason != "" {
		t.Errorf("%v", about)
	}
	if st := statusOf(t, dir); !st.Library || *st.Models != 2 || len(st.Open) != 1 || st.Counts == nil || st.Counts.Fetched == 0 {
		t.Errorf("%+v", st)
	}
	if want := succeeds(t, "cat", about["Qwen/Tiny"].Model, "gguf/model.gguf", "--gguf-type", "q8_0"); string(got) != want {
		t.Error("gguf/model.gguf differs from the one of the command cat")
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"Qwen", "README", "acme", libdir.AboutName}) {
		t.Errorf("%q", names)
	}
}

// TestOnDemandErrors gives programs ENOENT, EACCES or EIO, and reasons to people. It asks for a wrong
// name once. Tokens go to the server and nowhere else.
func TestOnDemandErrors(t *testing.T) {
	h := demandHub(t)
	const token = "hf_secret"
	t.Setenv("HF_TOKEN", token)
	h.Commit("acme/gated", map[string][]byte{"m.gguf": modelOf(3, 64)})
	h.Gated["acme/gated"] = true
	h.Commit("acme/private", map[string][]byte{"m.gguf": modelOf(4, 64)})
	h.Private["acme/private"] = "another"
	h.Commit("acme/mine", map[string][]byte{"m.gguf": modelOf(5, 64)})
	h.Private["acme/mine"] = token
	status := map[string]int{"/s401/": 401, "/s403/": 403, "/s404/": 404, "/s429/": 429, "/s500/": 500}
	h.Break(func(w http.ResponseWriter, r *http.Request, _ bool) bool {
		if strings.Contains(r.URL.Path, "/hangs/") {
			<-r.Context().Done()
			return true
		}
		for part, code := range status {
			if strings.Contains(r.URL.Path, part) {
				w.WriteHeader(code)
				return true
			}
		}
		return false
	})
	dir := mountedFar(t, "hf:", "--on-demand")
	impatient := mountedFar(t, "hf:", "--on-demand", "--timeout", "2s") // for what is asked for again until then
	for _, tt := range []struct {
		at     string
		want   error
		reason string
	}{
		{"acme/mine", nil, ""},
		{"s404/x", syscall.ENOENT, "there is no such model"},
		{"acme/mine@none", syscall.ENOENT, "no such revision"},
		{"acme/gated", syscall.EACCES, "the model is gated"},
		{"acme/private", syscall.EACCES, "you may not see it"},
		{"s401/x", syscall.EACCES, "you may not see it"},
		{"s403/x", syscall.EACCES, "refuses to show it"},
		{"s429/x", syscall.EIO, "limits requests"},
		{"s500/x", syscall.EIO, "500 Internal Server Error"},
		{"hangs/x", syscall.EIO, "did not answer"},
		{"acme/two", syscall.EIO, "name one, such as hf:acme/two:"},
	} {
		dir := dir
		if tt.want == syscall.EIO {
			dir = impatient
		}
		if _, err := os.Stat(filepath.Join(dir, tt.at)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.at, err, tt.want)
		}
		n := len(h.Requests())
		if _, err := os.Stat(filepath.Join(dir, tt.at)); !errors.Is(err, tt.want) || len(h.Requests()) > n {
			t.Errorf("%s again: %v after %d requests", tt.at, err, len(h.Requests())-n)
		}
		if m, ok := aboutDemand(t, dir)[tt.at]; !ok || !strings.Contains(m.Reason, tt.reason) || (tt.reason == "") != m.Available {
			t.Errorf("%s: it is %+v", tt.at, m)
		}
		if tt.want == nil {
			continue
		}
		st := statusOf(t, dir)
		if !slices.ContainsFunc(append(st.Errors, st.Warnings...), messageHas(tt.reason)) {
			t.Errorf("%s: status has no reason: %+v", tt.at, st)
		}
	}
	if out, err := exec.Command("grep", "-rl", token, dir).Output(); len(out) > 0 {
		t.Errorf("the token is in %s, %v", out, err)
	}
	h.Reset()
	t.Setenv("HF_TOKEN", "")
	other := mountedFar(t, "hf:", "--on-demand")
	for _, at := range []string{"none/none", "acme/private"} { // which the Hub does not tell apart
		if _, err := os.Stat(filepath.Join(other, at)); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("%s without a token: %v", at, err)
		}
	}
}

// messageHas returns a function that reports whether a fault has a text.
func messageHas(text string) func(f fs.Fault) bool {
	return func(f fs.Fault) bool { return strings.Contains(f.Message, text) }
}

// TestOnDemandHangs interrupts programs that wait for a server, and kills the tensorfs server while
// one does.
func TestOnDemandHangs(t *testing.T) {
	h := demandHub(t)
	held := make(chan string, 16)
	given := make(chan string, 16)
	h.Break(func(_ http.ResponseWriter, r *http.Request, _ bool) bool {
		if !strings.Contains(r.URL.Path, "/hangs/") && !strings.HasPrefix(r.URL.Path, "/acme/two/") {
			return false
		}
		held <- r.URL.Path
		<-r.Context().Done()
		given <- r.URL.Path
		return true
	})
	needFUSE(t)
	dir := t.TempDir()
	t.Cleanup(func() { mounts.Unmount(dir, true) })
	mountAt(t, dir, "hf:", "--on-demand")
	stat := func(at string) *exec.Cmd {
		c := exec.Command("stat", filepath.Join(dir, at))
		must(t, c.Start())
		return c
	}
	var all []*exec.Cmd
	for _, at := range []string{"hangs/a", "hangs/b", "acme/two:F16", "acme/two:Q8_0"} { // as many as are looked up at a time
		all = append(all, stat(at))
		<-held
	}
	fifth := stat("Qwen/Tiny")
	if _, err := os.ReadDir(dir + "/Qwen"); err != nil { // listings do not wait
		t.Error(err)
	}
	for _, c := range all {
		must(t, c.Process.Signal(syscall.SIGTERM))
		if err := c.Wait(); err == nil || !c.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			t.Errorf("%v", err)
		}
		<-given
	}
	if err := fifth.Wait(); err != nil {
		t.Error(err)
	}

	last := stat("hangs/last")
	<-held
	pid := statusOf(t, dir).PID
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	if err := last.Wait(); err == nil {
		t.Error("a look-up in a mount without a server succeeded")
	}
	ended(t, pid)
	mountAt(t, dir, "hf:", "--on-demand")
	pid = statusOf(t, dir).PID
	t.Cleanup(func() {
		_ = mounts.Unmount(dir, true)
		ended(t, pid)
	})
	h.Reset()
	if _, err := os.ReadFile(dir + "/Qwen/Tiny/gguf/model.gguf"); err != nil {
		t.Error(err)
	}
	if h.Count("/resolve/") > 0 || len(h.Requests()) != 1 { // which commit main is now
		t.Errorf("%+v", h.Requests())
	}
}

// TestOnDemandNames looks up many names from several programs at once: each is asked for once.
func TestOnDemandNames(t *testing.T) {
	h := demandHub(t)
	const names = 30
	for i := range names {
		h.Commit(fmt.Sprintf("acme/n%d", i), map[string][]byte{"m.gguf": modelOf(byte(i), 64)})
	}
	dir := mountedFar(t, "hf:", "--on-demand", "--max-open", "8")
	var programs sync.WaitGroup
	for range 2 {
		programs.Go(func() {
			for i := range names {
				b, err := os.ReadFile(fmt.Sprintf("%s/acme/n%d/raw/t", dir, i))
				if err != nil || !bytes.Equal(b, bytes.Repeat([]byte{byte(i)}, 128)) {
					t.Errorf("%d: %d bytes, %v", i, len(b), err)
				}
				if _, err := os.Stat(fmt.Sprintf("%s/acme/wrong%d", dir, i)); !errors.Is(err, syscall.ENOENT) {
					t.Error(err)
				}
			}
		})
	}
	programs.Wait()
	if n := h.Count("/revision/main"); n != 2*names {
		t.Errorf("%d requests for %d names", n, 2*names)
	}
	walk(t, h, dir)
	entries, err := os.ReadDir(dir + "/acme")
	if err != nil || len(entries) != names {
		t.Errorf("%d models, %v", len(entries), err)
	}
}

// TestOnDemandSingle opens a model whose name has no organisation, which the Hub redirects, if the
// path has a revision or a word. The bare name is a directory, and causes no request.
func TestOnDemandSingle(t *testing.T) {
	h := demandHub(t)
	h.Renamed["tiny"] = "Qwen/Tiny"
	h.Renamed["two"] = "acme/two"
	dir := mountedFar(t, "hf:", "--on-demand", "--max-open", "1")
	for _, at := range []string{"tiny", "two", "README@main", "tiny@", "-rf@x"} {
		st, err := os.Stat(filepath.Join(dir, at))
		if isDir := err == nil && st.IsDir(); isDir != !strings.Contains(at, "@") {
			t.Errorf("%s: %v", at, err)
		}
	}
	if entries, err := os.ReadDir(dir + "/tiny"); err != nil || len(entries) > 0 || len(h.Requests()) > 0 {
		t.Errorf("%v, %v, %+v", entries, err, h.Requests())
	}
	for at, want := range map[string]string{"tiny@main": "Qwen/Tiny/gguf/model.gguf", "two:F16": "acme/two:F16/raw/t"} {
		_, file, _ := strings.Cut(want[strings.Index(want, "/")+1:], "/")
		got, err := os.ReadFile(filepath.Join(dir, at, file))
		must(t, err)
		if same, err := os.ReadFile(filepath.Join(dir, want)); err != nil || !bytes.Equal(got, same) {
			t.Errorf("%s differs from %s: %v", at, want, err)
		}
	}
	h.Reset()
	walk(t, h, dir)
	if _, err := os.ReadFile(dir + "/tiny@main/gguf/model.gguf"); err != nil || len(h.Requests()) > 0 { // opened again
		t.Errorf("%v, %+v", err, h.Requests())
	}
	if _, err := os.Stat(dir + "/tiny/gguf/model.gguf"); !errors.Is(err, syscall.ENOENT) {
		t.Error(err)
	}
	about := aboutDemand(t, dir)
	if why := about["tiny/gguf"].Reason; !strings.Contains(why, "; a model without an organisation is tiny@main/gguf") {
		t.Error(why)
	}
	if m := about["tiny@main"].Model; !strings.HasPrefix(m, "hf:tiny@") || len(m) != len("hf:tiny@")+40 {
		t.Error(m)
	}
	if _, err := os.Stat(dir + "/tiny/none"); !errors.Is(err, syscall.ENOENT) || strings.Contains(aboutDemand(t, dir)["tiny/none"].Reason, "organisation") {
		t.Error(err)
	}
}

// TestOnDemandOllama opens models of a registry, which must be allowed by name.
func TestOnDemandOllama(t *testing.T) {
	apart(t)
	r := testhub.NewRegistry(t)
	b, config := modelOf(7, 64), []byte(`{"model_format":"gguf","model_family":"llama"}`)
	layer := func(kind string, b []byte) string {
		return fmt.Sprintf(`{"mediaType":"application/vnd.%s","digest":"sha256:%x","size":%d}`, kind, sha256.Sum256(b), len(b))
	}
	manifest := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","config":%s,"layers":[%s]}`,
		layer("docker.container.image.v1+json", config), layer("ollama.image.model", b))
	r.Push("ns/tiny/1b", manifest, config, b)
	dir := mountedFar(t, "ollama:", "--on-demand", "--max-open", "1", "--allow-orgs", r.Host()+"/ns")
	for _, at := range []string{"tiny:1b", r.Host() + "/other/tiny:1b", r.Host() + "/ns/tiny", "127.0.0.1:1/ns/tiny:1b", r.Host() + "/.git"} {
		if _, err := os.Stat(filepath.Join(dir, at)); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if len(r.Requests()) > 0 {
		t.Errorf("%+v", r.Requests())
	}
	if got, err := os.ReadFile(dir + "/" + r.Host() + "/ns/tiny:1b/raw/t"); err != nil || len(got) != 128 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := os.Stat(dir + "/" + r.Host() + "/ns/tiny:2b"); !errors.Is(err, syscall.ENOENT) {
		t.Error(err)
	}
	// Another one closes it, and then a listing opens it again.
	r.Push("ns/other/1b", manifest)
	if _, err := os.Stat(dir + "/" + r.Host() + "/ns/other:1b"); err != nil {
		t.Error(err)
	}
	r.Reset()
	if out, err := exec.Command("du", "-a", dir).CombinedOutput(); err != nil || strings.Count(string(out), "/raw/t\n") != 2 || len(r.Requests()) > 0 {
		t.Errorf("%s, %v, %+v", out, err, r.Requests())
	}
}

// TestOnDemandOffline asks for nothing, and opens what the cache has.
func TestOnDemandOffline(t *testing.T) {
	h := demandHub(t)
	succeeds(t, "info", "hf:acme/two:F16")
	h.Reset()
	t.Setenv("TENSORFS_OFFLINE", "1")
	dir := mountedFar(t, "hf:", "--on-demand")
	if _, err := os.ReadFile(dir + "/acme/two:F16/raw/t"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir + "/Qwen/Tiny"); !errors.Is(err, syscall.ENOENT) || len(h.Requests()) > 0 {
		t.Errorf("%v, %+v", err, h.Requests())
	}
	if why := aboutDemand(t, dir)["Qwen/Tiny"].Reason; !strings.Contains(why, "TENSORFS_OFFLINE forbids asking") {
		t.Error(why)
	}
}

// TestOnDemandRefuses refuses flags that would have no effect.
func TestOnDemandRefuses(t *testing.T) {
	apart(t)
	t.Setenv(asProgram, "1")
	dir := t.TempDir()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--on-demand", "--as", "gguf", "hf:"}, "--on-demand shows ORG/NAME directories, and --as gguf other ones; leave one of the two out"},
		{[]string{"--on-demand", "--as", "hf", "hf:", "ollama:"}, "leave one of the two out"},
		{[]string{"--on-demand", "lmstudio:"}, "--on-demand is for a store with a server: name hf: or ollama: instead of lmstudio:"},
		{[]string{"--on-demand", q8}, "name hf: or ollama: instead of "},
		{[]string{"--on-demand", "--cache-size", "0", "hf:"}, "--on-demand opens models again from the cache, and --cache-size 0 keeps nothing there; leave it out"},
		{[]string{"--on-demand", "--warm", "hf:"}, "--warm is for one model, and this is a library"},
		{[]string{"--on-demand", "--lora", q8, "hf:"}, "--lora is for one model"},
		{[]string{"--on-demand", "--allow-orgs", "a/b", "hf:"}, `--allow-orgs: "a/b" is not the name of an organisation`},
		{[]string{"--on-demand", "--allow-orgs", ",", "hf:"}, "--allow-orgs: name an organisation, such as Qwen"},
		{[]string{"--allow-orgs", "a", "hf:"}, "--allow-orgs restricts --on-demand; give that flag too"},
	} {
		failsWith(t, 2, append([]string{"mount"}, append(tt.args, dir)...), tt.want)
	}
	file := filepath.Join(t.TempDir(), "file") // below a file, root cannot make a directory either
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	failsWith(t, 1, []string{"mount", "--on-demand", "--cache", file, "hf:", dir}, "--on-demand opens models again from the cache: "+file+": cannot keep a cache here")
}

// TestOnDemandLlama has llama.cpp load a path that was never looked up, and load it again without a
// request.
func TestOnDemandLlama(t *testing.T) {
	needFUSE(t)
	l := startLlama(t)
	h := demandHub(t)
	dir := mountedFar(t, "hf:", "--on-demand")
	prompt := "hello world"
	job := llamaJob{Model: dir + "/Qwen/Tiny/gguf/model.gguf", Mmap: true, Prompt: &prompt}
	first := l.run(t, job)
	if !first.OK || len(first.Greedy) == 0 {
		t.Fatal(first.Error)
	}
	t.Logf("the first start: %d requests, %d bytes", len(h.Requests()), h.Sent())
	h.Reset()
	if second := l.run(t, job); !slices.Equal(second.Greedy, first.Greedy) || len(h.Requests()) > 0 {
		t.Errorf("the second start: %v, %+v", second.Greedy, h.Requests())
	}
	job.Model = dir + "/Qwen/Wrong/gguf/model.gguf"
	if wrong := l.run(t, job); wrong.OK {
		t.Error("it loads a model that does not exist")
	}
	testlimit.Wait(t, "the reason", func() bool { return aboutDemand(t, dir)["Qwen/Wrong"].Reason != "" })
}
