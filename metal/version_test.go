package metal

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/views"
)

var update = flag.Bool("update", false, "rewrite testdata/views.txt")

// TestViewsVersion holds that the bytes of all views of the golden models belong to the current
// views.Version, under which converted tensors are kept.
func TestViewsVersion(t *testing.T) {
	const file = "testdata/views.txt"
	lines := []string{fmt.Sprintf("version %d", views.Version)}
	for _, model := range golden(t) {
		b := build(t, model)
		var refs []Ref
		for ref := range b {
			refs = append(refs, ref)
		}
		slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.String(), b.String()) })
		h := sha256.New()
		for _, ref := range refs {
			p := b.bytes(t, ref)
			fmt.Fprintf(h, "%s %d\n", ref, len(p))
			h.Write(p)
		}
		rel, err := filepath.Rel(testdata, model)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%x %s", h.Sum(nil)[:16], rel))
	}
	text := strings.Join(lines, "\n") + "\n"
	want, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	old := strings.Split(string(want), "\n")
	raised := old[0] != lines[0]
	if raised && !*update {
		t.Fatal("views.Version was raised: run this test with -update")
	}
	for _, line := range lines[1:] {
		sum, model, _ := strings.Cut(line, " ")
		switch {
		case slices.Contains(old, line) || raised:
		case slices.ContainsFunc(old, func(l string) bool { return strings.HasSuffix(l, " "+model) }):
			t.Errorf("%s: some view has other bytes, or other names, than before (%s): raise views.Version, then run this test with -update", model, sum)
		case !*update:
			t.Errorf("%s is new: run this test with -update", model)
		}
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
