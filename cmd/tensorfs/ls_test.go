package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cli"
)

// TestMayMatchBelow holds that only directories in which nothing can match are left out.
func TestMayMatchBelow(t *testing.T) {
	for _, c := range []struct {
		glob, dir string
		skip      bool
	}{
		{"*", "gguf", false},
		{"raw/*", "gguf", true},
		{"raw/*", "raw", false},
		{"r*", "raw", false},
		{"r*", "gguf", true},
		{"raw/layers.0*", "raw", false},
		{"raw", "raw", false},
		{"raw/", "raw", false},
		{"raw", "gguf", true},
		{"gguf/model.gguf", "gguf", false},
		{"gguf/model.gguf", "g", true},
		{"source/tensors/*", "source", false},
		{"source/tensors/*", "source/tensors", false},
		{"source/tensors/*", "source/other", true},
		{"[gr]*", "gguf", false},
		{`\[x`, "gguf", false},
		{"?aw/*", "gguf", false},
		{"README", "gguf", true},
	} {
		if p, err := cli.NewPathPattern(c.glob); err != nil || p.MayMatchBelow(c.dir) == c.skip {
			t.Errorf("%s in %s: %v", c.glob, c.dir, err)
		}
	}
}

// TestListDirectories holds that a directory is listed with its content, and a tensor only by its
// name.
func TestListDirectories(t *testing.T) {
	lines := func(args ...string) []string {
		code, out, stderr := command(append([]string{"ls"}, args...)...)
		if code != 0 || stderr != "" {
			t.Fatalf("ls %s: exit code %d, %s", args, code, stderr)
		}
		return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	}
	all := lines(q8, "f16/*")
	if len(all) != 20 {
		t.Fatalf("%d paths in f16/", len(all))
	}
	for _, glob := range []string{"f16", "f16/", "/f16"} {
		if got := lines(q8, glob); !slices.Equal(got, all) {
			t.Errorf("ls %s: %q, want %q", glob, got, all)
		}
	}
	if got := lines(q8, "/"); !slices.Equal(got, lines(q8)) {
		t.Errorf("ls /: %q", got)
	}
	in := func(name string, views ...string) (paths []string) {
		for _, v := range views {
			path := v + "/" + name
			if v == "npy" {
				path += ".npy"
			}
			paths = append(paths, path)
		}
		slices.Sort(paths)
		return paths
	}
	every := []string{"raw", "packed", "f16", "bf16", "f32", "npy"}
	for _, c := range []struct {
		model, glob string
		want        []string
	}{
		{q8, "layers.0.attention.q.weight", in("layers.0.attention.q.weight", every...)},
		{q8, "blk.0.attn_q.weight", in("layers.0.attention.q.weight", every...)},
		{q8, "layers.0.attention.qkv.weight", in("layers.0.attention.qkv.weight", "fused", "fused-f16")},
		{q8, "blk.?.attn_q.*", slices.Sorted(slices.Values(append(in("layers.0.attention.q.weight", every...), in("layers.1.attention.q.weight", every...)...)))},
		{testdata + "models-mlx/qwen3-mixed", "model.layers.0.self_attn.k_proj.scales", []string{"raw/layers.0.attention.k.scales"}},
	} {
		got := lines(c.model, c.glob)
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("ls %s %s: %q, want %q", c.model, c.glob, got, c.want)
		}
	}
	if code, _, stderr := command("ls", q8, "blk.7.attn_q.weight"); code != 1 || !strings.Contains(stderr, "no path of the tree matches") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// TestListLong holds that the columns of ls -l are aligned, and as wide as they must be.
func TestListLong(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-l", q8, "raw/output*"}, "256  F32  [64]  raw/output_norm.weight\n"},
		{[]string{"-l", q8, "raw/layers.0.ffn*"}, "" +
			"4352  Q8_0  [64,64]  raw/layers.0.ffn.down.weight\n" +
			"4352  Q8_0  [64,64]  raw/layers.0.ffn.gate.weight\n" +
			"4352  Q8_0  [64,64]  raw/layers.0.ffn.up.weight\n" +
			" 256  F32   [64]     raw/layers.0.ffn_norm.weight\n"},
		{[]string{"-lh", q8, "raw/layers.0.ffn*"}, "" +
			"4.2 KiB  Q8_0  [64,64]  raw/layers.0.ffn.down.weight\n" +
			"4.2 KiB  Q8_0  [64,64]  raw/layers.0.ffn.gate.weight\n" +
			"4.2 KiB  Q8_0  [64,64]  raw/layers.0.ffn.up.weight\n" +
			"  256 B  F32   [64]     raw/layers.0.ffn_norm.weight\n"},
		{[]string{"-h", q8, "raw/output*"}, "raw/output_norm.weight\n"},
	} {
		if code, out, stderr := command(append([]string{"ls"}, c.args...)...); code != 0 || out != c.want || stderr != "" {
			t.Errorf("ls %s: exit code %d, %s\n%s\nwant\n%s", c.args, code, stderr, out, c.want)
		}
	}
	_, help, _ := command("ls", "--help")
	if code, out, _ := command("ls", "-h"); code != 0 || out != help || !strings.Contains(help, "-h, --human-readable") {
		t.Errorf("ls -h: exit code %d\n%s", code, out)
	}
	if _, out, _ := command("ls", "-l", q8, "source"); !strings.HasPrefix(out, "0  -  -  source/llama-xs.q8_0.gguf -> /") {
		t.Errorf("a link: %s", out)
	}
}
