package ollama

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// A model that was opened is opened where the registry does not answer, and not where
// it refuses.
func TestSilence(t *testing.T) {
	r := testhub.NewRegistry(t)
	want := []byte(strings.Repeat("0123456789abcdef", 200_000))
	r.Push("library/tiny/latest", manifestOf(want), want)
	name := r.Host() + "/library/tiny"
	testremote.Silence{Name: prefix + name + ":latest", Want: want,
		Open: func(c *web.Client, store *cache.Store) (*remote.Listing, string, error) {
			l, _, err := Open(t.Context(), name, Options{Client: c, Store: store, Env: func(string) string { return "" }})
			return l, "blobs/sha256-" + digest(want), err
		},
		Fault: func(answer http.HandlerFunc) {
			r.Break(func(w http.ResponseWriter, r *http.Request, _ bool) bool {
				if answer != nil {
					answer(w, r)
				}
				return answer != nil
			})
		},
	}.Test(t)
}
