package server

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cli"
)

// A command hears from its server whether it is ready, however often the server reports whom it
// asks.
func TestHear(t *testing.T) {
	var b bytes.Buffer
	for i := range 10_000 {
		fmt.Fprintf(&b, "%sasking %d ...\n", cli.Noted, i)
	}
	b.WriteString(strings.Repeat("x", 5000) + ready)
	n, last := 0, ""
	said := hear(&b, func(text string) { n, last = n+1, text })
	if n != 10_000 || last != "asking 9999 ..." || string(said) != strings.Repeat("x", 5000)+ready {
		t.Errorf("%d notes, the last %q, and %d bytes", n, last, len(said))
	}
}
