package cli

import (
	"slices"
	"testing"
)

func TestCells(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "äöü": 3, "模型": 4, "モデル.gguf": 11, "모델": 4, "e\u0301": 1, "🦙": 2, "ﾓ": 1, "Ａ": 2, "─█": 2, "⌚": 2, "🩷": 2, "\u200b": 0, "㍿": 2, "½": 1} {
		if got := Cells(text); got != want {
			t.Errorf("%q takes %d columns, want %d", text, got, want)
		}
	}
	for width := range 40 {
		if got := Shorten("/家/模型/通义千问/通义千问-八十亿.Q4_K_M.gguf", width); Cells(got) > width {
			t.Errorf("%q takes more than %d columns", got, width)
		}
	}
	if got, want := Wrap("模型 模型 模型", 9, 2), []string{"模型 模型", "模型"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
