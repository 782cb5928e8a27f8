package hub

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
)

const (
	gitID  = "0123456789abcdef0123456789abcdef01234567"
	sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// Lists of files that are refused, in one line.
func TestHostileTrees(t *testing.T) {
	t.Parallel()
	file := func(path, rest string) string { return `[{"type":"file","path":"` + path + `",` + rest + `}]` }
	good := `"size":5,"oid":"` + gitID + `"`
	var page atomic.Value
	pages := atomic.Int64{}
	h := testhub.NewHub(t)
	h.Commit("org/name", map[string][]byte{"config.json": []byte("{}")})
	h.Break(func(w http.ResponseWriter, r *http.Request, _ bool) bool {
		if !strings.Contains(r.URL.Path, "/tree/") {
			return false
		}
		pages.Add(1)
		page.Load().(http.HandlerFunc)(w, r)
		return true
	})
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, s) }
	}
	for name, tt := range map[string]struct {
		page http.HandlerFunc
		want string
	}{
		"up":               {text(file("../../etc/passwd", good)), "is not the name of a file in a model"},
		"absolute":         {text(file("/etc/passwd", good)), "is not the name of a file in a model"},
		"up inside":        {text(file("a/../b", good)), "is not the name of a file in a model"},
		"backslash":        {text(file(`a\\..\\b`, good)), "is not the name of a file in a model"},
		"empty":            {text(file("", good)), "is not the name of a file in a model"},
		"a long name":      {text(file(strings.Repeat("d", 5000), good)), "is longer than 4096 bytes"},
		"deep":             {text(file(strings.Repeat("a/", 100_000)+"m.gguf", good)), "is longer than 4096 bytes"},
		"many parts":       {text(file(strings.Repeat("a/", 64)+"m.gguf", good)), "has more than 64 parts"},
		"twice":            {text(strings.Replace(file("a", good)+file("a", good), "][", ",", 1)), "is there twice"},
		"file and dir":     {text(strings.Replace(file("a", good)+file("a/b", good), "][", ",", 1)), "is a file and also a directory"},
		"negative":         {text(file("a", `"size":-1,"oid":"`+gitID+`"`)), `"a" has a size of -1 bytes`},
		"huge":             {text(file("a", `"lfs":{"size":17592186044417,"oid":"`+sha256+`"}`)), `"a" has a size of 17592186044417 bytes`},
		"fraction":         {text(file("a", `"size":1e300,"oid":"`+gitID+`"`)), "is not as it should be"},
		"no id":            {text(file("a", `"size":5`)), "has an identity that is not a digest"},
		"not hex":          {text(file("a", `"size":5,"oid":"../../../../../../../../../../../../../../"`)), "has an identity that is not a digest"},
		"upper case":       {text(file("a", `"size":5,"oid":"`+strings.ToUpper(gitID)+`"`)), "has an identity that is not a digest"},
		"SHA-256 too long": {text(file("a", `"lfs":{"size":5,"oid":"`+sha256+`0"}`)), "has an identity that is not a digest"},
		"no SHA-256":       {text(file("a", good+`,"lfs":{"size":5}`)), `"a" has no digest`},
		"an object":        {text(`{"error":"x"}`), "is not as it should be"},
		"HTML":             {text("<html>"), "is not as it should be"},
		"broken off":       {text(strings.TrimSuffix(file("a", good), "]")), "is not as it should be"},
		"more after it":    {text(file("a", good) + "[]"), "is not as it should be"},
		"keys twice":       {text(file("a", good+`,"size":6`)), "is not as it should be"},
		"many entries":     {text("[" + strings.Repeat(`{"type":"directory"},`, maxEntries) + `{}]`), "has more than 100000 entries"},
		"long": {func(w http.ResponseWriter, r *http.Request) {
			for range maxListing>>20 + 1 {
				w.Write([]byte(strings.Repeat(" ", 1<<20)))
			}
		}, "the answer has more than 67108864 bytes"},
		"no end": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", fmt.Sprintf(`<http://127.0.0.1:1/?cursor=%d>; rel="next"`, pages.Load()))
			fmt.Fprint(w, "[]")
		}, "does not end"},
		"in a circle": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", `</?cursor=x>; rel="next"`)
			fmt.Fprint(w, "[]")
		}, "has a next page without an address"},
	} {
		t.Run(name, func(t *testing.T) {
			page.Store(tt.page)
			pages.Store(0)
			m := newMachine(t, h)
			_, _, err := m.open("org/name", "")
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if n := pages.Load(); n > remote.MaxPages {
				t.Errorf("%d pages", n)
			}
		})
	}
}

// The request for a commit, and malformed answers.
func TestHostileCommits(t *testing.T) {
	t.Parallel()
	var text string
	h := testhub.NewHub(t)
	h.Break(func(w http.ResponseWriter, r *http.Request, _ bool) bool {
		fmt.Fprint(w, text)
		return true
	})
	for _, tt := range []struct{ revision, text, want string }{
		{"", `<html>`, "is not a description of a model"},
		{"", `[]`, "is not a description of a model"},
		{"", `{"sha":5}`, "is not a description of a model"},
		{"", `{"sha":"../../x"}`, "names no commit"},
		{"", `{}`, "names no commit"},
		{gitID, `{"sha":"` + sha256[:39] + `f"}`, "is of another commit"},
	} {
		text = tt.text
		if _, _, err := newMachine(t, h).open("org/name", tt.revision); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", tt.text, err, tt.want)
		}
	}
	n := len(h.Requests())
	for _, name := range []string{"", "/", "a/b/c", "..", "a/..", "../b", "a b/c", "a/b?x", "a/b#x", "a/b%2fc", "a@b/c", "a/b:c", "a\\b/c", "a/b\nc"} {
		if _, _, err := newMachine(t, h).open(name, ""); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, revision := range []string{"..", "a/../b", "/a", "a/", "a//b", ".", "a\nb", strings.Repeat("a/", 600) + "a"} {
		if _, _, err := newMachine(t, h).open("org/name", revision); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", revision, err)
		}
	}
	if len(h.Requests()) > n {
		t.Error("it was asked for names that are none")
	}
}

// A name that was kept is not trusted more than a server.
func TestHostilePins(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	id := h.Commit("org/name", map[string][]byte{"config.json": []byte("{}")})
	for _, files := range [][]file{{{Path: "a", Size: -1, Git: gitID}}, {{Path: "a", Size: 1, Git: "x"}}, {{Path: "a", Size: 1}}} {
		m := newMachine(t, h)
		m.mustOpen(t, "org/name", "")
		key := prefix + h.URL + "/org/name@" + id
		var s snapshot
		if _, ok := m.o.Store.Pinned(key, &s); !ok || len(s.Files) != 1 {
			t.Fatalf("%+v", s)
		}
		s.Files = files
		if err := m.o.Store.Pin(key, s); err != nil {
			t.Fatal(err)
		}
		if l, _, err := m.open("org/name", ""); err != nil || l.Items()[0].Name != "config.json" {
			t.Errorf("%v, %v", l, err)
		}
	}
}

func TestNextPage(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]string{
		"": "-", "<": "-", "<x>": "-", `<https://h/x?cursor=a%3D&b=c>; rel="next"`: "cursor=a%3D&b=c", `</x?c=1>;rel=next`: "c=1",
		`<https://h/?a=1>; rel="prev", <https://h/?a=2>; rel="next"`: "a=2", `<?a=1>; rel="prev",<?a=2>; title="x"; REL=next`: "a=2",
		`<?a=1>; rel="prev"`: "-", `<https://h/>; rel="next"`: "", `<:bad>; rel="next"`: "", `<?a=,;1>; rel="next"`: "a=,;1",
	} {
		query, ok := nextPage(link)
		if !ok {
			query = "-"
		}
		if query != want {
			t.Errorf("%s: %q, want %q", link, query, want)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		env              map[string]string
		endpoint, offers string
	}{
		{map[string]string{}, publicHub, ""},
		{map[string]string{"HF_ENDPOINT": "https://hub.example.org/hf//", "HF_TOKEN": " a\n"}, "https://hub.example.org/hf", "a"},
		{map[string]string{"HF_TOKEN_PATH": "/dev/null/x"}, "", ""},
		{map[string]string{"HF_TOKEN_PATH": "/dev/null"}, "", ""},
		{map[string]string{"HF_HOME": "/dev/null"}, publicHub, ""},
		{map[string]string{"HF_TOKEN_PATH": "/does/not/exist"}, publicHub, ""},
		{map[string]string{"HF_TOKEN_PATH": "/dev/null", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "True"}, publicHub, ""},
	} {
		s, err := SettingsOf(func(name string) string { return tt.env[name] })
		if tt.endpoint == "" {
			if err == nil {
				t.Errorf("%v: %+v", tt.env, s.Endpoint)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", tt.env, err)
			continue
		}
		if token, err := s.Token(); err != nil || s.Endpoint.String() != tt.endpoint || token != tt.offers {
			t.Errorf("%v: %v, %v", tt.env, s.Endpoint, err)
		}
	}
}

func FuzzTree(f *testing.F) {
	f.Add([]byte(`[{"type":"file","path":"a/b","size":5,"oid":"` + gitID + `"},{"type":"directory","path":"a","oid":"","size":0}]`))
	f.Add([]byte(`[{"type":"file","path":"m.gguf","size":5,"oid":"` + gitID + `","lfs":{"oid":"` + sha256 + `","size":5,"pointerSize":1},"xetHash":"x"}]`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, page []byte) {
		var tr tree
		if err := tr.add(page); err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Errorf("%q", err)
			}
			return
		}
		for i := range tr.files {
			if x := &tr.files[i]; x.check() != "" || x.Size < 0 || x.Size > cache.MaxSize {
				t.Errorf("%+v", x)
			}
		}
		h := &hub{}
		h.Endpoint, _ = endpoint("")
		l, err := h.listing("o/n", remote.Answer[*snapshot]{Value: &snapshot{Repository: "o/n", Commit: gitID, Files: tr.files}})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Errorf("%q", err)
			}
			return
		}
		for _, x := range l.Items() {
			u, err := url.Parse(h.resolve(&snapshot{Repository: "o/n", Commit: gitID}, x.Name))
			if err != nil || u.Host != "huggingface.co" || u.RawQuery != "" || u.Fragment != "" || u.Path != "/o/n/resolve/"+gitID+"/"+x.Name {
				t.Errorf("%q is at %v, %v", x.Name, u, err)
			}
		}
	})
}

func FuzzNextPage(f *testing.F) {
	f.Add(`<https://huggingface.co/api/models/o/n/tree/main?cursor=x>; rel="next"`)
	f.Add(`<a>; rel=prev, <b?c>; rel="next"`)
	h := &hub{}
	h.Settings, _ = SettingsOf(func(string) string { return "" })
	f.Fuzz(func(t *testing.T, link string) {
		query, ok := nextPage(link)
		if !ok {
			return
		}
		req, err := h.request(context.Background(), h.api("o/n", "tree", gitID)+"?"+query)
		if err == nil && (req.URL.Host != "huggingface.co" || req.URL.Scheme != "https" || req.URL.Path != "/api/models/o/n/tree/"+gitID) {
			t.Errorf("%q leads to %v", link, req.URL)
		}
	})
}

func FuzzName(f *testing.F) {
	f.Add("org/name", "main")
	f.Add("name", "refs/pr/1")
	f.Add("o/n", "a b%?#")
	h := &hub{}
	h.Endpoint, _ = endpoint("")
	f.Fuzz(func(t *testing.T, repository, revision string) {
		if err := check(repository, revision); err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Errorf("%q", err)
			}
			return
		}
		u, err := url.Parse(h.api(repository, "revision", revision))
		if err != nil || u.Host != "huggingface.co" || u.RawQuery != "" || u.Fragment != "" || u.Path != "/api/models/"+repository+"/revision/"+revision ||
			strings.Count(u.EscapedPath(), "/") != 5+strings.Count(repository, "/") {
			t.Errorf("%q@%q is at %v, %v", repository, revision, u, err)
		}
		if k := tensorfs.Printable(h.pin(repository, revision)); k == "" {
			t.Error("no key")
		}
	})
}
