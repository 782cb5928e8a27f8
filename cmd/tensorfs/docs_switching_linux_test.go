package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testhub"
)

// TestDocsSwitching runs every command in the second column of docs/switching.md, from top
// to bottom, with a Hub and a bucket that have the models which the page names.
func TestDocsSwitching(t *testing.T) {
	t.Parallel()
	needFUSE(t)
	page, err := os.ReadFile("../../docs/switching.md")
	must(t, err)
	h := docHome(t)
	for from, to := range map[string]string{
		"architectures/smolvlm":        "models/SmolVLM",
		"lora/plain-bf16-f32/base":     "models/Base",
		"lora/plain-bf16-f32/adapter0": "adapter",
	} {
		must(t, os.CopyFS(filepath.Join(h.dir, to), os.DirFS("../../testdata/"+from)))
	}
	must(t, os.WriteFile(filepath.Join(h.dir, "t.jinja"), []byte("{{ messages[0]['content'] }}"), 0o600))
	must(t, os.WriteFile(filepath.Join(h.dir, "recipe.yml"), []byte("merge_method: linear\nmodels:\n  - model: models/Qwen3-4B\n    parameters: {weight: 1}\n"), 0o600))

	hub, files := testhub.NewHub(t), map[string][]byte{}
	local, err := os.ReadDir("../../testdata/whole-gguf/qwen3")
	must(t, err)
	for _, f := range local {
		files[f.Name()], err = os.ReadFile("../../testdata/whole-gguf/qwen3/" + f.Name())
		must(t, err)
	}
	hub.Commit("Qwen/Qwen3-8B", files)
	gguf, err := os.ReadFile("../../" + strings.TrimPrefix(q8, "../../"))
	must(t, err)
	bucket := newStating(t, digestOfBytes(gguf), gguf)
	h.env = []string{"HF_ENDPOINT=" + hub.URL, "AWS_ENDPOINT_URL=" + bucket.URL, "AWS_NO_SIGN_REQUEST=1"}

	ran := 0
	for line := range strings.Lines(string(page)) {
		m := switchingRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		ran++
		t.Run(strings.ReplaceAll(m[1], "/", "_"), func(t *testing.T) {
			h.shell(t, m[1])
			if words := strings.Fields(m[1]); words[1] == "mount" {
				h.shell(t, "tensorfs umount "+words[len(words)-1])
			}
		})
	}
	if ran < 20 {
		t.Errorf("only %d commands", ran)
	}
	h.left(t)
}

// switchingRow is a row of the page: what people type, then the command.
var switchingRow = regexp.MustCompile("^\\| .*?`.* \\| `(tensorfs [^`]+)` \\| .*\\|\n$")
