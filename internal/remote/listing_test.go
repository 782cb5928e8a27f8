package remote

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/web"
)

// names makes a listing of files of those names.
func names(t *testing.T, list ...string) (*Listing, error) {
	t.Helper()
	var items []Item
	for _, n := range list {
		items = append(items, Item{Name: n})
	}
	return NewListing("x:y", items, nil, nil)
}

// A listed name that cannot be a file's name is refused.
func TestNames(t *testing.T) {
	for _, bad := range [][]string{
		{""}, {"."}, {".."}, {"../x"}, {"a/../../x"}, {"a/../x"}, {"/x"}, {"a//b"}, {"a/"}, {"./a"}, {`a\b`}, {"a\x00"}, {"a/.."}, {"\xff"},
		{"a", "a"}, {"a", "a/b"}, {"a/b/c", "a/b"}, {"a", "a-b", "a.c", "a/b"}, {"x", "a/b", "a/b!", "a/b/c/d"},
		{long(maxName+1, 2)}, {long(200, maxParts+1)}, {strings.Repeat("a/", 100_000) + "m.gguf"},
	} {
		if _, err := names(t, bad...); err == nil || !strings.HasPrefix(err.Error(), "x:y: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := names(t, "a", "a.b", "c/d", "c/e/f", "...", "x y", "c-d", "c.d/e", long(maxName, 2), long(200, maxParts)); err != nil {
		t.Error(err)
	}
}

// long is a name of so many bytes and parts.
func long(size, parts int) string {
	return strings.Repeat("d/", parts-1) + strings.Repeat("n", size-2*(parts-1))
}

// A listing costs what its names have bytes, however many directories they make.
func TestDeepNames(t *testing.T) {
	var items []Item
	for i := range 3000 { // 12 MB, and 189,000 directories
		var parts []string
		for range maxParts - 1 {
			parts = append(parts, fmt.Sprintf("%060d", i))
		}
		items = append(items, Item{Name: strings.Join(append(parts, "m"), "/")})
	}
	testlimit.Work(t, 30, func() {
		if _, err := NewListing("x:y", items, nil, nil); err != nil {
			t.Error(err)
		}
	})
	big := Item{Name: strings.Repeat("a/", 1<<20) + "m"}
	items = slices.Repeat([]Item{big}, maxItems) // of one text, refused before they are compared
	testlimit.Work(t, 3, func() {
		if _, err := NewListing("x:y", items, nil, nil); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.1000v", err)
		}
	})
}

// FuzzListing makes listings of any names, one per line. Accepted listings are bounded, lead only
// downwards, and each file is found in its directory.
func FuzzListing(f *testing.F) {
	for _, s := range []string{"a\nb/c", "a\na/b", "a\na-b\na/b", "../x", "a//b", long(maxName, 2), long(maxName+1, 2), long(200, maxParts) + "\nd", long(200, maxParts+1), strings.Repeat("a/", 5000) + "m", "a\\b", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var items []Item
		for name := range strings.SplitSeq(text, "\n") {
			items = append(items, Item{Name: name})
		}
		l, err := NewListing("x:y", items, nil, nil)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 1000 {
				t.Errorf("%q", err)
			}
			return
		}
		for _, x := range l.Items() {
			if !fs.ValidPath(x.Name) || len(x.Name) > maxName || strings.Count(x.Name, "/") >= maxParts {
				t.Fatalf("%q", x.Name)
			}
			for at, isDir := x.Name, false; at != "."; at, isDir = path.Dir(at), true {
				list, err := l.ReadDir(path.Dir(at))
				if i := slices.IndexFunc(list, func(e fs.DirEntry) bool { return e.Name() == path.Base(at) }); err != nil || i < 0 || list[i].IsDir() != isDir {
					t.Fatalf("%q is not in its directory: %v, %v", at, list, err)
				}
			}
		}
	})
}

// Which of a server's files is the model.
func TestChoose(t *testing.T) {
	for _, tt := range []struct {
		files string
		want  string // or a part of the error
	}{
		{"README.md model.gguf", "model.gguf"},
		{"config.json model.safetensors model.gguf", "."},
		{"model.safetensors", "."},
		{"config.json sub/x.safetensors sub/y.gguf", "sub/y.gguf"},
		{"a-00002-of-00002.gguf a-00001-of-00002.gguf", "a-00001-of-00002.gguf"},
		{"mmproj-x.gguf x.GGUF", "x.GGUF"},
		{"mmproj-x.gguf imatrix.gguf sub/x.gguf", "sub/x.gguf"},
		{"mmproj-x.gguf", "mmproj-x.gguf"},
		{"README.md", "."},
		{"a-00003-of-00002.gguf", "a-00003-of-00002.gguf"}, // its number is impossible
		{"a.gguf b.gguf", "x:y: it holds 2 models: a.gguf, b.gguf; name one of them"},
		{"a.gguf b.gguf c.gguf d.gguf e.gguf f.gguf g.gguf h.gguf i.gguf", "x:y: it holds 9 models: a.gguf, b.gguf, c.gguf, d.gguf, e.gguf, f.gguf, g.gguf, h.gguf, ...; name one of them"},
	} {
		l, err := names(t, strings.Fields(tt.files)...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Choose()
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q", tt.files, got)
		}
	}
}

// archive is an origin of bytes.
type archive struct{ url string }

func (a archive) Request(ctx context.Context, _, _ int64, _ bool) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, http.MethodGet, a.url, nil)
}
func (a archive) Accept(*http.Response) error  { return nil }
func (a archive) Refused(*http.Response) error { return nil }

// serving is a server of a file, and who asks it.
func serving(t *testing.T, data []byte) (archive, *web.Client, *cache.Store) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	store, err := cache.Open(cache.Options{Budget: -1})
	if err != nil {
		t.Fatal(err)
	}
	c := web.NewClient(web.Options{Public: func(netip.Addr) bool { return false }})
	t.Cleanup(func() { c.Close(); store.Close(); s.Close() })
	return archive{s.URL}, c, store
}

// Members of an archive are files of a listing, with their own sizes. One that is
// not inside is refused.
func TestParts(t *testing.T) {
	data := []byte("before [the member] after")
	from, c, store := serving(t, data)
	id := cache.ID{Key: "archive", Size: int64(len(data))}
	items := []Item{{Name: "a/member", ID: id, Origin: from, Part: &Part{8, 10}}, {Name: "empty", ID: id, Origin: from, Part: &Part{25, 0}}}
	l, err := NewListing("x:y", items, c, store)
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.OpenFile("a/member")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, f.Size())
	if err := tensorfs.ReadFull(f, got, 0); err != nil || string(got) != "the member" {
		t.Errorf("%q, %v", got, err)
	}
	e, err := l.ReadDir("a")
	if err != nil || len(e) != 1 {
		t.Fatal(err)
	}
	if info, err := e[0].Info(); err != nil || info.Size() != 10 || info.Mode() != fs.FileMode(0o444) {
		t.Errorf("%v, %v", info, err)
	}
	for _, p := range []Part{{-1, 2}, {0, 26}, {25, 1}, {26, 0}, {8, -1}, {1 << 62, 1 << 62}} {
		if _, err := NewListing("x:y", []Item{{Name: "m", ID: id, Part: &p}}, c, store); err == nil || !strings.Contains(err.Error(), "is not inside its archive") {
			t.Errorf("%v: %v", p, err)
		}
	}
}

// Who opens many files is told how far their beginnings have come, and who opens a
// few is not.
func TestPrepareTells(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), cache.CellSize/8)
	from, c, store := serving(t, data)
	for _, n := range []int{few, few + 1} {
		var items []Item
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("%d.safetensors", i))
			items = append(items, Item{Name: list[i], ID: cache.ID{Key: fmt.Sprint(n, i), Size: int64(len(data))}, Origin: from})
		}
		l, err := NewListing("x:y", items, c, store)
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		var came atomic.Int64
		l.Progress = func(what string, total int64) (func(int64), func()) {
			told = append(told, fmt.Sprint(what, ", ", total/cache.CellSize, " cells"))
			return func(n int64) { came.Add(n) }, func() { told = append(told, fmt.Sprint("the end of ", came.Load()/cache.CellSize)) }
		}
		l.Prepare(list)()
		if got, want := strings.Join(told, "; "), map[int]string{few + 1: "open 9 files, 9 cells; the end of 9"}[n]; got != want {
			t.Errorf("%d files: %q, want %q", n, got, want)
		}
	}
}
