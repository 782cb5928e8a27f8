package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cli/manual"
)

// book has the manual pages, as man.go makes them.
func book(s system) manual.Book {
	return manual.Book{Root: newRootFor(s), Version: "0.1.0", Date: "1970-01-02", Sections: s.text("manual"), Long: long, Groups: grouped}
}

func manPages(t *testing.T) (dir string, pages map[string]string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "man1")
	must(t, book("linux").Write(dir))
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	pages = map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(f)] = string(b)
	}
	return dir, pages
}

func TestManualPages(t *testing.T) {
	_, pages := manPages(t)
	for _, c := range newRoot().Commands() {
		name := "tensorfs-" + c.Name() + ".1"
		page := pages[name]
		if page == "" {
			t.Errorf("there is no %s", name)
			continue
		}
		for _, want := range []string{`1970-01-02`, `.SH "SYNOPSIS"`, `.SH "DESCRIPTION"`, `.SH "OPTIONS"`, `\fBtensorfs\fR(1)`} {
			if c.IsAdditionalHelpTopicCommand() && (strings.Contains(want, "SYN") || strings.Contains(want, "OPT")) {
				continue
			}
			if !strings.Contains(page, want) {
				t.Errorf("%s lacks %s", name, want)
			}
		}
		if strings.Contains(page, `\-daemon`) {
			t.Errorf("%s shows a hidden flag", name)
		}
	}
	for _, section := range []string{"COMMANDS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"} {
		if !strings.Contains(pages["tensorfs.1"], `.SH "`+section+`"`) {
			t.Errorf("tensorfs.1 lacks %s", section)
		}
	}
	for name, page := range pages {
		for i, line := range strings.Split(page, "\n") {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !regexp.MustCompile(`^\.(TH|SH|SS|PP|TP|RS|RE|nf|fi|nh|ad)\b`).MatchString(line) {
				t.Errorf("%s:%d: text that roff takes for a request: %s", name, i+1, line)
			}
		}
	}
}

// mandoc complains about what other formatters pass over.
func TestManualPagesHoldUp(t *testing.T) {
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("mandoc is not installed, which checks manual pages")
	}
	dir, pages := manPages(t)
	for name := range pages {
		out, err := exec.Command(mandoc, "-Tlint", filepath.Join(dir, name)).CombinedOutput()
		for line := range bytes.Lines(out) { // a reference to a page is of another package
			if !bytes.Contains(line, []byte("referenced manual not found")) && !bytes.Contains(line, []byte("input text line longer")) {
				t.Errorf("%v %s", err, line)
			}
		}
	}
}

// What the program reads of its environment is in tensorfs(1).
func TestEnvironmentIsDescribed(t *testing.T) {
	read := regexp.MustCompile(`os\.(?:Getenv|LookupEnv)\("(\w+)"\)`)
	described := map[string]bool{}
	for _, name := range manualNames() {
		described[name] = true
	}
	found := 0
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "scripts" || name == "testdata" || name == ".git" || name == "docs" || name == "node_modules" || strings.HasPrefix(name, "_") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range read.FindAllSubmatch(b, -1) {
			found++
			if !described[string(m[1])] {
				t.Errorf("%s reads %s, which ENVIRONMENT in help/manual.txt does not describe", path, m[1])
			}
		}
		return nil
	})
	if err != nil || found < 4 {
		t.Errorf("%d variables found: %v", found, err)
	}
}

// manualNames are the variables and files that tensorfs(1) describes.
func manualNames() (names []string) {
	for _, item := range manual.Items(system("linux").text("manual")) {
		names = append(names, strings.Split(item.Name, ", ")...)
	}
	return names
}
