package main

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/testing/testmount"
	"github.com/tensorfs/tensorfs/internal/testing/testoptions"
	"github.com/tensorfs/tensorfs/internal/testing/testtree"
	"github.com/tensorfs/tensorfs/metal"
	"github.com/tensorfs/tensorfs/views"
)

const (
	header = "tensorfs.h"
	golden = "../../testdata/gguf/llama-xs.q8_0.gguf"
)

// declarations returns tensorfs.h without its comments.
func declarations(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(header)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(string(text), "")
}

// functions returns the names of the functions that tensorfs.h declares, sorted.
func functions(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^[a-z].*?\b(tensorfs_\w+)\(`).FindAllStringSubmatch(declarations(t), -1) {
		if !strings.HasPrefix(m[0], "typedef") {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	if len(names) < 25 {
		t.Fatalf("only %d functions were found: %q", len(names), names)
	}
	return names
}

// fnv1a is the sum that check.c prints.
func fnv1a(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

// line is what check.c prints of a tensor.
func line(ref metal.Ref, dtype string, engine int, shape []int64, q *testtree.Quant, sections []tensorfs.Part, b []byte) string {
	s := fmt.Sprintf("%s %s %d %s %d %016x", ref, dtype, engine, strings.ReplaceAll(fmt.Sprint(shape), " ", ","), len(b), fnv1a(b))
	if q != nil {
		s += fmt.Sprintf(" %s/%d/%d", q.Mode, q.Bits, q.GroupSize)
	}
	for _, p := range sections {
		s += fmt.Sprintf(" %s:%s:%d+%d", p.Name, p.DType, p.Offset, p.Bytes)
	}
	return s
}

// ofTree returns what check.c prints of the files of a tree for tests.
func ofTree(tree *testtree.Tree) (lines []string) {
	for _, x := range tree.Tensors {
		engine := -1
		if x.Engine != nil {
			engine = *x.Engine
		}
		var sections []tensorfs.Part
		for _, s := range x.Sections {
			sections = append(sections, tensorfs.Part(s))
		}
		lines = append(lines, line(metal.Ref{View: x.View, Name: x.Name}, x.DType, engine, x.Shape, x.Quant, sections, tree.Bytes(x)))
	}
	return lines
}

// ofModel returns what check.c prints of a model: what package metal has.
func ofModel(t *testing.T, model string, adapters ...string) (names, lines []string) {
	t.Helper()
	l, err := metal.Open(model, metal.Options{LoRA: adapters})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, view := range l.Views() {
		for _, name := range l.Names(view) {
			info, err := l.Info(view, name)
			if err != nil {
				t.Fatal(err)
			}
			b, err := l.Tensor(view, name)
			if err != nil {
				t.Fatal(err)
			}
			engine, ok := views.EngineDType(view, &info)
			if !ok {
				engine = -1
			}
			var q *testtree.Quant
			if info.Quant != nil {
				q = &testtree.Quant{Mode: info.Quant.Mode, Bits: info.Quant.Bits, GroupSize: info.Quant.GroupSize}
			}
			lines = append(lines, line(metal.Ref{View: view, Name: name}, info.DType.String(), engine, info.Shape, q, info.Parts, b.Contents))
			if err := b.Release(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return l.Views(), lines
}

// sanitizers are the flags for the compiler's checks of memory and behaviour; none
// where a program with them does not start.
func sanitizers(t *testing.T) []string {
	t.Helper()
	flags := []string{"-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"}
	program := filepath.Join(t.TempDir(), "program")
	c := exec.Command(tool(t, "the C interface", os.Getenv("CC"), "cc", "gcc", "clang"), append(flags, "-x", "c", "-", "-o", program)...)
	c.Stdin = strings.NewReader("int main(void) { return 0; }\n")
	if c.Run() == nil && exec.Command(program).Run() == nil {
		return flags
	}
	t.Log("NOT TESTED: with AddressSanitizer, because this compiler has none")
	return nil
}

// A C program sees through tensorfs.h what there is, and its mistakes are errors;
// without a wrong access and without a leak.
func TestC(t *testing.T) {
	program := compile(t, "testdata/check.c", sanitizers(t)...)
	tree := testtree.Sample()
	mount, _ := tree.Write(t)
	var tests []struct {
		name, model string
		args, lines []string
	}
	for _, model := range []string{golden, "../../testdata/gguf/gpt-oss.mxfp4.gguf", mount} {
		views, lines := ofModel(t, model)
		for _, line := range ofTree(tree) {
			if model == mount && !slices.Contains(lines, line) {
				t.Errorf("it lacks %s", line)
			}
		}
		tests = append(tests, struct {
			name, model string
			args, lines []string
		}{filepath.Base(model), model, views, lines})
	}
	// A base with adapters, and a recipe: their numbers differ from the base's.
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../testdata/lora/plain-bf16-f32")); err != nil {
		t.Fatal(err)
	}
	base, adapter, recipe := filepath.Join(dir, "base"), filepath.Join(dir, "adapter0"), filepath.Join(dir, "recipe.yml")
	if err := os.WriteFile(recipe, []byte("merge_method: linear\nmodels: [{model: ./base, parameters: {weight: 1}}, {model: ./base+./adapter0, parameters: {weight: 2}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, plain := ofModel(t, base)
	for _, x := range []struct {
		model    string
		adapters []string
	}{{base, []string{adapter}}, {base, []string{adapter, adapter + ":-0.5"}}, {recipe, nil}, {recipe, []string{adapter + ":2"}}} {
		args, lines := ofModel(t, x.model, x.adapters...)
		if slices.Equal(lines, plain) {
			t.Errorf("%s with %v is the base", x.model, x.adapters)
		}
		plain = lines // which the next one is not either
		for _, a := range slices.Backward(x.adapters) {
			args = slices.Insert(args, 0, "--lora="+a)
		}
		tests = append(tests, struct {
			name, model string
			args, lines []string
		}{fmt.Sprintf("%s with %d adapters", filepath.Base(x.model), len(x.adapters)), x.model, args, lines})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := exec.Command(program, append([]string{test.model}, test.args...)...)
			out := strings.Split(strings.TrimSpace(output(t, c)), "\n")
			if len(out) < 2 || !strings.HasPrefix(out[0], "model ") || !strings.HasPrefix(out[1], "views ") {
				t.Fatalf("it begins with %q", out[:min(2, len(out))])
			}
			if !slices.Equal(out[2:], test.lines) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(out[2:], "\n"), strings.Join(test.lines, "\n"))
			}
		})
	}
}

// A C program has the options of the commands: the same bytes, and the same messages.
func TestOptions(t *testing.T) {
	program := compile(t, "testdata/options.c", sanitizers(t)...)
	run := func(c testoptions.Case) string {
		return strings.TrimSpace(output(t, exec.Command(program, append([]string{c.File, c.Model}, c.Options...)...)))
	}
	for _, c := range testoptions.Cases(t) {
		m, err := models.Open(c.Model, models.Options{Convert: c.Convert(t)})
		if err != nil {
			t.Fatal(err)
		}
		b := testoptions.Read(t, m, c.File)
		if got, want := run(c), fmt.Sprintf("%d %016x", len(b), fnv1a(b)); got != want {
			t.Errorf("%s %q: %s, want %s", c.Model, c.Options, got, want)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range testoptions.Wrongs(t) {
		status := map[bool]string{true: "2 ", false: ""}[c.Always] // TENSORFS_INVALID
		if got := run(c.Case); !strings.HasPrefix(got, status) || !strings.Contains(got, " "+c.Message) {
			t.Errorf("%q: %s, want %s", c.Options, got, c.Message)
		}
	}
	for option, want := range map[string]string{"gguf_type=q4_0": `2 "gguf_type" is not an option of a model; did you mean gguf-type?`, "set": "2 --set: it wants a value"} {
		if got := run(testoptions.Case{Model: golden, File: "index.json", Options: []string{option}}); got != want {
			t.Errorf("%s: %s, want %s", option, got, want)
		}
	}
}

// Config, metadata, fused tensors, and what options do: budget, cache, alignment.
func TestFacts(t *testing.T) {
	output(t, exec.Command(compile(t, "testdata/facts.c", append(sanitizers(t), "-lm")...), golden, t.TempDir()))
}

// In a forked child everything fails, and nothing hangs.
func TestFork(t *testing.T) {
	source, err := os.ReadFile("testdata/fork.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range functions(t) {
		if name != "tensorfs_error_free" && !strings.Contains(string(source), name+"(") {
			t.Errorf("fork.c does not call %s", name)
		}
	}
	output(t, exec.Command(compile(t, "testdata/fork.c"), golden))
}

// Each field of config.json is in tensorfs_config under its name.
func TestConfigHasEveryField(t *testing.T) {
	_, body, ok := strings.Cut(declarations(t), "typedef struct tensorfs_config {")
	body, _, ok2 := strings.Cut(body, "} tensorfs_config;")
	if !ok || !ok2 {
		t.Fatal("there is no struct tensorfs_config")
	}
	have := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t[\w *]+?(\w+);`).FindAllStringSubmatch(body, -1) {
		have[m[1]] = true
	}
	config := reflect.TypeFor[metal.Config]()
	for i := range config.NumField() {
		name := config.Field(i).Tag.Get("json")
		if !have[name] {
			t.Errorf("tensorfs_config lacks %q", name)
		}
		delete(have, name)
		delete(have, name+"_count")
	}
	if len(have) > 0 {
		t.Errorf("config.json lacks %v", have)
	}
}

// where returns a golden model as the examples can open it: by its path, exported,
// and mounted by another process.
func where(t *testing.T) map[string]string {
	t.Helper()
	places := map[string]string{"model": golden, "exported": filepath.Join(t.TempDir(), "tree")}
	program := filepath.Join(t.TempDir(), "tensorfs")
	output(t, exec.Command("go", "build", "-o", program, "../../cmd/tensorfs"))
	if out, err := exec.Command(program, "export", golden, places["exported"], "*").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if why := testmount.Missing(); why != "" {
		t.Logf("NOT TESTED: a mount, because nothing can be mounted here: %s", why)
		return places
	}
	mount := t.TempDir()
	if out, err := exec.Command(program, "mount", golden, mount).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command(program, "umount", mount).CombinedOutput(); err != nil {
			t.Errorf("umount: %v\n%s", err, out)
		}
	})
	places["mounted"] = mount
	return places
}

// The examples of docs/c.md, built outside the tree against the installed
// library, use a model wherever it is.
func TestExamples(t *testing.T) {
	const view, name = "f16", "layers.0.attention.q.weight"
	l, err := metal.Open(golden, metal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Tensor(view, name)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, c := range b.Contents {
		sum += int(c)
	}
	var total int64
	for _, name := range l.Names("packed") {
		info, err := l.Info("packed", name)
		if err != nil {
			t.Fatal(err)
		}
		// q gives way to qkv, and k and v stay: they are in it once more.
		if part := strings.TrimSuffix(name, ".q.weight"); part != name {
			if info, err = l.Info("fused", part+".qkv.weight"); err != nil {
				t.Fatal(err)
			}
		}
		total += info.Data.Size()
	}
	tensors := len(l.Names("packed"))
	if err := b.Release(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	one := fmt.Sprintf("%s F16 [64, 64] 8192 bytes, sum %d\n", name, sum)
	all := fmt.Sprintf("llama, 2 layers\n%d tensors, %d bytes, complete\n", tensors, total)

	c, cc := compile(t, "../../docs/examples/engine.c"), compile(t, "../../docs/examples/engine.cc")
	places := where(t)
	for place, model := range places {
		t.Run(place, func(t *testing.T) {
			if got := output(t, exec.Command(c, model, view, name)); got != one {
				t.Errorf("engine.c: got %q, want %q", got, one)
			}
			if got := output(t, exec.Command(cc, model)); got != all {
				t.Errorf("engine.cc: got %q, want %q", got, all)
			}
			out, err := exec.Command(c, model, view, "nothing").CombinedOutput()
			if exit := (*exec.ExitError)(nil); err == nil || !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(string(out), `"nothing" is not in view "f16"`) || strings.Contains(string(out), "metal: ") {
				t.Errorf("a tensor that is not there: %v, %s", err, out)
			}
		})
	}
	t.Run("Python", func(t *testing.T) {
		python := tool(t, "the example for Python", "python3")
		run := func(args ...string) *exec.Cmd {
			c := exec.Command(python, append([]string{"../../docs/examples/ctypes_engine.py"}, args...)...)
			variable := "LD_LIBRARY_PATH"
			if runtime.GOOS == "darwin" {
				variable = "DYLD_LIBRARY_PATH"
			}
			c.Env = append(os.Environ(), variable+"="+filepath.Join(prefix(t), "lib"))
			return c
		}
		for place, model := range places {
			if got := output(t, run(model, view, name)); got != one {
				t.Errorf("%s: got %q, want %q", place, got, one)
			}
		}
		if out, err := run(golden, view, "nothing").CombinedOutput(); err == nil || !strings.Contains(string(out), `"nothing" is not in view "f16"`) || strings.Contains(string(out), "Traceback") {
			t.Errorf("a tensor that is not there: %v, %s", err, out)
		}
	})
}

// The header documents how long each returned pointer is valid.
func TestHeaderSaysHowLong(t *testing.T) {
	text, err := os.ReadFile(header)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range regexp.MustCompile(`(?s)/\*((?:[^*]|\*[^/])*)\*/\n((?:[^/\n][^\n]*\n)+)`).FindAllStringSubmatch(string(text), -1) {
		for _, f := range regexp.MustCompile(`(?m)^(?:[a-z][\w *]*?\*TENSORFS_NULLABLE|tensorfs_string) (tensorfs_\w+)\(`).FindAllStringSubmatch(m[2], -1) {
			n++
			words := strings.Join(strings.Fields(strings.ReplaceAll(m[1], "\n *", " ")), " ")
			if !regexp.MustCompile(`(?i)valid until tensorfs_|^The same with options`).MatchString(words) {
				t.Errorf("%s: its comment does not say how long what it returns is valid: %s", f[1], words)
			}
		}
	}
	if n < 21 {
		t.Errorf("only %d functions that return pointers were found", n)
	}
}

// The header is C++ too, as an Objective-C++ engine needs it.
func TestHeaderIsCPlusPlus(t *testing.T) {
	cmd := exec.Command(tool(t, "the header as C++", "c++", "g++", "clang++"), "-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", ".", "-")
	cmd.Stdin = strings.NewReader("#include \"tensorfs.h\"\nint main() { return tensorfs_close(nullptr, nullptr); }\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The Metal example cannot be compiled without a Mac; what it takes from
// tensorfs.h must at least be there.
func TestMetalExampleNames(t *testing.T) {
	header := declarations(t)
	example, err := os.ReadFile("../../docs/examples/engine.mm")
	if err != nil {
		t.Fatal(err)
	}
	uses := regexp.MustCompile(`\b(?:tensorfs|TENSORFS)_\w+|->(\w+)|\]\.(\w+)|options\.(\w+)`).FindAllStringSubmatch(string(example), -1)
	if len(uses) < 10 {
		t.Fatalf("only %d uses were found", len(uses))
	}
	for _, use := range uses {
		name := cmp.Or(use[1], use[2], use[3], use[0])
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(header) {
			t.Errorf("%s is not in tensorfs.h", name)
		}
	}
}
