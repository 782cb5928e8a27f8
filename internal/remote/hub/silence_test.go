package hub

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

// options are the options for a Hub, with nothing else in the environment.
func options(h *testhub.Hub) Options {
	return Options{Env: func(name string) string { return map[string]string{"HF_ENDPOINT": h.URL}[name] }}
}

// A commit that was opened is opened where the Hub does not answer, and not where it
// refuses.
func TestSilence(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	want := []byte(strings.Repeat("0123456789abcdef", 200_000))
	h.Commit("org/name", map[string][]byte{"config.json": []byte("{}"), "model.gguf": want})
	for _, name := range []string{"hf:org/name", "hf:org/name@main/model.gguf"} {
		repository, revision, _ := strings.Cut(strings.TrimPrefix(name, prefix), "@")
		testremote.Silence{Name: name, Want: want, Options: options(h),
			Open: func(o Options) (*remote.Listing, string, error) {
				l, _, err := Open(t.Context(), repository, revision, o)
				return l, "model.gguf", err
			},
			Fault: func(answer func(http.ResponseWriter, *http.Request) bool) {
				h.Break(func(w http.ResponseWriter, r *http.Request, _ bool) bool { return answer(w, r) })
			},
		}.Test(t)
	}
}

// The pages of a list take no longer than a reader waits, all together.
func TestPagesInTime(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	h.Commit("org/name", map[string][]byte{"config.json": []byte("{}")})
	var pages atomic.Int64
	h.Break(func(w http.ResponseWriter, r *http.Request, _ bool) bool {
		if !strings.Contains(r.URL.Path, "/tree/") {
			return false
		}
		n := pages.Add(1)
		time.Sleep(100 * time.Millisecond)
		w.Header().Set("Link", "</?cursor="+strings.Repeat("x", int(n))+`>; rel="next"`)
		w.Write([]byte("[]"))
		return true
	})
	store, _ := testremote.Cache(t)
	o := options(h)
	o.Client, o.Store = testremote.Client(t, time.Second), store
	_, _, err := Open(t.Context(), "org/name", "", o)
	if err == nil || !strings.HasPrefix(err.Error(), "hf:org/name: the Hub did not answer: ") || pages.Load() > 10 {
		t.Errorf("%v after %d pages", err, pages.Load())
	}
}
