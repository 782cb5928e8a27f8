package hub

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// A commit that was opened is opened where the Hub does not answer, and not where it
// refuses.
func TestSilence(t *testing.T) {
	h := testhub.NewHub(t)
	want := []byte(strings.Repeat("0123456789abcdef", 200_000))
	h.Commit("org/name", map[string][]byte{"config.json": []byte("{}"), "model.gguf": want})
	for _, name := range []string{"hf:org/name", "hf:org/name@main/model.gguf"} {
		repository, revision, _ := strings.Cut(strings.TrimPrefix(name, prefix), "@")
		testremote.Silence{Name: name, Want: want,
			Open: func(c *web.Client, store *cache.Store) (*remote.Listing, string, error) {
				l, _, err := Open(t.Context(), repository, revision, Options{Client: c, Store: store,
					Env: func(name string) string { return map[string]string{"HF_ENDPOINT": h.URL}[name] }})
				return l, "model.gguf", err
			},
			Fault: func(answer http.HandlerFunc) {
				h.Break(func(w http.ResponseWriter, r *http.Request, _ bool) bool {
					if answer != nil {
						answer(w, r)
					}
					return answer != nil
				})
			},
		}.Test(t)
	}
}

// The pages of a list take no longer than a reader waits, all together.
func TestPagesInTime(t *testing.T) {
	h := testhub.NewHub(t)
	h.Commit("org/name", map[string][]byte{"config.json": []byte("{}")})
	var pages atomic.Int64
	h.Fault = func(w http.ResponseWriter, r *http.Request, _ bool) bool {
		if !strings.Contains(r.URL.Path, "/tree/") {
			return false
		}
		n := pages.Add(1)
		time.Sleep(100 * time.Millisecond)
		w.Header().Set("Link", "</?cursor="+strings.Repeat("x", int(n))+`>; rel="next"`)
		w.Write([]byte("[]"))
		return true
	}
	store, _ := testremote.Cache(t)
	_, _, err := Open(context.Background(), "org/name", "", Options{Client: testremote.Client(t, time.Second), Store: store, Env: func(name string) string {
		return map[string]string{"HF_ENDPOINT": h.URL}[name]
	}})
	if err == nil || !strings.HasPrefix(err.Error(), "hf:org/name: the Hub did not answer: ") || pages.Load() > 10 {
		t.Errorf("%v after %d pages", err, pages.Load())
	}
}
