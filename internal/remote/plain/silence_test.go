package plain

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
	"github.com/tensorfs/tensorfs/internal/testing/testweb"
)

// A file that was opened is opened where the server does not answer, and not where it
// refuses.
func TestSilence(t *testing.T) {
	t.Parallel()
	s := testweb.New(t)
	want := pattern(3*mib + 77)
	s.Put("/m.gguf", bytes.NewReader(want))
	for i, name := range []string{"/one-00001-of-00003.gguf", "/one-00002-of-00003.gguf", "/one-00003-of-00003.gguf"} {
		s.Put(name, bytes.NewReader(want[i:]))
	}
	for path, want := range map[string][]byte{"/m.gguf": want, "/one-00002-of-00003.gguf": want[1:]} {
		testremote.Silence{Name: s.URL + path, Want: want, Options: newOptions(t),
			Open: func(o Options) (*remote.Listing, string, error) { return Open(t.Context(), s.URL+path, o) },
			Fault: func(answer func(http.ResponseWriter, *http.Request) bool) {
				s.Break(func(_ int, w http.ResponseWriter, r *http.Request) bool { return answer(w, r) })
			},
		}.Test(t)
	}
}
