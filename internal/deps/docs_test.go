package deps

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestGuaranteesAreTested holds that every test which docs/guarantees.md names
// exists.
func TestGuaranteesAreTested(t *testing.T) {
	root := filepath.Join("..", "..")
	have := map[string]bool{}
	for _, dir := range packages(t, root) {
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(b, -1) {
				have[string(m[1])] = true
			}
		}
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(string(doc), -1)
	if len(named) < 30 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, name := range named {
		if !have[name] {
			t.Errorf("there is no test %s", name)
		}
	}
}
