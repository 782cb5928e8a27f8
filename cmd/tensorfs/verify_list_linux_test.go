package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// manifestOf writes a list of a model.
func manifestOf(t *testing.T, model string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list.sha256")
	code, out, stderr := command(append(append([]string{"verify", "--manifest", path}, flags...), model)...)
	if code != 0 || stderr != "" || !strings.Contains(out, " digests, ") {
		t.Fatalf("verify --manifest: exit code %d, %q, %q", code, out, stderr)
	}
	return path
}

func contentOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

// A list has the digest of every file, as cat prints it, in the order of the tree.
func TestManifest(t *testing.T) {
	for _, model := range allModels(t) {
		dirs := []string{"raw", "f16", "metadata", "source", "gguf"}
		list := contentOf(t, manifestOf(t, model, "--in", "raw,f16/", "--in", "metadata,source,gguf,raw"))
		var want strings.Builder
		for _, dir := range dirs {
			_, paths, _ := command("ls", model, dir+"/*")
			for _, path := range slices.Sorted(strings.FieldsSeq(paths)) { // ls has another order
				_, content, _ := command("cat", model, path)
				fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256([]byte(content)), path)
			}
		}
		if list != want.String() {
			t.Errorf("%s: the list is\n%s\nwant\n%s", model, list, want.String())
		}
	}
	list := contentOf(t, manifestOf(t, q8))
	if n := strings.Count(list, "  raw/"); n != 20 || n != strings.Count(list, "\n") {
		t.Errorf("a list of raw/ has %d files:\n%s", n, list)
	}
	for _, args := range [][]string{{"--manifest", q8}, {"--manifest", "-", q8}, {q8, "--manifest", "-"}, {"--manifest=-", q8}} {
		if code, out, stderr := command(append([]string{"verify"}, args...)...); code != 0 || out != list || stderr != "" {
			t.Errorf("verify %q: exit code %d, %q, %q", args, code, out, stderr)
		}
	}
}

// A list appears whole or not at all, and only where there was none or another list.
func TestManifestReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "list")
	const old = "# of before\n"
	must(t, os.WriteFile(path, []byte(old), 0o640))
	link := filepath.Join(dir, "link")
	must(t, os.Symlink("list", link))
	names := func() (all []string) {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	// A model that cannot be read leaves the list.
	broken := copyOf(t, q8)
	must(t, os.Truncate(broken, stat(t, broken).Size()-1))
	if code, _, _ := command("verify", "--manifest", path, broken); code != 1 || contentOf(t, path) != old {
		t.Errorf("after a failure, exit code %d: %q", code, contentOf(t, path))
	}
	if code, _, stderr := command("verify", "--manifest", link, q8); code != 0 || strings.Count(contentOf(t, path), "\n") != 20 {
		t.Errorf("through a link: exit code %d, %q: %q", code, stderr, contentOf(t, path))
	}
	if st := stat(t, path); st.Mode().Perm() != 0o640 {
		t.Errorf("the list has mode %v", st.Mode())
	}
	// A model in the place of a list stays.
	model := copyOf(t, q8)
	for _, to := range []string{model, "../../README.md"} {
		before := contentOf(t, to)
		if code, _, stderr := command("verify", "--manifest", to, model); code != 1 || !strings.Contains(stderr, "not a list") || contentOf(t, to) != before {
			t.Errorf("%s: exit code %d, %q", to, code, stderr)
		}
	}
	// What is no regular file is written to.
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	code, out, stderr := command("verify", "--manifest", fmt.Sprintf("/dev/fd/%d", w.Fd()), q8)
	must(t, w.Close())
	if b, err := io.ReadAll(r); code != 0 || err != nil || string(b) != contentOf(t, path) || strings.Contains(out, "  raw/") {
		t.Errorf("to a pipe: exit code %d, %v, %q, %q: %q", code, err, out, stderr, b)
	}
	if got := names(); !slices.Equal(got, []string{"link", "list"}) {
		t.Errorf("left over: %q", got)
	}
}

func TestCheck(t *testing.T) {
	raw := contentOf(t, manifestOf(t, q8))
	both := contentOf(t, manifestOf(t, q8, "--in", "raw,f16"))
	norm := "raw/output_norm.weight"
	line := func(list, path string) string {
		for l := range strings.Lines(list) {
			if strings.HasSuffix(l, "  "+path+"\n") {
				return l
			}
		}
		t.Fatalf("no line for %s", path)
		return ""
	}
	other := fmt.Sprintf("%x", sha256.Sum256(nil))
	const absent = "raw/nosuch.weight"
	for _, test := range []struct {
		name, list string
		args       []string
		files      int      // compared
		want       []string // "KIND PATH"
		problem    string   // part of the first
	}{
		{"as it was written", raw, nil, 20, nil, ""},
		{"of two views", both, nil, 40, nil, ""},
		{"in any order, binary, CRLF", "# mine\r\n" + strings.ReplaceAll(strings.ReplaceAll(reversed(raw), "  raw", " *raw"), "\n", "\r\n"), nil, 20, nil, ""},
		{"paths of find", strings.ReplaceAll(raw, "  raw", "  ./raw"), nil, 20, nil, ""},
		{"names as they are in raw/", strings.ReplaceAll(raw, "  raw/", "  "), nil, 20, nil, ""},
		{"names as they are in f16/", strings.ReplaceAll(strings.ReplaceAll(both, raw, ""), "  f16/", "  "), []string{"--in", "f16"}, 20, nil, ""},
		{"twice", raw + raw, nil, 20, nil, ""},
		{"another file of the tree", raw + fmt.Sprintf("%x  config.json\n", sha256.Sum256([]byte(catOf(t, q8, "config.json")))), nil, 21, nil, ""},
		{"different", strings.ReplaceAll(raw, line(raw, norm), other+"  "+norm+"\n"), nil, 20, []string{"different " + norm}, "the list says " + other},
		{"not in the model", raw + other + "  " + absent + "\n", nil, 20, []string{"missing " + absent}, "the list has it and the model does not"},
		{"not in a view", both + other + "  fused/layers.0.attention.k_bias\n", nil, 40, []string{"missing fused/layers.0.attention.k_bias"}, ""},
		{"a directory", raw + other + "  f16\n", nil, 20, []string{"missing f16"}, "it is a directory"},
		{"absolute", raw + other + "  /etc/passwd\n", nil, 20, []string{"missing /etc/passwd"}, "not as a path of the tree"},
		{"outside", raw + other + "  ../../../../etc/passwd\n", nil, 20, []string{"missing ../../../../etc/passwd"}, ""},
		{"not in the list", strings.ReplaceAll(raw, line(raw, norm), ""), nil, 19, []string{"unlisted " + norm}, "the model has it"},
		{"two digests", raw + other + "  " + norm + "\n", nil, 20, []string{"list " + norm}, "line 21 "},
		{"no line of a list", "hello\n" + raw + "\x00\n", nil, 20, []string{"list "}, "2 lines that sha256sum would not write, the first is line 1"},
		{"with the views that are asked for", both + other + "  f16/nosuch\n", []string{"--in", "raw"}, 20, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "list")
			must(t, os.WriteFile(path, []byte(test.list), 0o600))
			code := 0
			if test.want != nil {
				code = 1
			}
			r := reportOf(t, code, append([]string{"--check", path, q8}, test.args...)...)
			var got []string
			for _, f := range r.Findings {
				got = append(got, f.Kind+" "+f.Path)
			}
			if !slices.Equal(got, test.want) || r.Files != test.files || !r.Complete {
				t.Errorf("%q, %d compared; want %q, %d", got, r.Files, test.want, test.files)
			}
			if len(r.Findings) > 0 && !strings.Contains(r.Findings[0].Problem, test.problem) {
				t.Errorf("%q, want %q", r.Findings[0].Problem, test.problem)
			}
			_, out, stderr := command(append([]string{"verify", "--check", path, q8}, test.args...)...)
			if !strings.Contains(out, fmt.Sprintf("%d digests compared", test.files)) || (stderr == "") != (code == 0) || strings.Contains(stderr, "publisher") {
				t.Errorf("verify --check says %q, %q", out, stderr)
			}
		})
	}
}

func catOf(t *testing.T, model, path string) string {
	t.Helper()
	code, out, stderr := command("cat", model, path)
	if code != 0 {
		t.Fatalf("cat %s: %s", path, stderr)
	}
	return out
}

func reversed(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Reverse(lines)
	return strings.Join(lines, "")
}

// The list of a sound model finds what was damaged, and only that.
func TestCheckFindsDamage(t *testing.T) {
	list := manifestOf(t, q8, "--in", "raw,f16")
	code, out, stderr := command("verify", "--check", list, damagedNorm(t))
	if code != 1 || strings.Count(out, "its digest is sha256:") != 2 || !strings.Contains(out, "raw/output_norm.weight: ") || !strings.Contains(out, "f16/output_norm.weight: ") ||
		!strings.Contains(out, "40 digests compared") || !strings.Contains(stderr, "if the list is right") {
		t.Errorf("exit code %d, %q, %q", code, out, stderr)
	}
	// The twin in F32 has none of them.
	code, _, stderr = command("verify", "--check", list, ggufDir+"llama-xs.f32.gguf")
	if code != 1 || strings.Count(stderr, "\n") != 1 {
		t.Errorf("another model: exit code %d, %q", code, stderr)
	}
}

// What a list takes is bounded by the model, whatever is in it.
func TestCheckHostile(t *testing.T) {
	sum := fmt.Sprintf("%x", sha256.Sum256(nil))
	for name, test := range map[string]struct {
		list, stderr string
		findings     int
	}{
		"empty":             {"", "it has no line of sha256sum", 0},
		"comments":          {strings.Repeat("# x\n", 10_000), "it has no line of sha256sum", 0},
		"text":              {strings.Repeat("what is this\n", 10_000), "it has no line of sha256sum", 0},
		"a line too long":   {strings.Repeat("a", 1<<20), "line 1 is longer than", 0},
		"of something else": {manyLines(sum), "the list is damaged or of another model", maxStrange + 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "list")
			must(t, os.WriteFile(path, []byte(test.list), 0o600))
			code, out, stderr := command("verify", "--check", path, q8)
			if code != 1 || !strings.Contains(stderr, test.stderr) || strings.Count(stderr, "\n") != 1 || strings.Count(out, "\n") > test.findings+1 {
				t.Errorf("exit code %d, %d lines, %q", code, strings.Count(out, "\n"), stderr)
			}
			if test.findings > 0 && !strings.Contains(out, fmt.Sprintf("%d findings\n", test.findings)) {
				t.Errorf("not %d findings: %q", test.findings, out[max(len(out)-200, 0):])
			}
		})
	}
}

func manyLines(sum string) string {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "%s  other/\x1b[31m%d\n", sum, i)
	}
	return b.String()
}

// What verify writes, sha256sum checks in a mount, and the other way round.
func TestListsOfSha256sum(t *testing.T) {
	program, err := exec.LookPath("sha256sum")
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	dirs := []string{"raw", "packed", "f16", "npy", "gguf", "metadata", "source"}
	for _, model := range []string{q8, splitTwo, "../../testdata/models-mlx/qwen3-mixed", "../../testdata/ollama/models/manifests/registry.ollama.ai/library/tiny/bf16"} {
		t.Run(filepath.Base(model), func(t *testing.T) {
			list := manifestOf(t, model, "--in", strings.Join(dirs, ","))
			mount := mounted(t, model)
			check := exec.Command(program, "--check", "--strict", list)
			check.Dir = mount
			out, err := check.CombinedOutput()
			if n := strings.Count(contentOf(t, list), "\n"); err != nil || strings.Count(string(out), ": OK\n") != n {
				t.Errorf("sha256sum --check: %v, %d lines: %s", err, n, out)
			}
			for _, flag := range []string{"--text", "--binary", "--tag"} {
				write := exec.Command("sh", "-c", `find "$@" ! -type d -print0 | xargs -0 `+program+" "+flag, "sh")
				write.Args = append(write.Args, dirs...)
				write.Dir = mount
				out, err := write.Output()
				must(t, err)
				path := filepath.Join(t.TempDir(), "list")
				must(t, os.WriteFile(path, out, 0o600))
				if code, out, stderr := command("verify", "--check", path, model); code != 0 || !strings.Contains(out, fmt.Sprintf("%d digests compared", strings.Count(contentOf(t, list), "\n"))) {
					t.Errorf("verify --check of sha256sum %s: exit code %d, %s%s", flag, code, out, stderr)
				}
			}
		})
	}
}
