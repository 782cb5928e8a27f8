package ollama

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

// A model that was opened is opened where the registry does not answer, and not where
// it refuses.
func TestSilence(t *testing.T) {
	r := testhub.NewRegistry(t)
	want := []byte(strings.Repeat("0123456789abcdef", 200_000))
	r.Push("library/tiny/latest", manifestOf(want), want)
	name := r.Host() + "/library/tiny"
	testremote.Silence{Name: prefix + name + ":latest", Want: want, Options: Options{Env: func(string) string { return "" }},
		Open: func(o Options) (*remote.Listing, string, error) {
			l, _, err := Open(t.Context(), name, o)
			return l, "blobs/sha256-" + digest(want), err
		},
		Fault: func(answer func(http.ResponseWriter, *http.Request) bool) {
			r.Break(func(w http.ResponseWriter, r *http.Request, _ bool) bool { return answer(w, r) })
		},
	}.Test(t)
}
