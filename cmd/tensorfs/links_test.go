package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// linkedModel is a directory whose config.json is a link to what others may not
// read, and one that consists of links inside the Hugging Face cache.
func linkedModel(t *testing.T) (leaving, cached string) {
	t.Helper()
	dir := t.TempDir()
	ts := []testmodel.SafeTensor{{Name: "model.norm.weight", DType: tensorfs.F16, Shape: []int64{4}}}
	weights := testmodel.Safetensors(ts, nil)
	const snapshot = "models--o--n/snapshots/c/"
	if err := testmodel.Write(dir, map[string][]byte{
		"private/secret.json": []byte(`{"password":"hunter2"}`), "m/model.safetensors": weights,
		"models--o--n/blobs/1": weights, "models--o--n/blobs/2": []byte(`{"model_type":"llama"}`), snapshot + "x": nil,
	}); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"m/config.json": filepath.Join(dir, "private/secret.json"), snapshot + "model.safetensors": "../../blobs/1", snapshot + "config.json": "../../blobs/2"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "m"), filepath.Join(dir, snapshot)
}

// TestMountRefusesLinks mounts models with links as root, who shows to others
// what he may read.
func TestMountRefusesLinks(t *testing.T) {
	needFUSE(t)
	if os.Getuid() != 0 {
		t.Skip("an ordinary user's own mount follows links")
	}
	leaving, cached := linkedModel(t)
	for _, form := range [][]string{{"mount", leaving}, {"mount", "-f", leaving}, {"mount", "--allow-other", leaving}, {leaving}} {
		dir := t.TempDir()
		code, stdout, stderr := command(append(form, dir)...)
		if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "config.json: it is a symbolic link that leaves "+leaving) || !strings.Contains(stderr, "--follow-links") {
			t.Errorf("%q: exit code %d, %q", form, code, stderr)
		}
		if st := statusOf(t, dir); st != nil {
			t.Errorf("%q mounted", form)
			mounts.Unmount(dir, true)
		}
	}
	for _, form := range [][]string{{"--follow-links", leaving}, {"-o", "ro,follow_links", leaving}} {
		dir := mounted(t, form[len(form)-1], form[:len(form)-1]...)
		if b, err := os.ReadFile(filepath.Join(dir, "metadata/config.password")); err != nil || string(b) != "hunter2\n" {
			t.Errorf("%q: %q, %v", form, b, err)
		}
	}
	dir := mounted(t, cached)
	if b, err := os.ReadFile(filepath.Join(dir, "metadata/config.model_type")); err != nil || string(b) != "llama\n" {
		t.Errorf("a snapshot of the cache: %q, %v", b, err)
	}
}

// TestOthersFollowLinks opens such a model with the commands that show users only what they may
// read; verify reports what a mount by root would refuse.
func TestOthersFollowLinks(t *testing.T) {
	leaving, cached := linkedModel(t)
	for _, args := range [][]string{{"info"}, {"ls"}, {"cat", "config.json"}, {"verify"}, {"verify", "--follow-links"}} {
		line := append([]string{args[0], leaving}, args[1:]...)
		if code, _, stderr := command(line...); code != 0 || stderr != "" {
			t.Errorf("%q: exit code %d, %q", line, code, stderr)
		}
	}
	for model, want := range map[string]string{leaving: "note: a mount by root refuses this model: " + leaving + "/config.json: it is a symbolic link that leaves", cached: ""} {
		_, stdout, _ := command("verify", model)
		if (strings.Contains(stdout, "note: a mount by root")) != (want != "") || !strings.HasPrefix(stdout, want) || !strings.Contains(stdout, "0 findings") {
			t.Errorf("verify says %q, want %q", stdout, want)
		}
	}
	if _, stdout, _ := command("verify", "--json", leaving); !strings.Contains(stdout, `"notes": [`) || !strings.Contains(stdout, "--follow-links") {
		t.Errorf("verify --json says %q", stdout)
	}
	// Asked to follow links, it has nothing to say of them.
	if _, stdout, _ := command("verify", "--follow-links", leaving); strings.Contains(stdout, "link") {
		t.Errorf("verify --follow-links says %q", stdout)
	}
}

// TestStrangersLink: root shows to others nothing that a link of another user leads to, unless
// its owner, or everybody, may read that; flags that name files are held to the same.
func TestStrangersLink(t *testing.T) {
	needFUSE(t)
	if os.Getuid() != 0 {
		t.Skip("an ordinary user's own mount follows links")
	}
	const stranger = 65531
	dir := t.TempDir()
	weights := testmodel.Safetensors([]testmodel.SafeTensor{{Name: "model.norm.weight", DType: tensorfs.F16, Shape: []int64{4}}}, nil)
	if err := testmodel.Write(dir, map[string][]byte{"private/m.safetensors": weights, "hers/m.safetensors": weights, "theirs/plain.safetensors": weights, "private/text": []byte("hunter2")}); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	all := []error{os.Chmod(at("private"), 0o700), os.Chmod(at("hers/m.safetensors"), 0o600), os.Lchown(at("hers/m.safetensors"), stranger, stranger), os.Lchown(at("theirs"), stranger, stranger)}
	for _, name := range []string{"private", "hers"} {
		link := at("theirs/" + name)
		all = append(all, os.Symlink("../"+name+"/m.safetensors", link), os.Lchown(link, stranger, stranger), os.Symlink("../"+name+"/m.safetensors", at("theirs/root-"+name)))
	}
	all = append(all, os.Symlink("../private/text", at("theirs/text")), os.Lchown(at("theirs/text"), stranger, stranger))
	if err := errors.Join(all...); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args    []string
		refused bool
	}{
		{[]string{at("theirs/private")}, true}, {[]string{at("theirs/hers")}, false}, {[]string{at("theirs/root-private")}, false}, {[]string{at("theirs/root-hers")}, false},
		{[]string{"--follow-links", at("theirs/private")}, false},
		{[]string{"--lora", at("theirs/private"), at("theirs/plain.safetensors")}, true},
		{[]string{"--set", "x=@" + at("theirs/text"), at("theirs/plain.safetensors")}, true},
		{[]string{"--gguf-type", "q4_k_m", "--imatrix", at("theirs/text"), at("theirs/plain.safetensors")}, true},
	} {
		m := t.TempDir()
		code, _, stderr := command(append(append([]string{"mount", "--allow-other"}, x.args...), m)...)
		if (code != 0) != x.refused || x.refused && (!strings.Contains(stderr, "is a symbolic link of another user (uid 65531)") || strings.Count(stderr, "\n") != 1) {
			t.Errorf("%q: exit code %d, %q", x.args, code, stderr)
		}
		if code == 0 {
			mounts.Unmount(m, true)
		}
	}
}
