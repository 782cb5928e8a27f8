package formats_test

import (
	"context"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/remote/hub"
	registry "github.com/tensorfs/tensorfs/internal/remote/ollama"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/web"
)

// client returns a client and a cache that end with the test.
func client(t *testing.T) (*web.Client, *cache.Store) {
	t.Helper()
	store, err := cache.Open(cache.Options{Dir: filepath.Join(memory.Dir(t), "cache"), Budget: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	c := web.NewClient(web.Options{Timeout: 20 * time.Second, Public: func(netip.Addr) bool { return false }})
	t.Cleanup(func() { c.Close(); store.Close() })
	return c, store
}

// compare opens a model on a server and the same one at a path.
func compare(t *testing.T, l *remote.Listing, name, path string, there *strings.Replacer, errors bool) (opened bool) {
	t.Helper()
	far, err := formats.OpenFS(l, name)
	near, nerr := formats.Open(path)
	if err != nil || nerr != nil {
		if err == nil || nerr == nil || errors && err.Error() != there.Replace(nerr.Error()) {
			t.Errorf("error %v, and of the path %v", err, nerr)
		}
		return false
	}
	defer near.Close()
	sameModels(t, far, near, there)
	if err := far.Close(); err != nil {
		t.Error(err)
	}
	return true
}

// TestElsewhereHub opens every model of testdata, sound or not, from a Hub: it is
// the model, or the refusal, that the path gives, and every view reads the same
// bytes. Offline it is the same once more.
func TestElsewhereHub(t *testing.T) {
	h := testhub.NewHub(t)
	c, store := client(t)
	o := hub.Options{Client: c, Store: store, Env: func(name string) string { return map[string]string{"HF_ENDPOINT": h.URL}[name] }}
	for _, o.Offline = range []string{"", "--offline"} {
		h.Reset()
		listings := map[string]*remote.Listing{}
		opened, refused := 0, 0
		for _, x := range candidates(t) {
			if strings.HasPrefix(x.name, "manifests/") {
				continue
			}
			t.Run(strings.TrimPrefix(filepath.Join(x.dir, x.name), testdata+"/"), func(t *testing.T) {
				repository := "org/" + strings.ReplaceAll(strings.TrimPrefix(x.dir, testdata+"/"), "/", "--")
				if listings[x.dir] == nil {
					if o.Offline == "" {
						m, err := memory.Load(x.dir)
						if err != nil {
							t.Fatal(err)
						}
						h.Commit(repository, m.Files)
					}
					l, _, err := hub.Open(context.Background(), repository, "", o)
					if err != nil {
						t.Fatal(err)
					}
					listings[x.dir] = l
				}
				l := listings[x.dir]
				abs, _ := filepath.Abs(x.dir)
				if compare(t, l, x.name, filepath.Join(x.dir, x.name), strings.NewReplacer(abs, l.Name), true) {
					opened++
				} else {
					refused++
				}
			})
		}
		if opened < 60 || refused < 100 {
			t.Errorf("%d models opened and %d refused", opened, refused)
		}
		for _, r := range h.Requests() {
			if o.Offline != "" || r.Data && r.Authorization != "" {
				t.Fatalf("it was asked for %v", r)
			}
		}
	}
}

// TestElsewhereRegistry does so with the models of an Ollama store, and a registry.
func TestElsewhereRegistry(t *testing.T) {
	r := testhub.NewRegistry(t)
	c, store := client(t)
	opened, refused := 0, 0
	for _, x := range candidates(t) {
		name, ok := strings.CutPrefix(x.name, "manifests/registry.ollama.ai/")
		if !ok {
			continue
		}
		t.Run(name, func(t *testing.T) {
			m, err := memory.Load(x.dir)
			if err != nil {
				t.Fatal(err)
			}
			var blobs [][]byte
			for file, b := range m.Files {
				if strings.HasPrefix(file, "blobs/") {
					blobs = append(blobs, b)
				}
			}
			r.Push(name, m.Files[x.name], blobs...)
			i := strings.LastIndex(name, "/")
			l, file, err := registry.Open(context.Background(), r.Host()+"/"+name[:i]+":"+name[i+1:], registry.Options{Client: c, Store: store})
			if err != nil { // the manifest is refused before there is a listing
				if near, nerr := formats.Open(filepath.Join(x.dir, x.name)); nerr == nil {
					near.Close()
					t.Errorf("error %v, and none of the path", err)
				}
				refused++
				return
			}
			abs, _ := filepath.Abs(x.dir)
			there := strings.NewReplacer(filepath.Join(abs, x.name), l.Location(file), abs, l.Name)
			if compare(t, l, file, filepath.Join(x.dir, x.name), there, false) {
				opened++
			} else {
				refused++
			}
		})
	}
	if opened < 10 {
		t.Errorf("%d models opened and %d refused", opened, refused)
	}
}
