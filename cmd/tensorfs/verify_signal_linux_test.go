package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/verify"
	"golang.org/x/sys/unix"
)

// endless is a model that takes long to read, but no space: its first tensor has a NaN, and the
// rest are holes.
func endless(t *testing.T) string {
	t.Helper()
	const tensors, elements = 4096, 16 << 20
	path := filepath.Join(t.TempDir(), "endless.safetensors")
	var ts []testmodel.SafeTensor
	for i := range tensors {
		ts = append(ts, testmodel.SafeTensor{Name: fmt.Sprintf("t%04d", i), DType: tensorfs.F32, Shape: []int64{elements}})
	}
	must(t, testmodel.WriteSparseSafetensors(path, ts))
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt(le32(float32(math.NaN())), statOf(t, path).Size()-tensors*elements*4)
	must(t, err)
	return path
}

var interrupted = regexp.MustCompile(`^tensorfs: .*endless.safetensors: interrupted after (\d+) of 4096 tensors, \S+ [KMGT]?i?B of 256.0 GiB; 1 finding so far, listed on standard output\r?\n$`)

// Ctrl-C on a terminal: findings stay, and one line tells how far verify got. The bar and the ^C
// are erased.
func TestVerifyInterrupted(t *testing.T) {
	needSignal(t, syscall.SIGINT)
	t.Setenv("NO_COLOR", "1")
	model := endless(t)
	terminal, inside := pseudoTerminal(t)
	c := program(t, "verify", model)
	c.Stdin, c.Stdout, c.Stderr = inside, inside, inside
	seen, err := pressCtrlC(t, c, terminal, inside, func(text string) bool {
		return strings.Contains(text, "NaN") && strings.Contains(text[strings.Index(text, "NaN"):], " left")
	})
	if code := c.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d, %v", code, err)
	}
	if !strings.Contains(seen, "^C") {
		t.Errorf("the terminal echoed no ^C, so this shows nothing of it: %q", seen)
	}
	if bar := regexp.MustCompile(`verify \[#* *\] +\d+ %, [0-9.]+ [KMG]iB of 256.0 GiB, [0-9.]+ [KMG]iB/s, (\d+ (h|min|s) )+left`); !bar.MatchString(seen) {
		t.Errorf("no bar: %q", seen)
	}
	var left []string
	for line := range strings.Lines(strings.ReplaceAll(seen, "\r\n  ", " ")) { // errors are folded
		left = append(left, line[strings.LastIndex(line, "\r\x1b[K")+1:])
	}
	for i := range left {
		left[i] = strings.TrimPrefix(left[i], "\x1b[K")
	}
	if len(left) != 2 || left[0] != "t0000: 1 value is NaN\r\n" || !interrupted.MatchString(left[1]) {
		t.Errorf("the terminal shows %q", left)
	}
}

// Without a terminal the same is on standard output and error; JSON is complete, and marks the rest
// as not verified.
func TestVerifyTerminated(t *testing.T) {
	needSignal(t, syscall.SIGTERM)
	model := endless(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		c := program(t, "verify", model)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		out, err := c.StdoutPipe()
		must(t, err)
		must(t, c.Start())
		line := make([]byte, len("t0000: 1 value is NaN\n"))
		if _, err := io.ReadFull(out, line); err != nil || string(line) != "t0000: 1 value is NaN\n" {
			t.Errorf("while it runs it says %q, %v", line, err)
		}
		must(t, c.Process.Signal(sig))
		rest, err := io.ReadAll(out)
		must(t, err)
		if err := c.Wait(); c.ProcessState.ExitCode() != 1 || len(rest) > 0 || !interrupted.MatchString(stderr.String()) {
			t.Errorf("%v: %v, %q, %q", sig, err, rest, stderr.String())
		}
	}
	c := program(t, "verify", "--json", model)
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	must(t, c.Start())
	busy(t, c, model)
	must(t, c.Process.Signal(syscall.SIGINT))
	err := c.Wait()
	var r verify.Report
	if jerr := json.Unmarshal(out.Bytes(), &r); jerr != nil || c.ProcessState.ExitCode() != 1 || r.Complete || r.Bytes == 0 || !strings.Contains(stderr.String(), "interrupted after ") {
		t.Errorf("--json: %v, %v, %q, %s", err, jerr, stderr.String(), out.Bytes())
	}
}

// pressCtrlC runs a program on a terminal until it has shown what is waited for, presses
// Ctrl-C there, and returns all that the terminal has shown when the program has ended.
func pressCtrlC(t *testing.T, c *exec.Cmd, terminal, inside *os.File, when func(seen string) bool) (string, error) {
	t.Helper()
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(t, c.Start())
	inside.Close()
	var seen strings.Builder
	b := make([]byte, 4096)
	for pressed := false; ; {
		n, err := terminal.Read(b)
		seen.Write(b[:n])
		if err != nil { // EIO: the terminal is closed
			return seen.String(), c.Wait()
		}
		if !pressed && when(seen.String()) {
			pressed = true
			_, err := io.WriteString(terminal, "\x03")
			must(t, err)
		}
	}
}

// busy waits until a process has read more of its model than the header, by system calls or
// in its mapping. Processor time would not tell: a busy machine spends any amount of it
// before signals are caught.
func busy(t *testing.T, c *exec.Cmd, model string) {
	t.Helper()
	number := func(file, after, field string) int {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(c.Process.Pid) + "/" + file)
		must(t, err)
		_, text, found := strings.Cut(string(b), after)
		_, text, found2 := strings.Cut(text, field)
		if !found || !found2 {
			return 0
		}
		n, err := strconv.Atoi(strings.Fields(text)[0])
		must(t, err)
		return n
	}
	testlimit.Wait(t, "bytes of the model read by process "+strconv.Itoa(c.Process.Pid), func() bool {
		return number("io", "", "rchar:")+number("smaps", model+"\n", "\nRss:")<<10 > 64<<20
	})
}

// pseudoTerminal returns a terminal of 100 columns, and the side of it that
// programs see.
func pseudoTerminal(t *testing.T) (terminal, inside *os.File) {
	t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	var n int
	if err == nil {
		t.Cleanup(func() { terminal.Close() })
		n, err = unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	}
	if err == nil {
		err = errors.Join(unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0),
			unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}))
	}
	if err == nil {
		inside, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("NOT TESTED with a terminal: %v", err)
	}
	t.Cleanup(func() { inside.Close() })
	return terminal, inside
}
