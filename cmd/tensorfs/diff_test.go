package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

const (
	pairHF   = "../../testdata/pairs/llama/hf"
	pairGGUF = "../../testdata/pairs/llama/gguf/llama.gguf"
	otherArc = "../../testdata/whole-gguf/gemma3"
)

// oneTensor writes a safetensors file of F32 tensors, by name.
func oneTensor(t *testing.T, tensors map[string][]float64) string {
	t.Helper()
	var list []testmodel.SafeTensor
	for name, values := range tensors {
		var b []byte
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		}
		list = append(list, testmodel.SafeTensor{Name: name, DType: tensorfs.F32, Shape: []int64{int64(len(values))}, Data: append([]byte{}, b...)})
	}
	slices.SortFunc(list, func(a, b testmodel.SafeTensor) int { return strings.Compare(a.Name, b.Name) })
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := os.WriteFile(path, testmodel.Safetensors(list, nil), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// narrow fails where a line has more than 80 columns, apart from a path.
func narrow(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !strings.Contains(line, "/") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestDiffExit(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.gguf")
	f16, q4 := ggufDir+"llama-xs.f16.gguf", ggufDir+"llama-xs.q4_k_m.gguf"
	if _, err := os.Stat(f16); err != nil {
		t.Fatal(err)
	}
	nan := oneTensor(t, map[string][]float64{"a": {1, math.NaN(), math.Inf(1)}})
	one := oneTensor(t, map[string][]float64{"a": {1, 2, math.Inf(1)}})
	for _, test := range []struct {
		args   []string
		code   int
		stdout string
		stderr string // part of the one line; "" for an empty stderr
	}{
		{[]string{pairHF, pairGGUF}, 0, "21 tensors: 21 equal\n", ""},
		{[]string{pairGGUF, pairHF}, 0, "note: equal values, stored as F32 in A and F16 in B: 5\n", ""},
		{[]string{pairHF, pairGGUF, "*attention.q*"}, 0, "2 tensors: 2 equal\n", ""},
		{[]string{q8, splitTwo}, 0, "20 tensors: 20 equal\n", ""},
		{[]string{f16, q4}, 1, "20 tensors: 5 equal, 15 close\n", ""},
		{[]string{"--tolerance", "1e-6", f16, q4}, 1, "20 tensors: 5 equal, 15 different\n", ""},
		{[]string{f16, otherArc}, 1, "only in B", ""},
		{[]string{f16, otherArc, "*no_such*"}, 2, "", "no tensor of " + f16},
		{[]string{nan, nan}, 0, "1 tensor: 1 equal\n", ""},
		{[]string{nan, one}, 1, "1 of 3 numbers are NaN or infinite in one model only", ""},
		{[]string{q8, none}, 2, "", "no such file or directory; check the path"},
		{[]string{none, q8}, 2, "", "no such file or directory; check the path"},
		{[]string{q8}, 2, "", "usage: tensorfs diff"},
		{[]string{q8, q8, "["}, 2, "", "[ without ]"},
		{[]string{q8, q8, ""}, 2, "", "an argument is empty"},
		{[]string{"--tolerance", "0", q8, q8}, 2, "", "want a number above 0"},
		{[]string{"--tolerance", "NaN", q8, q8}, 2, "", "want a number above 0"},
		{[]string{"--i2s", "9", q8, q8}, 2, "", "want 128"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			code, stdout, stderr := command(append([]string{"diff"}, test.args...)...)
			if code != test.code || !strings.Contains(stdout, test.stdout) {
				t.Errorf("exit code %d, want %d; %s%s", code, test.code, stdout, stderr)
			}
			if !strings.Contains(stderr, test.stderr) || strings.Count(stderr, "\n") != min(len(test.stderr), 1) {
				t.Errorf("stderr %q, want one line with %q", stderr, test.stderr)
			}
			narrow(t, stdout)
		})
	}
}

// TestDiffOrder holds that the worst come first, and how many are shown.
func TestDiffOrder(t *testing.T) {
	a, b := map[string][]float64{}, map[string][]float64{}
	for i := range 60 {
		name := fmt.Sprintf("t%02d", i)
		a[name], b[name] = []float64{1, 1}, []float64{1, 1 + float64(i)}
	}
	for i := range 50 {
		a[fmt.Sprintf("a%02d", i)] = []float64{1}
	}
	x, y := oneTensor(t, a), oneTensor(t, b)
	for _, test := range []struct {
		args  []string
		lines int
		has   string
	}{{nil, 40, "  and 39 more; --all lists them\n"}, {[]string{"--all"}, 109, "t01"}} {
		code, out, stderr := command(append(append([]string{"diff"}, test.args...), x, y)...)
		if code != 1 || stderr != "" || !strings.Contains(out, test.has) || !strings.Contains(out, "110 tensors: 1 equal, 50 only in A, 59 different\n") {
			t.Errorf("%d %s %s", code, out, stderr)
		}
		names := []string{}
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); strings.HasPrefix(line, "  ") && (f[0][0] == 't' || f[0][0] == 'a' && f[0] != "and") {
				names = append(names, f[0])
			}
		}
		if len(names) != test.lines || names[0] != "t59" || names[1] != "t58" {
			t.Errorf("%v: %d lines: %v", test.args, len(names), names)
		}
	}
}

func TestDiffJSON(t *testing.T) {
	x := oneTensor(t, map[string][]float64{"same": {1}, "only": {1}, "zero": {0, 0}, "long": {1, 2}})
	y := oneTensor(t, map[string][]float64{"same": {1}, "zero": {0, 1}, "long": {1, 2, 3}})
	code, out, stderr := command("diff", "--json", x, y)
	type model struct{ Path, Format, Layout string }
	var got struct {
		Equal   bool
		A, B    model
		Summary map[string]int
		Config  []any
		Notes   []string
		Tensors []map[string]any
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 1 || stderr != "" {
		t.Fatal(code, out, stderr, err)
	}
	if got.Equal || got.A.Path != x || got.B.Format != "safetensors" || got.Config == nil || got.Notes == nil ||
		!equalMaps(got.Summary, map[string]int{"equal": 1, "close": 0, "different": 1, "shape": 1, "only_a": 1, "only_b": 0}) {
		t.Errorf("%s", out)
	}
	for i, want := range []string{"long shape", "only only_a", "same equal", "zero different"} {
		if x := got.Tensors[i]; fmt.Sprint(x["name"], " ", x["status"]) != want {
			t.Errorf("tensor %d: %v, want %s", i, x, want)
		}
	}
	zero := got.Tensors[3]
	if zero["nmse"] != "Infinity" || zero["cosine"] != "NaN" || zero["max_abs_diff"] != 1.0 || zero["mean_abs_diff"] != 0.5 || zero["differing"] != 1.0 {
		t.Errorf("%v", zero)
	}
	if _, ok := got.Tensors[0]["cosine"]; ok {
		t.Errorf("figures of what was not compared: %v", got.Tensors[0])
	}
	if code, out, _ := command("diff", "--json", x, x); code != 0 || !strings.Contains(out, `"equal": true`) {
		t.Errorf("%d %s", code, out)
	}
}

func equalMaps(a, b map[string]int) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// TestDiffConfig holds what is said of configs.
func TestDiffConfig(t *testing.T) {
	_, out, _ := command("diff", q8, otherArc)
	for _, want := range []string{"  architecture                      \"llama\"  \"gemma3\"\n", "  n_layers  "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
	if _, out, _ := command("diff", q8, q8); strings.Contains(out, "config") {
		t.Errorf("the same config: %s", out)
	}
}

// TestDiffRope compares models with GGUF files made from them, which store the scaling of rotary
// embeddings as tensors. If these tensors differ, or both models have the fields, the difference is
// shown.
func TestDiffRope(t *testing.T) {
	convert := func(dir string) string {
		code, out, stderr := command("cat", dir, "gguf/model.gguf")
		if code != 0 {
			t.Fatal(stderr)
		}
		return written(t, map[string][]byte{"model.gguf": []byte(out)}, "model.gguf")
	}
	for _, name := range []string{"llama3", "phi3"} {
		dir := testdata + "whole-gguf/" + name
		for _, args := range [][]string{{dir, convert(dir)}, {convert(dir), dir}} {
			code, out, stderr := command(append([]string{"diff"}, args...)...)
			if code != 0 || strings.Contains(out, "rope_") || strings.Contains(out, "config ") {
				t.Errorf("%s: exit code %d, %s%s", name, code, out, stderr)
			}
		}
	}
	config, err := os.ReadFile(testdata + "whole-gguf/llama3/config.json")
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := os.CopyFS(other, os.DirFS(testdata+"whole-gguf/llama3")); err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(config), `"factor": 8`, `"factor": 4`, 1)
	if err := os.WriteFile(filepath.Join(other, "config.json"), []byte(changed), 0o644); err != nil || changed == string(config) {
		t.Fatal(err, string(config))
	}
	if code, out, _ := command("diff", testdata+"whole-gguf/llama3", other); !strings.Contains(out, "  rope_scaling_factor  8  4\n") {
		t.Errorf("another factor in config.json: %d %s", code, out)
	}
	if code, out, _ := command("diff", convert(testdata+"whole-gguf/llama3"), other); code != 1 || !strings.Contains(out, "\n  rope_freqs.weight") {
		t.Errorf("another factor than in the GGUF file: %d %s", code, out)
	}
}

// changeFile writes to a file in place, whose mtime changes with it.
func changeFile(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte{0x55}, 200)
		err = errors.Join(err, f.Close(), os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDiffChanged holds that a model that changes during the comparison is an error of one line.
func TestDiffChanged(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string){
		"written to": changeFile,
		"truncated": func(t *testing.T, path string) {
			if err := os.Truncate(path, 4096); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(q8)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "m.gguf")
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			d := diffOptions{opened: func() { change(t, path) }}
			err = d.run(silent(t), []string{q8, path})
			if _, ok := errors.AsType[cli.TroubleError](err); !ok || err.Error() != path+": the file changed while it was read; run the command again" {
				t.Errorf("diff: %v", err)
			}
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			s := statOptions{opened: func() { change(t, path) }}
			err = s.run(silent(t), []string{path})
			if err == nil || err.Error() != path+": the file changed while it was read; run the command again" {
				t.Errorf("stat: %v", err)
			}
		})
	}
}

func TestParagraph(t *testing.T) {
	text := strings.Repeat("word ", 40) + strings.Repeat("x", 100)
	for i, line := range strings.Split(cli.Paragraph(80, "a: ", text), "\n") {
		if len(line) > 80 && !strings.Contains(line, strings.Repeat("x", 100)) || !strings.HasPrefix(line, []string{"a: w", "   "}[min(i, 1)]) {
			t.Errorf("line %d: %q", i, line)
		}
	}
}

// silent is a command line whose output goes nowhere.
func silent(t *testing.T) *cobra.Command {
	c := &cobra.Command{}
	c.SetContext(t.Context())
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	return c
}
