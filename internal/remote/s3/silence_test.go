package s3

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// Objects that were opened are opened where the server does not answer, and not where
// it refuses.
func TestSilence(t *testing.T) {
	s := newFake(t)
	want := []byte(strings.Repeat("0123456789abcdef", 200_000))
	s.put("m/model.gguf", want)
	signedFor(t, s)
	for _, name := range []string{"s3://models/m/", "s3://models/m/model.gguf"} {
		testremote.Silence{Name: name, Want: want,
			Open: func(c *web.Client, store *cache.Store) (*remote.Listing, string, error) {
				o := options(t)
				o.Client, o.Store = c, store
				return Open(t.Context(), name, o)
			},
			Fault: func(answer http.HandlerFunc) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.fault = func(w http.ResponseWriter, r *http.Request) bool {
					if answer != nil {
						answer(w, r)
					}
					return answer != nil
				}
			},
		}.Test(t)
	}
}
