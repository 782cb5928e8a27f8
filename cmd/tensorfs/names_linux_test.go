package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
)

// TestMountByName mounts models by names that are no paths of the directory in
// which the command runs, as the server must not take them either.
func TestMountByName(t *testing.T) {
	needFUSE(t)
	model, err := filepath.Abs(q8)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	folder := filepath.Join(cache, "models--acme--Tiny-GGUF")
	for _, d := range []string{"blobs", "refs", "snapshots/0123456789abcdef/sub"} {
		if err := os.MkdirAll(filepath.Join(folder, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range map[string][]byte{"refs/main": []byte("0123456789abcdef"), "blobs/1": content} {
		if err := os.WriteFile(filepath.Join(folder, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"Tiny-Q8_0.gguf": "../../blobs/1", "Tiny-Q4_0.gguf": "../../blobs/1", "sub/x.gguf": "../../../blobs/1"} {
		if err := os.Symlink(to, filepath.Join(folder, "snapshots/0123456789abcdef", name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HF_HUB_CACHE", cache)
	t.Chdir(t.TempDir())
	for _, name := range []string{"hf:acme/Tiny-GGUF:q8_0", "hf://acme/Tiny-GGUF/Tiny-Q4_0.gguf", "hf:acme/Tiny-GGUF@0123456:sub/x.gguf", folder + "/snapshots/0123456789abcdef/sub"} {
		dir := mounted(t, name)
		if st := statusOf(t, dir); st == nil || st.Model != name {
			t.Errorf("%s: status %+v", name, st)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "gguf/model.gguf")); err != nil || len(b) != len(content) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
		if err := mounts.Unmount(dir, false); err != nil {
			t.Error(err)
		}
	}
	for name, says := range map[string]string{
		"hf:acme/Tiny-GGUF":          "it has 3 GGUF models: Tiny-Q4_0, Tiny-Q8_0, x; name one, such as hf:acme/Tiny-GGUF:Tiny-Q4_0",
		"hf:acme/Tinny-GGUF:q8_0":    "did you mean hf:acme/Tiny-GGUF:q8_0?",
		"https://example.com/a/b":    "https://example.com/a/b: not on this machine, and TENSORFS_OFFLINE forbids asking for it",
		"hf:acme/Tiny-GGUF:Q2_K":     `download it with "hf download acme/Tiny-GGUF --include '*Q2_K*'"`,
		"hf:acme/Tiny-GGUF@0:Q2_K":   "the cache does not have this revision, only main, 0123456789ab",
		cache + "/models-acme--Tiny": "no such file or directory",
	} {
		dir := t.TempDir()
		if code, out, stderr := command("mount", name, dir); code != cli.ExitFailed || out != "" || !strings.Contains(stderr, says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q, %q does not say %q", name, code, out, stderr, says)
			mounts.Unmount(dir, true)
		}
	}
}
