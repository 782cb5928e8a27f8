package metal

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGoExample runs docs/examples/goweights twice: the second time all is mapped.
func TestGoExample(t *testing.T) {
	program := filepath.Join(t.TempDir(), "goweights")
	if out, err := exec.Command("go", "build", "-o", program, "../docs/examples/goweights").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	example := func(args ...string) (string, error) {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "TENSORFS_CACHE="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for range 2 {
		want := regexp.MustCompile(`^llama \d+ layers \d+ wide .*\n\d+ tensors; bytes from the model 0 from converted files [1-9]\d* in memory 0\nq, k and v joined: \d+ bytes\n$`)
		if out, err := example(bf16Model, "f16"); err != nil || !want.MatchString(out) {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if out, err := example(mlxModel); err != nil || strings.Count(out, "\n") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := example("no-such-model"); err == nil || strings.Count(out, "\n") != 1 {
		t.Errorf("%v\n%s", err, out)
	}
}
