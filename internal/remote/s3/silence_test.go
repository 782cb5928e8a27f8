package s3

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
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
			Open: func(o Options) (*remote.Listing, string, error) { return Open(t.Context(), name, o) },
			Fault: func(answer func(http.ResponseWriter, *http.Request) bool) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.fault = answer
			},
		}.Test(t)
	}
}
