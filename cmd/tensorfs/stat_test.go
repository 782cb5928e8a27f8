package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

func TestStatExit(t *testing.T) {
	odd := oneTensor(t, map[string][]float64{"odd": {1, math.NaN(), math.Inf(-1), 0}, "empty": {}, "nothing": {math.NaN()}, "one": {7}})
	for _, test := range []struct {
		args   []string
		code   int
		stdout []string
		stderr string
	}{
		{[]string{q8}, 0, []string{"20 tensors, ", "layers.1.ffn.up.weight  "}, ""},
		{[]string{q8, "layers.0.attention.q.weight"}, 0, []string{"tensor    layers.0.attention.q.weight\n", "source    blk.0.attn_q.weight\n", "beyond: "}, ""},
		{[]string{q8, "blk.0.attn_q.weight"}, 0, []string{"tensor    layers.0.attention.q.weight\n"}, ""},
		{[]string{q8, `"output_norm.weight"`}, 0, []string{"tensor    output_norm.weight\n"}, ""},
		{[]string{q8, "blk.1.*"}, 0, []string{"9 tensors, "}, ""},
		{[]string{q8, "layers.?.ffn_norm*"}, 0, []string{"2 tensors, "}, ""},
		{[]string{odd, "odd"}, 0, []string{"min       0\n", "zeros     1 (25 %)\n", "NaN       1 (25 %)\n", "infinite  1 (25 %)\n", "first     1 NaN -infinity 0\n"}, ""},
		{[]string{odd, "one"}, 0, []string{"min       7\n", "std       0\n", "\n  7                  "}, ""},
		{[]string{odd, "empty"}, 0, []string{"shape     [0], 0 numbers\n"}, ""},
		{[]string{odd, "nothing"}, 0, []string{"NaN       1 (100 %)\n"}, ""},
		{[]string{odd}, 0, []string{"note: odd: 1 NaN, 1 -infinity\n", "4 tensors, 6 numbers\n"}, ""},
		{[]string{q8, "layers.0.attention.q.wieght"}, 1, nil, "did you mean layers.0.attention.q.weight"},
		{[]string{q8, "model.layers.0.self_attn.q_proj.weight"}, 0, []string{"source    blk.0.attn_q.weight\n", "layout    as Hugging Face has it\n"}, ""},
		{[]string{ggufDir + "qwen3moe.q4_0.gguf", "model.layers.0.mlp.experts.3.up_proj.weight"}, 0, []string{"source    blk.0.ffn_up_exps.weight\n", "shape     [32, 128], "}, ""},
		{[]string{q8, "model.layers.0.self_attn.q_prj.weight"}, 1, nil, "did you mean model.layers.0.self_attn.q_proj.weight, model"},
		{[]string{q8, "zzz*"}, 1, nil, "no such tensor in " + q8 + "; tensorfs ls"},
		{[]string{q8, "["}, 2, nil, "[ without ]"},
		{[]string{}, 2, nil, "usage: tensorfs stat"},
		{[]string{filepath.Join(t.TempDir(), "none")}, 1, nil, "no such file"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			code, stdout, stderr := command(append([]string{"stat"}, test.args...)...)
			if code != test.code || !strings.Contains(stderr, test.stderr) || strings.Count(stderr, "\n") != min(len(test.stderr), 1) {
				t.Errorf("exit code %d, want %d; stderr %q", code, test.code, stderr)
			}
			for _, s := range test.stdout {
				if !strings.Contains(stdout, s) {
					t.Errorf("%q is not in %s", s, stdout)
				}
			}
			narrow(t, stdout)
		})
	}
}

func TestStatJSON(t *testing.T) {
	path := oneTensor(t, map[string][]float64{"odd": {1, math.NaN(), math.Inf(-1), 3}, "nothing": {math.Inf(1)}})
	type row struct {
		Name, DType       string
		SourceName        string `json:"source_name"`
		Count, NaN, Zeros int64
		PosInf            int64 `json:"infinity"`
		NegInf            int64 `json:"negative_infinity"`
		Min, Max, Mean    *float64
		Std               *float64
		First             []any
		Histogram         *struct{ Counts []int64 }
		Reason            string
		Shape             []int64
	}
	read := func(args ...string) (rows []row) {
		t.Helper()
		code, out, stderr := command(append([]string{"stat", "--json", path}, args...)...)
		if err := json.Unmarshal([]byte(out), &rows); err != nil || code != 0 || stderr != "" {
			t.Fatal(out, stderr, err)
		}
		return rows
	}
	rows := read()
	if len(rows) != 2 || rows[0].Name != "nothing" || rows[0].Min != nil || rows[0].PosInf != 1 || rows[1].Histogram != nil {
		t.Errorf("%+v", rows)
	}
	r := rows[1]
	if r.Count != 4 || r.NaN != 1 || r.NegInf != 1 || *r.Min != 1 || *r.Max != 3 || *r.Mean != 2 || *r.Std != 1 || !slices.Equal(r.First, []any{1.0, "NaN", "-Infinity", 3.0}) {
		t.Errorf("%+v", r)
	}
	if rows := read("odd"); len(rows) != 1 || rows[0].Histogram == nil || len(rows[0].Histogram.Counts) != 64 {
		t.Errorf("%+v", rows)
	}
}

// TestStatTypes describes tensors other than plain floats.
func TestStatTypes(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ints := write("i.safetensors", testmodel.Safetensors([]testmodel.SafeTensor{
		{Name: "ids", DType: tensorfs.I64, Shape: []int64{2}, Data: []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x15, 0xcd, 0x5b, 7, 0, 0, 0, 0}},
		{Name: "complex", DType: tensorfs.C64, Shape: []int64{1}, Data: make([]byte, 8)},
		{Name: "scalar", DType: tensorfs.F16, Shape: []int64{}, Data: []byte{0, 0x3c}},
	}, nil))
	for _, test := range []struct{ path, name, has string }{
		{ints, "ids", "max       123456789\n"},
		{ints, "ids", "first     -1 123456789\n"},
		{ints, "complex", "numbers   none: tensorfs cannot decode C64"},
		{ints, "scalar", "shape     [], 1 number\n"},
		{"../../testdata/whole-gguf/mlx-llama3-4bit", "layers.0.attention.q.weight", "type      affine 4-bit, groups of 64"},
		{"../../testdata/whole-gguf/mlx-llama3-4bit", "layers.0.attention.q.scales", "type      BF16"},
	} {
		if _, err := os.Stat(test.path); err != nil {
			t.Fatal(err)
		}
		if code, out, stderr := command("stat", test.path, test.name); code != 0 || !strings.Contains(out, test.has) {
			t.Errorf("%s: %d %s%s, want %q", test.name, code, out, stderr, test.has)
		}
	}
	if _, out, _ := command("stat", ints); !strings.Contains(out, "note: complex: tensorfs cannot decode C64") || !strings.Contains(out, "3 tensors, 3 numbers\n") {
		t.Errorf("%s", out)
	}
	if _, out, _ := command("stat", "../../testdata/whole-gguf/mlx-llama3-4bit"); strings.Contains(out, ".scales") {
		t.Errorf("companions are listed: %s", out)
	}
}

func TestLocale(t *testing.T) {
	for _, test := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", false}, {"", "", "en_US.UTF-8", true}, {"C", "", "en_US.UTF-8", false},
	} {
		t.Setenv("LC_ALL", test.all)
		t.Setenv("LC_CTYPE", test.ctype)
		t.Setenv("LANG", test.lang)
		if _, out, _ := command("stat", q8, "output_norm.weight"); strings.Contains(out, "█") != test.want || strings.Contains(out, "#") == test.want {
			t.Errorf("%+v: %s", test, out)
		}
	}
}

// TestStatI2S holds that --i2s chooses how the numbers are read. Of most layouts only
// later numbers differ.
func TestStatI2S(t *testing.T) {
	const path = "../../testdata/bitnet/i2s-rows4.gguf"
	run := func(layout string) string {
		code, out, stderr := command("stat", "--json", "--i2s", layout, path)
		if code != 0 {
			t.Fatal(stderr)
		}
		return out
	}
	if run("trinity") == run("128") {
		t.Error("both layouts give the same first numbers")
	}
}

// TestStatOfHF holds that a name of Hugging Face gives the numbers of that tensor in
// hf/, moved rows and all.
func TestStatOfHF(t *testing.T) {
	if code, out, _ := command("stat", q8, "model.layers.1.*"); code != 0 || !strings.Contains(out, "\nmodel.layers.1.mlp.up_proj.weight  ") || !strings.Contains(out, "\n9 tensors, ") {
		t.Errorf("a GLOB: %d %s", code, out)
	}
	model, dir := ggufDir+"llama-xs.f16.gguf", t.TempDir()
	if code, _, stderr := command("export", model, dir, "hf"); code != 0 {
		t.Fatal(stderr)
	}
	for _, name := range []string{"model.layers.0.self_attn.q_proj.weight", "model.embed_tokens.weight", "model.norm.weight"} {
		var got, want []map[string]any
		for path, rows := range map[string]*[]map[string]any{model: &got, filepath.Join(dir, "hf"): &want} {
			code, out, stderr := command("stat", "--json", path, name)
			if err := json.Unmarshal([]byte(out), rows); err != nil || code != 0 || len(*rows) != 1 {
				t.Fatal(stderr, err)
			}
			for _, key := range []string{"name", "source_name"} { // the directory's canonical and own name
				delete((*rows)[0], key)
			}
		}
		if !reflect.DeepEqual(got, want) || len(got[0]["first"].([]any)) != 8 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
