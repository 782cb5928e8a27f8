package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// memoryOf returns the memory in info --json, with these flags.
func memoryOf(t *testing.T, args ...string) map[string]any {
	t.Helper()
	code, out, errs := command(append([]string{"info", "--json"}, args...)...)
	var info struct{ Memory map[string]any }
	if err := json.Unmarshal([]byte(out), &info); code != 0 || err != nil {
		t.Fatalf("%q: exit code %d, %v, %s", args, code, err, errs)
	}
	return info.Memory
}

// TestInfoMemory: the memory is the same for a model in each of its formats, and printed only on
// request.
func TestInfoMemory(t *testing.T) {
	const hf, file = testdata + "pairs/llama/hf", testdata + "pairs/llama/gguf/llama.gguf"
	if m := memoryOf(t, file); m["total"] != nil || m["stored"] == nil {
		t.Errorf("without a context: %v", m)
	}
	m := memoryOf(t, "--context", "600", file)
	for _, key := range []string{"stored", "context", "weights", "resident", "mapped", "repacked", "kv", "state", "compute", "compute_exact", "output", "total"} {
		if m[key] == nil {
			t.Errorf("no %s in %v", key, m)
		}
	}
	if c := m["context"].(map[string]any); c["n_ctx"] != float64(768) || c["streams"] != float64(1) {
		t.Errorf("context %v", c)
	}
	other := memoryOf(t, "--context", "600", hf)
	for _, key := range []string{"context", "kv", "state", "compute", "output"} {
		if !reflect.DeepEqual(m[key], other[key]) {
			t.Errorf("%s is %v of a GGUF file, and %v of a directory", key, m[key], other[key])
		}
	}
	for _, flags := range [][]string{{"--context", "0"}, {"--unified"}} { // the model was trained with 512 tokens
		if c := memoryOf(t, append(flags, file)...)["context"].(map[string]any); c["n_ctx"] != float64(512) {
			t.Errorf("%q: context %v", flags, c)
		}
	}
	sum := m["resident"].(float64) + m["repacked"].(float64) + m["compute"].(float64) + m["output"].(float64)
	for _, part := range []string{"kv", "state"} {
		for _, n := range m[part].(map[string]any) {
			if n, ok := n.(float64); ok {
				sum += n
			}
		}
	}
	if m["total"] != sum {
		t.Errorf("total is %v, and its parts are %v", m["total"], sum)
	}
	if small := memoryOf(t, "--cache-type-k", "Q8_0", "--context", "600", file); small["total"].(float64) >= m["total"].(float64) {
		t.Errorf("with q8_0 it takes %v, and with f16 %v", small["total"], m["total"])
	}
	_, out, _ := command("info", "--context", "600", "--gpu", "2GiB", file)
	for _, line := range []string{"context       768 tokens, 1 sequence, cache f16\n", "\nweights       ", "\ncache         ", "\ncompute       ", "\nall           ", "\ngpu           "} {
		if !strings.Contains(out, line) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
}

// TestInfoMemoryOfTypes: the table over types has the same numbers as a call for each type.
func TestInfoMemoryOfTypes(t *testing.T) {
	t.Parallel()
	for _, model := range []string{testdata + "whole-gguf/llama3", testdata + "gguf/llama-xs.f16.gguf", testdata + "quantise/models/dense256.gguf"} {
		_, out, errs := command("info", "--json", "--gguf-type", "all", "--context", "512", model)
		var all struct {
			Sizes []struct {
				Name   string
				Bytes  int64
				Memory map[string]any
			}
		}
		if err := json.Unmarshal([]byte(out), &all); err != nil || len(all.Sizes) < 20 {
			t.Fatalf("%s: %d sizes, %v, %s", model, len(all.Sizes), err, errs)
		}
		for _, s := range all.Sizes {
			one := memoryOf(t, "--gguf-type", s.Name, "--context", "512", model)
			delete(one, "stored")
			delete(one, "f16")
			if !reflect.DeepEqual(one, s.Memory) {
				t.Errorf("%s as %s takes %v, and in the table %v", model, s.Name, one, s.Memory)
			}
		}
	}
	_, out, _ := command("info", "--gguf-type", "all", "--context", "512", testdata+"gguf/llama-xs.f16.gguf")
	if head, _, _ := strings.Cut(out, "\n"); strings.Join(strings.Fields(head), " ") != "type gguf/model.gguf bits per weight read repacked total" {
		t.Errorf("%q", head)
	}
}

// TestInfoMemoryRefused: what cannot be counted is said in a line.
func TestInfoMemoryRefused(t *testing.T) {
	const file = testdata + "pairs/llama/gguf/llama.gguf"
	for _, test := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--context", "-5"}, "--context"},
		{[]string{"--context", "9223372036854775807"}, "--context"},
		{[]string{"--parallel", "0"}, "--parallel"},
		{[]string{"--parallel", "300", "--context", "512"}, "--parallel"},
		{[]string{"--cache-type-k", "q3_k"}, "--cache-type-k"},
		{[]string{"--cache-type-v", "q8_0", "--flash-attn", "off"}, "--cache-type-v"},
		{[]string{"--outputs", "none"}, "--outputs"},
	} {
		code, _, errs := command(append(append([]string{"info"}, test.flags...), file)...)
		if code == 0 || !strings.Contains(errs, test.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: exit code %d, %s", test.flags, code, errs)
		}
	}
	if code, _, errs := command("info", "--context", "512", testdata+"architectures/picture.png"); code == 0 || errs == "" {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// TestInfoMemoryOfLarge: a model of 4.9 GB is counted by its header, and llama.cpp's numbers come out.
func TestInfoMemoryOfLarge(t *testing.T) {
	f, err := os.Open(testdata + "memory/headers/llama3.1-8b.q4_k_m.gguf.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	to, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.Copy(to, head); err == nil {
		err = to.Truncate(4912916256)
	}
	if err := errors.Join(err, to.Close()); err != nil {
		t.Skipf("no file of such a size can be made here: %v", err)
	}
	m := memoryOf(t, "--context", "131072", "--cache-type-k", "q4_0", "--cache-type-v", "q4_0", path)
	kv := m["kv"].(map[string]any)
	for what, n := range map[string][2]any{
		"weights": {m["weights"], 4912898304.0}, "repacked": {m["repacked"], 3359637504.0}, "compute": {m["compute"], 247558176.0},
		"resident": {m["resident"], 1553260800.0}, "total": {m["total"], 1553260800.0 + 3359637504 + 4831838208 + 247558176 + m["output"].(float64)},
		"cache": {kv["k"].(float64) + kv["v"].(float64), 4831838208.0}, "exact": {m["compute_exact"], true},
	} {
		if n[0] != n[1] {
			t.Errorf("%s is %v, want %v", what, n[0], n[1])
		}
	}
	_, out, _ := command("info", "--context", "8192", path)
	out = strings.Join(strings.Fields(out), " ")
	for _, line := range []string{
		" weights 4.6 GiB: 3.1 GiB copied when llama.cpp repacks them, 1.4 GiB read from the file cache ",
		" all 5.7 GiB must fit; at 131072 tokens 20.8 GiB; and some 50 MiB of the program's own types ",
	} {
		if !strings.Contains(out, line) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
}
