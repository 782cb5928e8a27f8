package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/report"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// TestInfoMetadata holds the lines of info --metadata of each kind of model.
func TestInfoMetadata(t *testing.T) {
	recipe := filepath.Join(t.TempDir(), "recipe.yml")
	model, err := filepath.Abs(q8)
	must(t, err)
	b, err := os.ReadFile(q8)
	must(t, err)
	again := filepath.Join(filepath.Dir(recipe), "again.gguf")
	must(t, os.WriteFile(again, b, 0o666))
	must(t, os.WriteFile(recipe, []byte("merge_method: linear\nmodels:\n  - model: "+model+"\n    parameters: {weight: 1}\n  - model: "+again+"\n    parameters: {weight: 1}\n"), 0o666))
	t.Setenv("OLLAMA_MODELS", "../../testdata/ollama/models")
	for _, c := range []struct {
		args []string
		want string // of a line, with single blanks
	}{
		{[]string{"--metadata", q8}, `general.architecture string llama`},
		{[]string{"--metadata", q8}, `tokenizer.ggml.tokens array of string [272 strings] "<unk>", "<s>", "</s>", "<0x00>", "<0x01>", "<0x02>", ...`},
		{[]string{"--metadata=llama.*", q8}, `llama.rope.freq_base f32 500000`},
		{[]string{"--metadata", "*.tags", q8}, `general.tags array of string [1 string] "text-generation"`},
		{[]string{"--metadata", "../../testdata/whole-gguf/qwen3"}, `config.architectures array of string [1 string] "Qwen3ForCausalLM"`},
		{[]string{"--metadata", "../../testdata/whole-gguf/qwen3"}, `config.sliding_window null null`},
		{[]string{"--metadata", "../../testdata/whole-gguf/qwen3"}, `safetensors.format string pt`},
		{[]string{"--metadata", "ollama:tinyllama"}, `general.architecture string llama`},
		{[]string{"--metadata", recipe}, `config.torch_dtype string float16`},
	} {
		found := false
		for line := range strings.Lines(succeeds(t, append([]string{"info"}, c.args...)...)) {
			found = found || strings.Join(strings.Fields(line), " ") == c.want
		}
		if !found {
			t.Errorf("%q: no line %q in\n%s", c.args, c.want, succeeds(t, append([]string{"info"}, c.args...)...))
		}
	}
	failsWith(t, 1, []string{"info", "--metadata=none*", q8}, `no key matches "none*"; without it all 32 are listed`)
	failsWith(t, 2, []string{"info", "--metadata=[", q8}, "glob")
	var one metadataInfo
	must(t, json.Unmarshal([]byte(succeeds(t, "info", "--json", "--metadata=*.scores", q8)), &one))
	if len(one.Metadata) != 1 || one.Metadata[0].Length != 272 || one.Metadata[0].Type != "array of f32" || !one.Metadata[0].Cut || one.Model != q8 {
		t.Errorf("%+v", one)
	}
	var several []metadataInfo
	must(t, json.Unmarshal([]byte(succeeds(t, "info", "--json", "--metadata=none*", q8, q8)), &several))
	if len(several) != 2 || several[1].Metadata == nil || len(several[1].Metadata) != 0 {
		t.Errorf("%+v", several)
	}
}

// TestMetadataOfStrangers holds that no value is a second line, or longer than one.
func TestMetadataOfStrangers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	must(t, os.WriteFile(path, testmodel.GGUF{Meta: []tensorfs.Meta{
		{Key: "general.architecture", Value: "llama"}, {Key: "a", Value: "x\ny\x1b[31m\u202e"}, {Key: "b", Value: strings.Repeat("ä", 9999)}, {Key: "c", Value: "\xff\xfe"},
	}}.Bytes(), 0o666))
	out := succeeds(t, "info", "--metadata", path)
	if n := strings.Count(out, "\n"); n != 4 || strings.ContainsAny(out, "\x1b\u202e") || len(out) > 1200 {
		t.Errorf("%d lines, %d bytes: %q", n, len(out), out)
	}
	var r report.Report
	must(t, json.Unmarshal([]byte(succeeds(t, "report", "--json", q8)), &r))
	if len(r.Metadata) != 32 || r.Metadata[0].Value != "llama" {
		t.Errorf("%+v", r.Metadata)
	}
}
