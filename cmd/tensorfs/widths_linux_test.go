package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// TestWidths holds that no command prints a line that is wider than the terminal, except a name that is wider itself
// and the indent and sign before it.
func TestWidths(t *testing.T) {
	apart(t)
	t.Setenv("LANG", "C.UTF-8")
	dir, err := filepath.Abs(testdata)
	must(t, err)
	t.Chdir(t.TempDir())
	must(t, testmodel.Write(".", map[string][]byte{"模型/语言模型.gguf": testmodel.GGUF{
		Meta: []tensorfs.Meta{{Key: "general.name", Value: strings.Repeat("小さなモデル", 9)}, {Key: "general.描述", Value: strings.Repeat("説明", 60)}},
		Tensors: []testmodel.GGUFTensor{
			{Name: "层.0.注意力机制.查询.权重.查询.权重", Shape: []int64{2}, Data: []byte("abcdefgh")},
			{Name: "嵌入", Shape: []int64{2}, Data: []byte{0, 0, 0xc0, 0x7f, 0, 0, 0, 0}},
		},
	}.Bytes()}))
	mounted(t, "模型/语言模型.gguf")
	for _, typed := range []string{
		"info DIR/gguf/llama-xs.q4_k_m.gguf", "info --context 4k --gpu 24G DIR/gguf/llama-xs.q4_k_m.gguf", "info DIR/models-mlx/qwen3-mixed", "info 模型/语言模型.gguf",
		"info --gguf-type all DIR/whole-gguf/llama3", "info --gguf-type all --context 1k DIR/whole-gguf/llama3", "info --architectures",
		"info --metadata DIR/gguf/llama-xs.q4_k_m.gguf", "info --metadata 模型/语言模型.gguf",
		"ls -l DIR/gguf/llama-xs.q4_k_m.gguf", "ls -lh 模型/语言模型.gguf", "ls DIR/whole-gguf/llama3",
		"stat DIR/gguf/llama-xs.q4_k_m.gguf", "stat DIR/gguf/llama-xs.q4_k_m.gguf layers.0.ffn.up.weight", "stat 模型/语言模型.gguf", "stat 模型/语言模型.gguf 嵌入",
		"status", "cache list", "list DIR/gguf", "list .", "list DIR/hostile-gguf",
		"diff DIR/gguf/llama-xs.q4_k_m.gguf DIR/gguf/llama-xs.f16.gguf", "diff DIR/gguf/llama-xs.q4_k_m.gguf 模型/语言模型.gguf", "diff --all DIR/whole-gguf/llama3 DIR/whole-gguf/qwen3",
		"verify DIR/gguf/llama-xs.q4_k_m.gguf", "verify DIR/gguf/llama-xs.q4_k_m.gguf 模型/语言模型.gguf", "verify 模型/语言模型.gguf",
		"report --force -o r.html 模型/语言模型.gguf",
		"info nothere.gguf", "cat 模型/语言模型.gguf 层", "mount 模型/语言模型.gguf /nothere/m", "info --ctx 4k m.gguf", "quantize m.gguf", "fetch hf:a", "fetch 模型/语言模型.gguf", "umount nothere", "cache prune x",
	} {
		for _, width := range []uint16{40, 80, 120} {
			shown := withTerminal(t, width, func(tty *os.File) { run(strings.Fields(strings.ReplaceAll(typed, "DIR", dir)), tty, tty) })
			if shown == "" {
				t.Errorf("%s: nothing is printed", typed)
			}
			for line := range strings.Lines(shown) {
				line = strings.TrimSuffix(line[strings.LastIndex(line, "\r")+1:], "\n")
				if n := cli.Cells(strings.ReplaceAll(line, "\x1b[K", "")); n > int(width) && n-longest(line) > 8 {
					t.Errorf("%s: %d columns have a line of %d: %q", typed, width, n, line)
				}
			}
		}
	}
}

// longest returns the width of the widest word of a line.
func longest(line string) (n int) {
	for word := range strings.FieldsSeq(line) {
		n = max(n, cli.Cells(word))
	}
	return n
}
