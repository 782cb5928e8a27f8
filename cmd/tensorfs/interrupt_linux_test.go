package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// vast is a model with one tensor that takes long to read, but no space.
func vast(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vast.safetensors")
	must(t, testmodel.WriteSparseSafetensors(path, []testmodel.SafeTensor{{Name: "t", DType: tensorfs.F32, Shape: []int64{64 << 30}}}))
	return path
}

// TestInterrupted holds that Ctrl-C ends cat, diff and stat with one line about how far they got,
// and what became of their output.
func TestInterrupted(t *testing.T) {
	needSignal(t, syscall.SIGINT)
	model := vast(t)
	for _, c := range []struct {
		args []string
		file bool // standard output is one
		code int
		want string
	}{
		{[]string{"stat", model}, false, 1, `.*vast\.safetensors: interrupted after \d+\.\d [MG]iB of 256\.0 GiB; of a part of the numbers nothing is printed`},
		{[]string{"diff", model, model}, false, 2, `.*vast\.safetensors and .*vast.safetensors: interrupted after \d+\.\d [MG]iB of 1\.0 TiB; of a part of the tensors nothing is printed`},
		{[]string{"cat", model, "f16/t"}, false, 1, `.*vast\.safetensors, f16/t: interrupted after \d+\.\d [MG]iB of 128\.0 GiB; what was written is not complete`},
		{[]string{"cat", model, "f16/t"}, true, 1, `.*vast\.safetensors, f16/t: interrupted after \d+\.\d [MG]iB of 128\.0 GiB; the output file is not complete, and tensorfs does not know its name: remove it`},
		{[]string{"cat", model, "source/vast.safetensors"}, true, 1, `.*vast\.safetensors, source/vast\.safetensors: interrupted after \d+\.\d [MG]iB of 256\.0 GiB; the output file is not complete, and tensorfs does not know its name: remove it`},
	} {
		cmd := program(t, c.args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		begun := func() { busy(t, cmd, model) }
		switch {
		case c.file:
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			must(t, err)
			defer out.Close()
			cmd.Stdout = out
			begun = func() {
				testlimit.Wait(t, "the first bytes of "+out.Name(), func() bool {
					info, err := out.Stat()
					return err == nil && info.Size() > 0
				})
			}
		case c.args[0] == "cat": // a pipe
			out, err := cmd.StdoutPipe()
			must(t, err)
			begun = func() {
				_, err := io.CopyN(io.Discard, out, 8<<20)
				must(t, err)
				go io.Copy(io.Discard, out) //nolint:errcheck // it ends with the program
			}
		}
		must(t, cmd.Start())
		begun()
		must(t, cmd.Process.Signal(syscall.SIGINT))
		err := cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !regexp.MustCompile(`^tensorfs: `+c.want+"\n$").MatchString(stderr.String()) {
			t.Errorf("%q: %v, %q", c.args, err, stderr.String())
		}
	}
}

// TestCatProgress holds that cat to a file has a progress bar on a terminal, which is erased at the
// end. Into a pipe it has none, because the pipe's reader may write to the same terminal.
func TestCatProgress(t *testing.T) {
	t.Parallel()
	needSignal(t, syscall.SIGINT)
	model := vast(t)
	terminal, inside := pseudoTerminal(t)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	must(t, err)
	defer null.Close()
	c := program(t, "cat", model, "raw/t")
	c.Stdin, c.Stdout, c.Stderr = inside, null, inside
	bar := regexp.MustCompile(`cat \[#* *\] +\d+ %, [0-9.]+ [KMG]iB of 256.0 GiB, [0-9.]+ [KMG]iB/s, (\d+ min )?\d+ s left`)
	shown, err := pressCtrlC(t, c, terminal, inside, bar.MatchString)
	shown = strings.ReplaceAll(shown, "\r\n  ", " ") // a folded message
	last := shown[strings.LastIndex(shown, "\r\x1b[K")+len("\r\x1b[K"):]
	if !bar.MatchString(shown) || c.ProcessState.ExitCode() != 1 || !strings.Contains(last, ", raw/t: interrupted after ") || strings.Count(last, "\n") != 1 {
		t.Errorf("%v: the terminal shows %q", err, shown)
	}

	terminal, inside = pseudoTerminal(t)
	c = program(t, "cat", model, "raw/t")
	c.Stderr = inside
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	inside.Close()
	_, err = io.CopyN(io.Discard, out, 256<<20) // long enough for a bar to be drawn
	must(t, err)
	go io.Copy(io.Discard, out) //nolint:errcheck // it ends with the program
	must(t, c.Process.Signal(syscall.SIGINT))
	text, _ := io.ReadAll(terminal)
	if err := c.Wait(); strings.Contains(string(text), "\x1b") || strings.Count(strings.ReplaceAll(string(text), "\r\n  ", " "), "\n") != 1 {
		t.Errorf("%v: into a pipe: %q", err, text)
	}
}

// TestFetchInterrupted holds that Ctrl-C ends fetch with a line about how far it came, and that the same command
// fetches only the rest.
func TestFetchInterrupted(t *testing.T) {
	needSignal(t, syscall.SIGINT)
	apart(t)
	h := testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	content := testmodel.Safetensors([]testmodel.SafeTensor{{Name: "t", DType: tensorfs.F32, Shape: []int64{8 << 20}, Data: bytes.Repeat([]byte("\x00\x00\x80\x3f"), 8<<20)}}, nil)
	h.Commit("acme/large", map[string][]byte{"model.safetensors": content, "config.json": []byte(`{"model_type":"llama"}`)})
	waits := make(chan struct{}, 64)
	h.Break(func(_ http.ResponseWriter, r *http.Request, data bool) bool {
		var first int64
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &first); !data || err != nil || first < int64(len(content)/2) {
			return false
		}
		waits <- struct{}{}
		<-r.Context().Done()
		return true
	})
	cmd := program(t, "fetch", "hf:acme/large")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	must(t, cmd.Start())
	<-waits
	must(t, cmd.Process.Signal(syscall.SIGINT))
	err := cmd.Wait()
	if !regexp.MustCompile(`^tensorfs: hf:acme/large: interrupted after \S+ [KM]?i?B of 32\.0 MiB; the same command goes on there\n$`).MatchString(stderr.String()) || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v, %q", err, stderr.String())
	}
	h.Break(nil)
	if out, err := program(t, "fetch", "hf:acme/large").Output(); err != nil || !strings.Contains(string(out), "1 digest compared") && !strings.Contains(string(out), "2 digests compared") {
		t.Errorf("%s, %v", out, err)
	}
}
