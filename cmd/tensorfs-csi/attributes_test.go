package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats"
)

// strangersTree is a directory of models with a directory beside it that no volume may show. What begins with -> is a link.
func strangersTree(t testing.TB, files map[string]string) (local, outside string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for at, text := range files {
		path := filepath.Join(base, at)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, ok := strings.CutPrefix(text, "->"); ok {
			must(t, os.Symlink(strings.ReplaceAll(target, "BASE", base), path))
		} else {
			must(t, os.WriteFile(path, []byte(text), 0o600))
		}
	}
	return filepath.Join(base, "local"), filepath.Join(base, "outside")
}

// A model, or an adapter, is a path below --local, or the name of a model on another machine.
func TestNames(t *testing.T) {
	t.Parallel()
	local, outside := strangersTree(t, map[string]string{
		"outside/m": "", "local/m": "", "local/d/m": "", "local/in": "->d/m", "local/abs": "->BASE/local/d", "local/out": "->../outside", "local/self": "->.", "local/up": "->..",
		"local/nowhere": "->../outside/nothing", "local/ad": "", "local/ad:0.5": "->../outside", "local/v:2": "", "local/tov2": "->v:2", "local/a,b": "", "local/comma": "->a,b",
		"local/x": "", "local/tox": "->x", "local/x:3": "", "link": "->local",
	})
	for _, c := range []struct{ attribute, value, want string }{ // L means local, O means outside; "" if it is refused
		{"model", "L/m", "L/m"}, {"model", "L//d/./m/", "L/d/m"}, {"model", "L/in", "L/d/m"}, {"model", "L/abs/m", "L/d/m"}, {"model", "L/missing/x", "L/missing/x"},
		{"model", "L/../link/m", ""}, {"model", "L/../local/m", ""}, {"model", "L/out", ""}, {"model", "L/out/m", ""}, {"model", "L/out/missing", ""}, {"model", "L/up/outside/m", ""},
		{"model", "L", ""}, {"model", "L/", ""}, {"model", "L/self", ""}, {"model", "L/.", ""}, {"model", "O/m", ""}, {"model", "Lx", ""}, {"model", "/", ""}, {"model", "/proc/self/rootO/m", ""},
		{"model", "L/self/m", "L/m"}, {"model", "L/nowhere", "L/nowhere"}, {"model", "/proc/self/rootL/m", "L/m"},
		{"model", "hf:o/n", "hf:o/n"}, {"model", "ollama:n", "ollama:n"}, {"model", "https://h/x", "https://h/x"},
		// A server takes these for paths.
		{"model", "https:../../..O/m", ""}, {"model", "s3:../..O/m", ""}, {"model", "oci:/../..O/m", ""}, {"model", "https:/.O", ""}, {"model", "HTTPS:x", ""}, {"model", "file:///O/m", ""}, {"model", "lmstudio:a/b", ""}, {"model", "local/m", ""},
		{"model", "hf:", ""}, {"model", "hf://", ""}, {"model", "s3://", ""}, {"model", "gs://", ""}, {"model", "az://", ""}, {"model", "az://c/m.gguf", "az://c/m.gguf"}, {"model", "ms:", ""}, {"model", "https:///", ""}, {"model", "ollama:/", ""}, {"model", "-L/m", ""},

		{"lora", "L/m", "L/m"}, {"lora", "L/m:0.5", "L/m:0.5"}, {"lora", "L/in:-1e3,L/abs", "L/d/m:-1e3,L/d"}, {"lora", "hf:o/n::0.5,L/m", "hf:o/n::0.5,L/m"},
		{"lora", "L/ad:0.5", ""}, {"lora", "L/v:2", ""}, {"lora", "L/tov2", ""}, {"lora", "L/comma", ""}, {"lora", "L/tox:3", ""}, {"lora", "L/tox", "L/x"}, {"lora", "L/tox:4", "L/x:4"},
		{"lora", "L/out:1", ""}, {"lora", "L/m,O/m", ""}, {"lora", "L/m:0x1", "L/m:0x1"}, {"lora", "L/m:inf", "L/m:inf"}, {"lora", "L/m,", ""}, {"lora", ",", ""}, {"lora", "@L/m", ""}, {"lora", "L:0.5", ""}, {"lora", "https:..O/m:1", ""},

		{"path", "hf", "hf"}, {"path", ".", ""}, {"path", "f16/x/", "f16/x"}, {"path", "npy-f32", "npy-f32"},
		{"path", "source", "!"}, {"path", "source/m", "!"}, {"path", "./source", "!"}, {"path", "hf/../source", "!"}, {"path", "metadata", "!"}, {"path", "hf/../../x", "!"}, {"path", "/hf", "!"}, {"path", "README", "!"}, {"path", "hfx", "!"}, {"path", "..", "!"},
	} {
		fill := strings.NewReplacer("L", local, "O", outside).Replace
		given := map[string]string{"model": local + "/m"}
		given[c.attribute] = fill(c.value)
		a, err := readAttributes(given, local)
		got := a[c.attribute]
		if want := strings.TrimPrefix(fill(c.want), "!"); got != want || (err != nil) != (c.want == "!" || c.want == "" && c.attribute != "path") {
			t.Errorf("%s %s: %q, %v; want %q", c.attribute, c.value, got, err, want)
		}
		if _, err := readAttributes(given, ""); err == nil && strings.Contains(fill(c.value), local) {
			t.Errorf("%s %s: taken without --local", c.attribute, c.value)
		}
	}
}

// FuzzAttributes holds that nothing is taken for a model, an adapter or a directory that a server, or mount(2), takes for something outside of --local or of the
// tree.
func FuzzAttributes(f *testing.F) {
	local, _ := strangersTree(f, map[string]string{
		"outside/m": "", "local/m": "", "local/d/m": "", "local/in": "->d/m", "local/out": "->../outside", "local/abs": "->BASE/outside", "local/ad:0.5": "->../outside", "local/self": "->.",
	})
	for _, name := range []string{"L/m", "L/in", "L/out/m", "L/../outside/m", "L/ad:0.5", "L/self/self/m:1,L/d", "hf:o/n:0.5", "https:../L/../x", "s3://b/k", "-L", "L,L", "oci:L", "/proc/self/root/L", "ollama:n", "L/m\x00", "https://u:p@h/x"} {
		f.Add(name, name, "hf")
	}
	for _, path := range []string{"source/x", "hf/../source", ".", "..", "f16/..//gguf", "/hf", "hf\x00"} {
		f.Add("L/m", "", path)
	}
	f.Fuzz(func(t *testing.T, model, lora, path string) {
		fill := func(s string) string { return strings.ReplaceAll(s, "L", local) }
		a, err := readAttributes(map[string]string{"model": fill(model), "lora": fill(lora), "path": path, "views": model, "warm": path, "offline": lora}, local)
		if err == nil || a["model"] == "" {
			a, err = readAttributes(map[string]string{"model": fill(model), "lora": fill(lora), "path": path}, local)
		}
		if err != nil {
			if len(err.Error()) > 4*maxValue+1000 || strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("error %q", err)
			}
			return
		}
		isInside := func(name string) {
			if formats.IsName(name) {
				return
			}
			abs, err := filepath.Abs(filepath.Join("/", name)) // where servers are
			must(t, err)
			if !strings.HasPrefix(abs, local+"/") {
				t.Errorf("%q leads to %s", name, abs)
			}
			if real, err := filepath.EvalSymlinks(abs); err == nil && !strings.HasPrefix(real, local+"/") {
				t.Errorf("%q leads to %s", name, real)
			}
		}
		isInside(a["model"])
		for _, flag := range a.flags() {
			if adapter, ok := strings.CutPrefix(flag, "--lora="); ok {
				isInside(adapter)
				name, _ := formats.CutScale(adapter, func(string) bool { return false })
				isInside(name)
			}
		}
		if first, _, _ := strings.Cut(a["path"], "/"); a["path"] != "" && (!filepath.IsLocal(a["path"]) || filepath.Clean(a["path"]) != a["path"] || !slices.Contains(shownDirectories, first)) {
			t.Errorf("path %q", a["path"])
		}
		again, err := readAttributes(a, local)
		if err != nil || !maps.Equal(again, a) {
			t.Errorf("%v is %v when it is read again: %v", a, again, err)
		}
	})
}

// TestScaleOfAdapter: the driver and its servers split an adapter alike, and names are shown without secrets.
func TestScaleOfAdapter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ adapter, name, scale string }{
		{"/m/a", "/m/a", ""}, {"/m/a:0.5", "/m/a", ":0.5"}, {"/m/a:-1e3", "/m/a", ":-1e3"}, {"/m/a:inf", "/m/a:inf", ""}, {"/m/a:1e999", "/m/a:1e999", ""},
		{"hf:o/n:0.5", "hf:o/n:0.5", ""}, // which selects a file
		{"hf:o/n::0.5", "hf:o/n", "::0.5"}, {"hf:o/n:Q4_0:0.5", "hf:o/n:Q4_0", ":0.5"}, {"oci://h/a:2", "oci://h/a:2", ""}, {"https://h/a:2", "https://h/a", ":2"},
	} {
		if name, scale := splitScale(c.adapter); name != c.name || scale != c.scale {
			t.Errorf("%s: %q and %q", c.adapter, name, scale)
		}
	}
	for name, want := range map[string]string{
		"https://u:secret@h/x?t=secret#secret": "https://h/x?...", "https://u:se/cret@h/x": "https://...", "s3://b/k?d": "s3://b/k?d", "gs://b/k?d": "gs://b/k?d", "az://c/b?sig=secret": "az://c/b?...", "/m/what?": "/m/what?",
	} {
		if got := (attributes{"model": name}).public(); got != want {
			t.Errorf("%s is shown as %s", name, got)
		}
	}
}
