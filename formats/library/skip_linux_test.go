package library_test

import (
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs/formats/library"
)

// TestSkip holds that skipped devices are not opened, and links to them neither.
func TestSkip(t *testing.T) {
	dir := tempFiles(t, map[string]string{"a.gguf": "", "other.gguf": "->/proc/self/status"})
	for _, x := range []struct {
		skip bool
		want []string
	}{{false, []string{"a", "other"}}, {true, []string{"a"}}} {
		asked := map[string]bool{}
		l, err := library.Open(dir, library.Options{Skip: func(device string) bool { asked[device] = true; return x.skip }})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range l.Now().Models {
			got = append(got, m.Name)
			if _, _, err := m.Identity(); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
		}
		if !slices.Equal(got, x.want) || len(asked) != 1 {
			t.Errorf("skip %v: %v, and %v were asked about", x.skip, got, asked)
		}
	}
}
