package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// allLibraries makes a folder, LM Studio's and Ollama's models of several formats, and returns
// the folder.
func allLibraries(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	home := t.TempDir()
	data, err := filepath.Abs("../../testdata")
	must(t, err)
	t.Setenv("HOME", home)
	t.Setenv("OLLAMA_MODELS", data+"/ollama/models")
	whole, err := os.ReadFile(ggufDir + "align8.gguf")
	must(t, err)
	must(t, errors.Join(
		os.WriteFile(folder+"/plain.gguf", whole, 0o666),
		os.WriteFile(folder+"/broken.gguf", whole[:len(whole)/2], 0o666),
		os.CopyFS(folder+"/llama3", os.DirFS(data+"/whole-gguf/llama3")),
		os.CopyFS(folder+"/deep/mlx", os.DirFS(data+"/whole-gguf/mlx-llama3-4bit")),
		os.CopyFS(folder+"/vl", os.DirFS(data+"/architectures/qwen3-vl")),
		os.CopyFS(folder+"/odd", os.DirFS(data+"/whole-gguf/llama3")),
		os.WriteFile(folder+"/odd/config.json", []byte(`{"architectures": ["OddModel"]}`), 0o666),
		os.MkdirAll(home+"/.lmstudio/models/ann/plain", 0o777),
		os.WriteFile(home+"/.lmstudio/models/ann/plain/plain.gguf", whole, 0o666),
	))
	return folder
}

// aboutModels returns the reasons in tensorfs.json, "" without a reason, by the models' paths or
// names.
func aboutModels(t *testing.T, dir string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(dir + "/tensorfs.json")
	must(t, err)
	var about struct {
		Models []struct {
			Path, Model, Reason string
			Available           bool
		}
	}
	must(t, json.Unmarshal(text, &about))
	all := map[string]string{}
	for _, m := range about.Models {
		if m.Available != (m.Reason == "") {
			t.Errorf("%+v", m)
		}
		all[m.Path] = m.Reason
		all[m.Model] = m.Reason
	}
	return all
}

// TestMountAsGGUF mounts several libraries as one flat folder. Listing it opens nothing; asking for
// the size of a file that must be converted opens its model once; a model that cannot be opened
// fails without affecting others.
func TestMountAsGGUF(t *testing.T) {
	needFUSE(t)
	folder := allLibraries(t)
	dir := filepath.Join(t.TempDir(), "m")
	code, _, problems := command("mount", "--as", "gguf", "ollama:", "lmstudio:", folder, dir)
	if code != 0 {
		t.Fatal(problems)
	}
	t.Cleanup(func() { command("umount", dir) })
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if e.IsDir() != slices.Contains([]string{"vl", "tinyllama--vl"}, e.Name()) {
			t.Errorf("%s is a directory: %v", e.Name(), e.IsDir())
		}
	}
	for _, want := range []string{"plain.gguf", "ann--plain--plain.gguf", "llama3.gguf", "deep--mlx.gguf", "vl", "broken.gguf", "tinyllama--latest.gguf", "tensorfs.json"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %q", want, names)
		}
	}
	if slices.Contains(names, "odd.gguf") || aboutModels(t, dir)[folder+"/odd"] == "" {
		t.Errorf("a class that nobody knows is shown, or not explained: %q", names)
	}
	if open := openModels(t, dir); len(open) != 0 {
		t.Errorf("a listing opened %q", open)
	}
	if st, err := os.Stat(dir + "/plain.gguf"); err != nil || !st.Mode().IsRegular() || st.Mode().Perm() != 0o444 || len(openModels(t, dir)) != 0 {
		t.Errorf("%v, %v, open %q", st, err, openModels(t, dir))
	}
	for file, model := range map[string][2]string{
		"plain.gguf": {folder + "/plain.gguf", "gguf/model.gguf"}, "llama3.gguf": {folder + "/llama3", "gguf/model.gguf"}, "deep--mlx.gguf": {folder + "/deep/mlx", "gguf/model.gguf"},
		"vl/vl.gguf": {folder + "/vl", "gguf/model.gguf"}, "vl/mmproj-vl.gguf": {folder + "/vl", "gguf/mmproj.gguf"}, "tinyllama--latest.gguf": {"ollama:tinyllama", "gguf/model.gguf"},
	} {
		_, want, problems := command("cat", "--force", model[0], model[1])
		st, err := os.Stat(filepath.Join(dir, file))
		if err != nil || st.Size() != int64(len(want)) || len(want) == 0 {
			t.Errorf("%s: %v, %v, want %d bytes; %s", file, st, err, len(want), problems)
			continue
		}
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s: %d bytes, %v, want those of %s", file, len(got), err, model)
		}
	}
	if _, err := os.ReadFile(dir + "/broken.gguf"); !errors.Is(err, syscall.EIO) {
		t.Errorf("a broken model: %v", err)
	}
	testlimit.Wait(t, "why it cannot be opened", func() bool { return aboutModels(t, dir)["broken.gguf"] != "" })
	if about := aboutModels(t, dir); about["llama3.gguf"] != "" {
		t.Errorf("%q", about)
	}
	whole, err := os.ReadFile(folder + "/plain.gguf")
	must(t, err)
	must(t, errors.Join(os.WriteFile(folder+"/new.gguf", whole, 0o666), os.Remove(folder+"/plain.gguf")))
	testlimit.Wait(t, "a new model, and one that is gone", func() bool {
		_, there := os.Stat(dir + "/new.gguf")
		_, gone := os.Stat(dir + "/plain.gguf")
		return there == nil && errors.Is(gone, os.ErrNotExist)
	})
	replaceFile(t, folder+"/broken.gguf", whole)
	testlimit.Wait(t, "a model that was mended", func() bool {
		got, err := os.ReadFile(dir + "/broken.gguf")
		return err == nil && bytes.Equal(got, whole) && aboutModels(t, dir)["broken.gguf"] == ""
	})
}

// TestMountWithout holds that a missing store is empty, with a warning, and shows its models when it exists.
func TestMountWithout(t *testing.T) {
	needFUSE(t)
	folder := allLibraries(t)
	t.Setenv("HF_HUB_CACHE", filepath.Join(folder, "none"))
	home := t.TempDir() // without LM Studio
	t.Setenv("HOME", home)
	t.Setenv("OLLAMA_MODELS", filepath.Join(home, "ollama"))
	for _, c := range []struct {
		args    []string
		missing int
		later   string // there once LM Studio has a model
	}{
		{[]string{"--as", "gguf", "lmstudio:", "hf:", "ollama:"}, 3, "ann--plain.gguf"},
		{[]string{"--as", "mlx", "lmstudio:"}, 1, ""},
		{[]string{"lmstudio:"}, 1, "ann"},
		{[]string{"--as", "gguf", "hf:", folder}, 1, "plain.gguf"},
	} {
		dir := filepath.Join(t.TempDir(), "m")
		code, _, problems := command(append(append([]string{"mount"}, c.args...), dir)...)
		if code != 0 || strings.Count(problems, "tensorfs: nothing is shown yet: ") != c.missing {
			t.Errorf("%q: exit code %d, %s", c.args, code, problems)
			continue
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 1 && !slices.Contains(c.args, folder) {
			t.Errorf("%q: %v, %v", c.args, entries, err)
		}
		models := filepath.Join(home, ".lmstudio/models")
		whole, err := os.ReadFile(ggufDir + "align8.gguf")
		must(t, errors.Join(err, os.MkdirAll(models+"/ann/plain", 0o777), os.WriteFile(models+"/ann/plain/plain.gguf", whole, 0o666)))
		if c.later != "" {
			testlimit.Wait(t, c.later, func() bool {
				entries, _ := os.ReadDir(dir)
				return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), strings.TrimSuffix(c.later, ".gguf")) })
			})
		}
		if code, _, problems := command("umount", dir); code != 0 {
			t.Error(problems)
		}
		must(t, os.RemoveAll(models))
	}
}

// TestMountAs mounts the other forms, and with other types.
func TestMountAs(t *testing.T) {
	needFUSE(t)
	folder := allLibraries(t)
	for _, c := range []struct {
		args []string
		want map[string]string // paths, and the beginning of the files
	}{
		{[]string{"--as", "lmstudio", "lmstudio:", "ollama:", folder}, map[string]string{
			"ann/plain--plain/plain--plain.gguf": "GGUF", "local/llama3/llama3.gguf": "GGUF", "ollama/tinyllama--latest/tinyllama--latest.gguf": "GGUF",
			"local/vl/mmproj-vl.gguf": "GGUF", "local/deep--mlx/deep--mlx.gguf": "GGUF"}},
		{[]string{"--as", "hf", folder, "ollama:"}, map[string]string{
			"local/llama3/config.json": "{", "local/llama3/model.safetensors": "", "ollama/tinyllama--latest/config.json": "{"}},
		{[]string{"--as", "mlx", folder, "ollama:"}, map[string]string{
			"local/llama3/config.json": "{", "local/llama3/model.safetensors": "", "local/deep--mlx/config.json": "{", "ollama/tinyllama--latest/config.json": "{"}},
		{[]string{"-o", "as=gguf", "--gguf-type", "q8_0", folder}, map[string]string{"llama3.gguf": "GGUF"}},
	} {
		dir := filepath.Join(t.TempDir(), "m")
		if code, _, problems := command(append(append([]string{"mount"}, c.args...), dir)...); code != 0 {
			t.Errorf("%q: %s", c.args, problems)
			continue
		}
		for path, head := range c.want {
			b, err := os.ReadFile(filepath.Join(dir, path))
			if err != nil || len(b) == 0 || !bytes.HasPrefix(b, []byte(head)) {
				t.Errorf("%q: %s: %d bytes, %v", c.args, path, len(b), err)
			}
		}
		if code, _, problems := command("umount", dir); code != 0 {
			t.Error(problems)
		}
	}
	for name, args := range map[string][]string{"changed": {"--set", "general.name=" + strings.Repeat("long ", 1000)}, "v1": {}} {
		folder := t.TempDir()
		file := map[string]string{"changed": "align8.gguf", "v1": "v1.gguf"}[name]
		stored, err := os.ReadFile(ggufDir + file)
		must(t, err)
		must(t, os.WriteFile(folder+"/x.gguf", stored, 0o666))
		dir := filepath.Join(t.TempDir(), "m")
		code, _, problems := command(append(append([]string{"mount", "--as", "gguf"}, args...), folder, folder+"/", dir)...)
		if code != 0 {
			t.Fatal(problems)
		}
		st, serr := os.Stat(dir + "/x.gguf") // before it is opened
		got, err := os.ReadFile(dir + "/x.gguf")
		if code, _, problems := command("umount", dir); code != 0 {
			t.Error(problems)
		}
		_, want, _ := command(append(append([]string{"cat", "--force"}, args...), folder+"/x.gguf", "gguf/model.gguf")...)
		if err := errors.Join(serr, err); err != nil || len(want) <= len(stored) || st.Size() != int64(len(want)) || string(got) != want {
			t.Errorf("%s: stat %v, %d bytes, %v; want %d, stored are %d", name, st, len(got), err, len(want), len(stored))
		}
	}
	for _, args := range [][]string{
		{"mount", "--as", "ggml", "ollama:", "m"}, {"mount", "--as", "gguf", "ollama:"}, {"mount", "--as", "gguf", "--backend", "nfs", "ollama:", "m"},
	} {
		if code, _, problems := command(args...); code != 2 || problems == "" {
			t.Errorf("%q: %d %s", args, code, problems)
		}
	}
	if code, _, problems := command("mount", "--as", "gguf", folder, folder+"/m"); code != 1 {
		t.Errorf("a mount in a library: %d %s", code, problems)
	}
}

// TestListLMStudio: what list calls a model of LM Studio, other commands take.
func TestListLMStudio(t *testing.T) {
	allLibraries(t)
	if out := succeeds(t, "list", "lmstudio:"); !strings.Contains(out, "lmstudio:ann/plain ") {
		t.Errorf("%s", out)
	}
	if out := succeeds(t, "info", "lmstudio:ann/plain"); !strings.Contains(out, "lmstudio:ann/plain") {
		t.Errorf("%s", out)
	}
	failsWith(t, 1, []string{"info", "lmstudio:ann/none"}, "there is no such model", "tensorfs list lmstudio:")
}
