package oci

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
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
		Open: func(o Options) (*remote.Listing, string, error) { return Open(t.Context(), name, o) },
		Fault: func(answer func(http.ResponseWriter, *http.Request) bool) {
			f.set(func() { f.fault = answer })
		},
	}.Test(t)
}
