package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// TestWrongInputs holds that common wrong command lines give one clear line with the next step.
// Other tests do this for
//
//	mount M /etc, and any directory that is not empty   the tests of mount points
//	mount -v, mount --read-only, umount -a              TestOwnMounts
//	a file that is all zeros                            the tests of verify, and of package foreign
//	ulimit -n 7                                         TestFewDescriptors
//	info hf:ORG/NAME without a resolver                 the tests of remote models
//
// Two messages are Go's own and stay: ulimit -v (see docs/limits.md), and info M >&-, because Go's
// runtime opens /dev/null instead of a closed standard output.
func TestWrongInputs(t *testing.T) {
	apart(t)
	t.Setenv("OLLAMA_MODELS", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HF_HUB_CACHE", filepath.Join(t.TempDir(), "none"))
	dir := t.TempDir()
	gguf, err := os.ReadFile(q8)
	must(t, err)
	must(t, testmodel.Write(dir, map[string][]byte{"m.gguf": gguf, "two/m.gguf": gguf, "two/n.gguf": gguf, "file": nil, "empty/x/y": nil}))
	t.Chdir(dir)
	if code, _, stderr := command("export", "m.gguf", "exported", "raw"); code != 0 {
		t.Fatal(stderr)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	long := strings.Repeat("x", 5000)
	const noFile = ": no such file or directory; "
	for _, c := range []struct {
		args   string
		code   int
		stderr string // the line, without "tensorfs: "; "" for success
	}{
		// The words of the command line are in another order.
		{"m.gguf info", 2, "the command comes before the model; did you mean tensorfs info m.gguf?"},
		{"m.gguf ls f16", 2, "the command comes before the model; did you mean tensorfs ls m.gguf f16?"},
		{"m.gguf", 0, ""},
		{"--json m.gguf", 0, ""},
		{"m.gguf -f", 2, "unknown flag: --foreground; tensorfs info has no such flag, tensorfs mount does"},
		{"m.ggfu", 1, at("m.ggfu") + noFile + "did you mean " + at("m.gguf") + "?"},
		{"m.gguf x y", 2, "too many arguments; name a command before them, such as tensorfs info MODEL (tensorfs --help lists all)"},
		{"lss m.gguf", 2, `"lss" is not a command, and there is no file of that name; did you mean list or ls?`},
		{"fil", 2, `"fil" is not a command, and there is no file of that name; did you mean the file file?`},
		{"exportd", 2, `"exportd" is not a command, and there is no file of that name; did you mean the command export, or the file exported?`},
		{"nonsense", 2, `"nonsense" is not a command, and there is no file of that name; tensorfs --help lists the commands, tensorfs list the models of this machine`},
		{"mount empty/x m.gguf", 2, "the model comes first; did you mean tensorfs mount " + at("m.gguf") + " " + at("empty/x") + "?"},
		{"mount nothing m.gguf", 2, "the model comes first; did you mean tensorfs mount m.gguf nothing?"},
		{"cat config.json m.gguf", 2, "the model comes first; did you mean tensorfs cat m.gguf config.json?"},
		{"stat output.weight m.gguf", 2, "the model comes first; did you mean tensorfs stat m.gguf output.weight?"},

		// Paths that are not directories, or directories that cannot be written.
		{"export m.gguf /dev/full f16", 1, "/dev/full: it is not a directory; name another directory"},
		{"export m.gguf file f16", 1, at("file") + ": it is not a directory; name another directory"},
		{"export m.gguf /proc/x f16", 1, "/proc/x: nothing can be written there: no such file or directory; name another directory"},

		// Values of flags.
		{"diff --tolerance abc m.gguf m.gguf", 2, `--tolerance "abc": want a number such as 0.01; see tensorfs diff --help`},
		{"export -j x m.gguf out f16", 2, `--jobs "x": want a number; see tensorfs export --help`},
		{"info --timeout x m.gguf", 2, `--timeout "x": want a time like 5m; see tensorfs info --help`},
		{"cat --gguf-type q4_0 m.gguf gguf/model.gguf", 1, "m.gguf: --gguf-type q4_0 changes nothing: its weights are quantised already (Q8_0), and are not quantised again; leave it out, name a model in F16, BF16 or F32, or add --requantise"},
		{"ls m.gguf f16 --views f32", 1, `no path of the tree matches "f16": the view was not chosen; --views f16 chooses it`},
		{"cat --views f32 m.gguf f16/output.weight", 1, "f16/output.weight is not in the tree: the view was not chosen; --views f16 chooses it"},
		{"ls -la m.gguf README", 0, ""},

		// Names of models.
		{"list hf", 1, at("hf") + noFile + "did you mean hf:?"},
		{"list ollama", 1, at("ollama") + noFile + "did you mean ollama:?"},
		{"mount hf m", 1, at("hf") + noFile + "did you mean hf:?"},
		{"info hf:", 1, "hf: it names all models of the cache, not one; tensorfs list hf: shows their names"},
		{"info ollama:", 1, "ollama: it names all models of the store, not one; tensorfs list ollama: shows their names"},
		{"info huggingface:a/b", 1, at("huggingface:a/b") + noFile + "did you mean hf:a/b?"},
		{"info a/b", 1, at("a/b") + noFile + "did you mean hf:a/b?"},
		{"a/b", 1, at("a/b") + noFile + "did you mean hf:a/b?"},
		{"info gguf:m.gguf", 1, at("gguf:m.gguf") + noFile + "did you mean " + at("m.gguf") + "?"},
		{"info gguf:zzzzzz", 1, at("gguf:zzzzzz") + noFile + "check the path (models in a store are named ollama:NAME or hf:ORG/NAME)"},
		{"info -", 1, "-: models are not read from a pipe; write it to a file, and name that"},
		{"info /dev/null", 1, "/dev/null: it is a device, not a regular file; models are not read from a pipe or a device: write it to a file, and name that"},
		{"info " + long, 1, at(long[:199-len(dir)-1]) + "..." + long[:197] + ": its name is longer than file names can be; check the path"},
		{long, 2, `"` + long[:198] + "..." + long[:197] + `" is not a command, and there is no file of that name; tensorfs --help lists the commands, tensorfs list the models of this machine`},
		{"info two", 1, at("two") + ": it has 2 GGUF models: m.gguf, n.gguf; name one, such as " + at("two/m.gguf")},
		{"info .", 1, dir + ": it is a folder with 3 models: " + at("m.gguf") + ", " + at("two/m.gguf") + ", " + at("two/n.gguf") + "; name one of them; tensorfs list . describes all, and tensorfs mount mounts all"},

		// More of them than one.
		{"stat m.gguf a b", 2, "\"a\": no such model; stat takes models and then one NAME or GLOB: 'layers.0.*' in quotes selects several tensors"},

		{"cache purge", 2, `"purge" is not a command; did you mean prune?`},
	} {
		name := c.args[:min(len(c.args), 60)]
		t.Run(name, func(t *testing.T) {
			want := "tensorfs: " + c.stderr + "\n"
			if c.stderr == "" {
				want = ""
			}
			code, out, stderr := command(strings.Fields(c.args)...)
			if code != c.code || stderr != want || (out == "") != (code != 0) {
				t.Errorf("exit code %d, %q\nwant %d, %q", code, stderr, c.code, want)
			}
		})
	}
	for _, made := range []string{"info", "m", "nothing", "out"} {
		if _, err := os.Lstat(made); err == nil {
			t.Errorf("%s was made", made)
		}
	}
}
