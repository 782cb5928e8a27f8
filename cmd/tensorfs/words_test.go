package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTheirWords holds what is said to the words of other programs: what was typed, the
// exit status, and a part of the answer.
func TestTheirWords(t *testing.T) {
	model, err := filepath.Abs(ggufDir + "llama-xs.f16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		typed  string
		status int
		says   string
	}{
		{"show m.gguf", 2, "did you mean tensorfs info m.gguf?"},
		{"dump", 2, "did you mean tensorfs info MODEL?"},
		{"inspect hf:a/b", 2, "did you mean tensorfs info hf:a/b?"},
		{"convert m.safetensors", 2, "did you mean tensorfs cat --gguf-type q4_k_m m.safetensors gguf/model.gguf > model.gguf?"},
		{"quantize m.gguf", 2, "cat --gguf-type"},
		{"pull gemma3", 2, "did you mean tensorfs fetch ollama:gemma3?"},
		{"pull hf:a/b", 2, "did you mean tensorfs fetch hf:a/b?"},
		{"download hf:a/b", 2, "did you mean tensorfs fetch hf:a/b?"},
		{"run gemma3", 2, "tensorfs runs no models"},
		{"mnt m.gguf x", 2, "did you mean tensorfs mount m.gguf MOUNTPOINT?"},
		{"detach x", 2, "did you mean tensorfs umount x?"},
		{"ps", 2, "did you mean tensorfs status?"},
		{"info --ctx-size 4096 MODEL", 2, "did you mean --context?"},
		{"info -c 4096 MODEL", 2, "did you mean --context?"},
		{"info --jsno MODEL", 2, "did you mean --json?"},
		{"info --verison", 2, "unknown flag: --verison"},
		{"--verison", 2, "did you mean --version?"},
		{"mount --view f16 MODEL x", 2, "did you mean --views?"},
		{"mount --daemon MODEL x", 2, "leave it out: mount returns as soon as the files are there"},
		{"mount --background MODEL x", 2, "leave it out: mount returns as soon as the files are there"},
		{"export --q-bits 4 MODEL out", 2, "did you mean --mlx-bits?"},
		{"cat -o x MODEL", 2, "add > FILE"},
		{"info --context 4k MODEL", 0, "4096 tokens"},
		{"info --context 4K MODEL", 0, "4096 tokens"},
		{"info --context 4,096 MODEL", 0, "4096 tokens"},
		{"info --context max MODEL", 0, "4096 tokens"},
		{"info --context -1 MODEL", 2, "0 is as many as the model was trained with"},
		{"info --context 32kk MODEL", 2, "such as 8192 or 32k"},
		{"info --context 4,0966 MODEL", 2, "such as 8192 or 32k"},
		{"info --context 9m9 MODEL", 2, "such as 8192 or 32k"},
		{"info --context 4k --gpu 24 MODEL", 2, "want the memory of a GPU, such as 24G"},
		{"info --context 4k --gpu 1.5T MODEL", 0, "fit into 1.5 TiB"},
		{"info --context 4k --cache-type-k q8 MODEL", 2, "did you mean q8_0?"},
		{"cat --gguf-type= MODEL gguf/model.gguf", 2, "--gguf-type is empty"},
		{"cat --gguf-type q4km MODEL gguf/model.gguf", 2, "did you mean Q4_K_M?"},
		{"cat --gguf-type UD-Q4_K_XL MODEL gguf/model.gguf", 2, "a publisher's own mix"},
		{"cat --gguf-type 4bit MODEL gguf/model.gguf", 2, "did you mean Q4_K_M?"},
		{"cat --gguf-type int8 MODEL gguf/model.gguf", 2, "did you mean Q8_0?"},
		{"cat --gguf-type half MODEL gguf/model.gguf", 2, "did you mean F16?"},
		{"info --offline hf:https://huggingface.co/a/b", 1, "hf:a/b: there is no"},
		{"info --offline ollama://gemma3", 1, "ollama:gemma3:latest: there is no"},
		{"info --offline https://ollama.com/library/gemma3:4b", 1, "ollama:gemma3:4b: there is no"},
		{"info --offline https://registry.ollama.ai/mike/x", 1, "ollama:mike/x:latest: there is no"},
		{"info registry.ollama.ai/library/gemma3", 1, "did you mean ollama:gemma3?"},
		{"info git@hf.co:a/b", 1, "did you mean hf:a/b?"},
		{"info file:///m.gguf", 1, "write it as /m.gguf"},
		{"info docker://x/y", 1, "write it as oci://x/y"},
		{"info oci:x/y", 1, "write it as oci://x/y"},
		{"info ms:a/b", 1, "models are not read from ModelScope"},
		{"info ~/m.gguf", 1, "outside quotes"},
	} {
		words := strings.Fields(c.typed)
		for i, w := range words {
			if w == "MODEL" {
				words[i] = model
			}
		}
		status, stdout, stderr := command(words...)
		if out := stdout + stderr; status != c.status || !strings.Contains(out, c.says) || strings.Count(stderr, "\n") > 1 {
			t.Errorf("%s: exit status %d, want %d and %q\n%s", c.typed, status, c.status, c.says, out)
		}
	}
}

// TestTheirFlags holds that what is advised is a flag of some command.
func TestTheirFlags(t *testing.T) {
	for theirs, ours := range theirFlags {
		if !slices.ContainsFunc(flagTable, func(r flagRow) bool { name, _, _ := strings.Cut(r.name, ","); return name == ours }) {
			t.Errorf("--%s is said to be --%s, which no command has", theirs, ours)
		}
	}
}
