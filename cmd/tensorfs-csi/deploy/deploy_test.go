// Package deploy has no code: its YAML is what kubectl applies, rendered from the chart beside it.
package deploy

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMade holds that each file was rendered from the current chart and not edited since, by the
// digests in the file.
func TestMade(t *testing.T) {
	var all []byte
	err := filepath.WalkDir("../chart", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all = append(all, b...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) != 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := bytes.SplitAfterN(b, []byte("\n"), 4)
		if len(parts) != 4 {
			t.Fatalf("%s has %d lines", file, len(parts))
		}
		for at, want := range map[int]string{
			1: fmt.Sprintf("# chart %x\n", sha256.Sum256(all)),
			2: fmt.Sprintf("# below %x\n", sha256.Sum256(parts[3])),
		} {
			if string(parts[at]) != want {
				t.Errorf("%s: its line %d is %q, want %q: run scripts/cluster/render", file, at+1, parts[at], want)
			}
		}
	}
}

// TestRendered compares each file with helm's output for the chart.
func TestRendered(t *testing.T) {
	out, err := exec.Command("../../../scripts/cluster/render", "--check").CombinedOutput()
	if strings.Contains(string(out), "there is no helm") {
		t.Skipf("NOT TESTED: what helm makes of the chart: %s", out)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
