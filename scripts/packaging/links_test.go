package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAbsoluteLinks requires that the pages of packages and of PyPI link to existing files of the tag that they
// are built from, by absolute addresses, or to a heading of the same page.
func TestAbsoluteLinks(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	n := 0
	for _, page := range append(pages, "../../README.md", "../../SECURITY.md", "../../CHANGELOG.md") {
		text, err := os.Open(page)
		if err != nil {
			t.Fatal(err)
		}
		dir, err := filepath.Rel("../..", filepath.Dir(page))
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command("./absolute-links", dir)
		c.Stdin, c.Env = text, append(os.Environ(), "REF=v1.2.3")
		out, err := c.Output()
		text.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("(?s)```.*?```|\\]\\(([^)\\s]+)\\)").FindAllStringSubmatch(string(out), -1) {
			link := m[1]
			if link == "" || strings.HasPrefix(link, "#") {
				continue
			}
			n++
			if !strings.HasPrefix(link, "https://") {
				t.Errorf("%s links to %s", page, link)
				continue
			}
			for _, kind := range []string{"blob", "raw"} {
				file, ours := strings.CutPrefix(link, "https://github.com/tensorfs/tensorfs/"+kind+"/v1.2.3/")
				file, _, _ = strings.Cut(file, "#")
				st, err := os.Stat("../../" + file)
				if ours && (err != nil || st.IsDir() && strings.Contains(link, "#")) {
					t.Errorf("%s links to %s: %v", page, link, err)
				}
				if strings.Contains(link, "/HEAD/") {
					t.Errorf("%s links to %s, which changes", page, link)
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d links", n)
	}
}
