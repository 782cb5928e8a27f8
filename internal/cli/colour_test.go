package cli

import (
	"bytes"
	"strings"
	"testing"
)

// TestPainter holds that only a terminal gets colours, and only where NO_COLOR is not set.
func TestPainter(t *testing.T) {
	on := Painter{on: true}
	for text, want := range map[string]string{"ok": "\x1b[32mok\x1b[0m", "": ""} {
		if got := on.Paint(Good, text); got != want {
			t.Errorf("%q is painted as %q", text, got)
		}
	}
	if got := Cells(on.Paint(Bad, "模型 ") + on.Paint(Good, "b")); got != 6 {
		t.Errorf("colours make a text of 6 columns %d wide", got)
	}
	if got := on.Paint("", "ok"); got != "ok" {
		t.Errorf("without a colour it is %q", got)
	}
	if got := PainterOf(new(bytes.Buffer)).Paint(Bad, "3 findings"); got != "3 findings" {
		t.Errorf("a file gets %q", got)
	}
}

func TestFold(t *testing.T) {
	const text = "tensorfs: a  b.gguf: no such file or directory; check the path"
	for _, c := range []struct {
		width int
		want  string
	}{
		{80, text},
		{40, "tensorfs: a  b.gguf: no such file or\n  directory; check the path"},
		{23, "tensorfs: a  b.gguf: no\n  such file or\n  directory; check the\n  path"},
		{21, text},
	} {
		if got := Fold(text, c.width, "  "); got != c.want {
			t.Errorf("%d columns:\n%s\nwant\n%s", c.width, got, c.want)
		}
	}
	long := strings.Repeat("x", 90)
	if got, want := Fold("tensorfs: "+long+" is not there", 40, "  "), "tensorfs:\n  "+long+"\n  is not there"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got, want := Fold("名前 模型 モデル 通义千问 通义", 24, ""), "名前 模型 モデル\n通义千问 通义"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
