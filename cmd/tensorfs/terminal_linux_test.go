package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"golang.org/x/sys/unix"
)

// onTerminal runs a command line with a terminal of so many columns as its output,
// and returns what the terminal gets.
func onTerminal(t *testing.T, columns uint16, args ...string) (code int, shown, stderr string) {
	t.Helper()
	var errs bytes.Buffer
	shown = withTerminal(t, columns, func(tty *os.File) { code = run(args, tty, &errs) })
	return code, shown, errs.String()
}

// withTerminal returns what a terminal gets that f uses.
func withTerminal(t *testing.T, columns uint16, f func(tty *os.File)) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal to be had: ", err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal to be had: ", err)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	got := make(chan string)
	go func() {
		var b bytes.Buffer
		_, _ = b.ReadFrom(master) // ends with EIO when the terminal is closed
		got <- b.String()
	}()
	f(tty)
	tty.Close()
	return strings.ReplaceAll(<-got, "\r\n", "\n")
}

// TestCatOnTerminal holds that text is shown on a terminal, and nothing else unless
// it has to be.
func TestCatOnTerminal(t *testing.T) {
	model := written(t, map[string][]byte{"model.gguf": testmodel.GGUF{
		Meta:    []tensorfs.Meta{{Key: "general.name", Value: "ä text"}},
		Tensors: []testmodel.GGUFTensor{{Name: "letters", Shape: []int64{2}, Data: []byte("abcdefgh")}},
	}.Bytes()}, "model.gguf")
	for _, c := range []struct {
		args []string
		ok   bool
	}{
		{[]string{model, "README"}, true},
		{[]string{model, "index.json"}, true},
		{[]string{model, "metadata/general.name"}, true},
		{[]string{testdata + "pairs/llama/hf", "source/config.json"}, true},
		{[]string{model, "raw/letters"}, false}, // looks like text
		{[]string{model, "npy/letters.npy"}, false},
		{[]string{model, "gguf/model.gguf"}, false},
		{[]string{model, "source/model.gguf"}, false},
		{[]string{"--force", model, "raw/letters"}, true},
		{[]string{"-f", model, "raw/letters"}, true},
	} {
		code, shown, stderr := onTerminal(t, 80, append([]string{"cat"}, c.args...)...)
		_, want, _ := command(append([]string{"cat"}, c.args...)...)
		switch {
		case want == "":
			t.Errorf("cat %s into a file writes nothing", c.args)
		case c.ok && (code != 0 || shown != want || stderr != ""):
			t.Errorf("cat %s: exit code %d, %q\n%s", c.args, code, shown, stderr)
		case !c.ok && (code != 1 || shown != "" || !strings.Contains(stderr, c.args[len(c.args)-1]+" is not text (") || !strings.Contains(stderr, "| od -t x1 | head") || strings.Count(stderr, "\n") != 1):
			t.Errorf("cat %s: exit code %d, %q\n%s", c.args, code, shown, stderr)
		}
	}
}

func TestIsText(t *testing.T) {
	long := strings.Repeat("a", 64<<10-1)
	for text, want := range map[string]bool{
		"": true, "a\tb\r\n": true, "\x00": false, "a\x1b[31m": false, "\u009b31m": false, "\xff": false, "a\xc3": false,
		long + "ä":        true, // cut in the middle of a character
		long + "\xff\xff": false,
	} {
		if got := isText(tensorfs.Bytes(text), int64(len(text))); got != want {
			t.Errorf("%.20q of %d bytes: %v", text, len(text), got)
		}
	}
}

// TestInfoOnWideTerminal holds that text that is shortened to 80 columns is complete on a wide
// terminal.
func TestInfoOnWideTerminal(t *testing.T) {
	path, err := filepath.Abs(testdata + "models-mlx/qwen3-mixed")
	if err != nil {
		t.Fatal(err)
	}
	if code, out, _ := onTerminal(t, 500, "info", path); code != 0 || !strings.Contains(out, "\npath          "+path+"\n") || strings.Contains(out, "\n   ") && strings.Contains(out, "it has no pre_tokenizer, and\n") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
