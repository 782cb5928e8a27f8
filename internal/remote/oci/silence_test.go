package oci

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// An artifact that was opened is opened where the registry does not answer, and not
// where it refuses.
func TestSilence(t *testing.T) {
	environ(t, "")
	f := newFake(t)
	want := []byte(strings.Repeat("0123456789abcdef", 200_000))
	push(t, f, "a", "latest", "", dockerV2, entry{"application/vnd.docker.ai.gguf.v3", want, named("x.gguf")})
	name := Scheme + f.host() + "/a"
	testremote.Silence{Name: name, Want: want,
		Open: func(c *web.Client, store *cache.Store) (*remote.Listing, string, error) {
			o := options(t)
			o.Client, o.Store = c, store
			return Open(t.Context(), name, o)
		},
		Fault: func(answer http.HandlerFunc) {
			f.set(func() {
				f.fault = func(w http.ResponseWriter, r *http.Request) bool {
					if answer != nil {
						answer(w, r)
					}
					return answer != nil
				}
			})
		},
	}.Test(t)
}
