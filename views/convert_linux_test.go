package views

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// cutting is a mapped input whose view cuts a file short, after its own pages were
// brought in.
type cutting struct {
	*source.MappedSection
	path *string
}

func (c cutting) View(off, n int64) ([]byte, tensorfs.Memory, error) {
	b, m, err := c.MappedSection.View(off, n)
	return b, m, errors.Join(err, os.Truncate(*c.path, 0))
}

// TestConvertLostPage loses the pages of each input in turn, after all of them
// were viewed: that is an error of the input's file.
func TestConvertLostPage(t *testing.T) {
	const biases = 1 // in the order in which affine makes its inputs; they are viewed last
	for lost, name := range []string{"scales", "biases", "codes"} {
		var path string
		made := 0
		c := affine(func(b []byte) tensorfs.Data {
			s, file := mappedAt(t, "file", b)
			if made == lost {
				path = file
			}
			if made++; made-1 == biases {
				return cutting{s, &path}
			}
			return s
		}, 1, 4, 32, tensorfs.BF16, []int64{512, 512}) // each long enough not to be copied
		h, reason := half(&c.t, Options{})
		if reason != "" {
			t.Fatal(reason)
		}
		p := make([]byte, len(c.want))
		if n, err := h.Data.ReadAt(p, 0); n != 0 || !errors.Is(err, tensorfs.ErrChanged) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "page was lost") {
			t.Errorf("%s lost: %d, %v; want an error of %s", name, n, err, path)
		}
	}
}
