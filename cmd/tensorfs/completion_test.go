package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
)

// complete asks what comes next, as the shells' scripts do. The last line has the
// directive.
func complete(t *testing.T, words ...string) []string {
	t.Helper()
	code, out, _ := command(append([]string{"__completeNoDesc"}, words...)...)
	if code != 0 {
		t.Errorf("%q: exit code %d", words, code)
	}
	return strings.Fields(out)
}

func TestEveryCommandCompletes(t *testing.T) {
	for _, c := range newRoot().Commands() {
		if argCompletions[c.Name()] == nil {
			t.Errorf("argCompletions has no row for %s", c.Name())
		}
	}
}

func TestCompletion(t *testing.T) {
	model, err := filepath.Abs(q8)
	if err != nil {
		t.Fatal(err)
	}
	stores := t.TempDir()
	for _, dir := range []string{"ollama/blobs", "ollama/manifests/registry.ollama.ai/library/tiny", "ollama/manifests/registry.ollama.ai/ann/big", "ollama/manifests/registry.ollama.ai/library/bad name",
		"hf/models--acme--tiny", "hf/models--acme--$(x)", "hf/datasets--acme--text", "here/directory", "here/.hidden"} {
		if err := os.MkdirAll(filepath.Join(stores, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"ollama/manifests/registry.ollama.ai/library/tiny/latest", "ollama/manifests/registry.ollama.ai/library/tiny/q4", "ollama/manifests/registry.ollama.ai/ann/big/1b",
		"ollama/manifests/registry.ollama.ai/library/bad name/latest", "here/a.gguf", "here/b.SAFETENSORS", "here/notes.txt", "here/$(touch x).gguf", "here/h.gguf", "here/two words.gguf"} {
		if err := os.WriteFile(filepath.Join(stores, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("OLLAMA_MODELS", filepath.Join(stores, "ollama"))
	t.Setenv("HF_HUB_CACHE", filepath.Join(stores, "hf"))
	t.Chdir(filepath.Join(stores, "here"))
	for _, test := range []struct {
		words string // the last one is being completed; ~ for none
		want  string
	}{
		{"ls ~", "ollama: hf: a.gguf b.SAFETENSORS directory/ h.gguf two words.gguf :6"},
		{"ls h", "hf: h.gguf :6"},
		{"ls x", "gguf safetensors :8"},
		{"ls ./", "gguf safetensors :8"},
		{"ls hf:", "hf:acme/tiny :4"},
		{"ls ollama:", "ollama:ann/big:1b ollama:tiny:latest ollama:tiny:q4 :4"},
		{"ls ollama:tiny:q", "ollama:tiny:q4 :4"},
		{"info hf:acme/", "hf:acme/tiny :4"},
		{"hf:", "hf:acme/tiny :4"},
		{"./", "gguf safetensors :8"},
		{"hf:acme/tiny ~", ":4"},
		{"info " + model + " h", "hf: h.gguf :6"},
		{"report " + model + " " + model + " ~", ":4"},
		{"mount ollama:a", "ollama:ann/big:1b :4"},
		{"mount " + model + " ~", ":16"},
		{"mount " + model + " m ~", ":4"},
		{"mount -o ~", "allow_orgs= allow_other as= cache= cache_size= connections= context= debug default_permissions defcontext= dequantise dirsync download env.NAME= follow_links fscontext= gguf_type= gid= i2s= idle= imatrix= log= lora= max_open= mlx_bits= mlx_device= mlx_group= mlx_mode= mlx_recipe= mmproj= no_mkdir no_passthrough noatime nodiratime nonempty nosymfollow offline on_demand plain_http pure read_ahead= remote requantise rootcontext= set= sync takeover= tensor_types_from= timeout= uid= umask= unset= views= warm :6"},
		{"mount -o ro,f", "ro,follow_links ro,fscontext= :6"},
		{"mount -o noatime,noa", ":6"},
		{"mount -o ro,gguf_type=q4_k", "ro,gguf_type=q4_k_s ro,gguf_type=q4_k_m :6"},
		{"mount -o i2s=r", "i2s=rows4 :6"},
		{"mount --log s", "syslog :0"},
		{"mount --gguf-type q5", "q5_0 q5_k_s q5_k_m q5_1 :4"},
		{"cat --i2s 6", "64 :4"},
		{"export --mlx-mode mxfp", "mxfp4 mxfp8 :4"},
		{"info --mlx-recipe mixed_3", "mixed_3_4 mixed_3_6 :4"},
		{"ls --mlx-device ~", "gpu cpu :4"},
		{"cat " + model + " f", "f16/ f32/ fused/ fused-f16/ :6"},
		{"cat " + model + " f16/layers.0.attention.", "f16/layers.0.attention.k.weight f16/layers.0.attention.output.weight f16/layers.0.attention.q.weight f16/layers.0.attention.v.weight :4"},
		{"cat " + model + " gguf/", ":4"},
		{"cat " + model + " README/", ":4"},
		{"cat " + model + " none/", ":4"},
		{"cat " + model + " raw/output_norm.weight ~", ":4"},
		{"cat none.gguf ~", ":4"},
		{"ls " + model + " index", "index.json :4"},
		{"ls " + model + " source/", "source/llama-xs.q8_0.gguf :4"},
		{"export " + model + " ~", ":16"},
		{"export " + model + " d raw pack", "packed/ :6"},
		{"completion ~", "bash fish powershell zsh :4"},
	} {
		words := strings.Split(test.words, " ")
		if last := len(words) - 1; words[last] == "~" {
			words[last] = ""
		}
		if got := strings.Join(complete(t, words...), " "); got != test.want {
			t.Errorf("%s: %s, want %s", test.words, got, test.want)
		}
	}
}

func TestMountsComplete(t *testing.T) {
	needFUSE(t)
	dir := t.TempDir()
	mountAt(t, dir, q8)
	t.Cleanup(func() { mounts.Unmount(dir, true) })
	if got := complete(t, "umount", filepath.Dir(dir)); !slices.Contains(got, dir) {
		t.Errorf("umount completes to %q, without %s", got, dir)
	}
	if got := complete(t, "umount", dir, filepath.Dir(dir)); slices.Contains(got, dir) {
		t.Errorf("umount offers %s twice", dir)
	}
}

// Completing a path makes no whole-model file.
func TestCompletionMakesNothing(t *testing.T) {
	m, err := (&modelFlags{}).open(q8)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Model.Close()
	made := false
	m.Root[slices.IndexFunc(m.Root, func(e tensorfs.Entry) bool { return e.Name == "gguf" })].Dir = tensorfs.NewLater(func() tensorfs.Dir { made = true; return tensorfs.Entries{} })
	for _, word := range []string{"", "g", "gguf", "gguf/", "gguf/model"} {
		pathsIn(m, word)
	}
	if made {
		t.Error("gguf/ was made")
	}
	if got, _ := pathsIn(m, "gg"); !slices.Equal(got, []string{"gguf/"}) {
		t.Errorf("%q", got)
	}
}

// The scripts are cobra's; the change to the bash script has to find its place there.
func TestCompletionScripts(t *testing.T) {
	for shell := range cli.Shells {
		code, script, stderr := command("completion", shell)
		if code != 0 || stderr != "" || !strings.Contains(script, "__complete") {
			t.Errorf("%s: exit code %d, %q", shell, code, stderr)
		}
		if shell == "bash" && strings.Count(script, "//\\\\,/,}\")\n    __tensorfs_handle_special_char \"$cur\" :") != 1 {
			t.Error("bash escapes commas")
		}
		if path, err := exec.LookPath(shell); err == nil && shell != "powershell" {
			c := exec.Command(path, "-n")
			c.Stdin = strings.NewReader(script)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", shell, err, out)
			}
		}
	}
	if code, _, stderr := command("completion", "csh"); code != cli.ExitUsage || strings.Count(stderr, "\n") != 1 {
		t.Errorf("csh: exit code %d, %q", code, stderr)
	}
}
