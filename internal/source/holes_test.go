package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestHoles finds the holes of files that are written in parts.
func TestHoles(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		size    int64
		written [][2]int64
		least   int64
		want    [][2]int64
	}{
		"whole":             {3 * mib, [][2]int64{{0, 3 * mib}}, 1, nil},
		"empty":             {0, nil, 1, nil},
		"nothing but space": {3 * mib, nil, mib, [][2]int64{{0, 3 * mib}}},
		"the end is space":  {3 * mib, [][2]int64{{0, mib}}, mib, [][2]int64{{mib, 3 * mib}}},
		"the beginning":     {3 * mib, [][2]int64{{2 * mib, 3 * mib}}, mib, [][2]int64{{0, 2 * mib}}},
		"two":               {8 * mib, [][2]int64{{0, mib}, {3 * mib, 4 * mib}, {7 * mib, 8 * mib}}, mib, [][2]int64{{mib, 3 * mib}, {4 * mib, 7 * mib}}},
		"one is short":      {8 * mib, [][2]int64{{0, mib}, {2 * mib, 4 * mib}, {7 * mib, 8 * mib}}, 2 * mib, [][2]int64{{4 * mib, 7 * mib}}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.Truncate(c.size); err != nil {
				t.Fatal(err)
			}
			for _, w := range c.written {
				b := make([]byte, w[1]-w[0])
				for i := range b {
					b[i] = 1
				}
				if _, err := f.WriteAt(b, w[0]); err != nil {
					t.Fatal(err)
				}
			}
			m := open(t, path)
			got, err := m.Holes(t.Context(), c.least)
			if err == nil && len(got) == 0 && len(c.want) > 0 {
				t.Skip("NOT TESTED: the file system of temporary files has no holes")
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := m.Holes(ended, 1); !errors.Is(err, context.Canceled) && c.size > 0 {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}
