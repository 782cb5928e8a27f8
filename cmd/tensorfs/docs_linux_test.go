package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// TestDocsRun runs the commands of README.md and the other pages, each page from top
// to bottom in a home directory of its own that has the models which the pages name.
// What a console block shows is what the commands print.
func TestDocsRun(t *testing.T) {
	t.Parallel()
	needFUSE(t)
	ran := 0
	var not []string
	for _, page := range docPages(t) {
		blocks := docBlocks(t, page)
		t.Run(filepath.Base(page), func(t *testing.T) {
			home := docHome(t)
			for _, b := range blocks {
				switch {
				case b.notRun() != "":
					not = append(not, fmt.Sprintf("%s:%d: %s", filepath.Base(page), b.line, b.notRun()))
				case docLanguages[b.language] == "run":
					ran++
					t.Run(fmt.Sprintf("line%d", b.line), func(t *testing.T) { home.run(t, b) })
				}
			}
			home.left(t)
		})
	}
	t.Logf("%d blocks run, %d not:\n%s", ran, len(not), strings.Join(not, "\n"))
	if ran < 16 || ran < len(not) {
		t.Errorf("only %d blocks are run, and %d are not", ran, len(not))
	}
}

// The pages show the directories of a reader, in which commands are run elsewhere.
const (
	readersHome    = "/home/ann"
	readersRuntime = "/run/user/1000"
)

// home is a home directory, in which commands are run.
type home struct {
	dir string
	env []string // variables in addition to every home's
}

// docHome makes one with the models that the pages name.
func docHome(t *testing.T) home {
	t.Helper()
	// Its path is short, like a home directory's: some output is cut to 80 columns.
	dir, err := os.MkdirTemp("/tmp", "ann")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, err := filepath.Abs("../../testdata")
	must(t, err)
	const commit = "0123456789abcdef0123456789abcdef01234567"
	repository := ".cache/huggingface/hub/models--Qwen--Qwen3-4B"
	manifests := ".ollama/models/manifests/registry.ollama.ai/library/"
	for _, d := range []string{"bin", "run", "models", manifests + "gemma3", repository + "/refs", repository + "/snapshots"} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	for from, to := range map[string]string{
		"gguf/llama-xs.q4_k_m.gguf":   "model.gguf",
		"gguf/llama-xs.f16.gguf":      "model-f16.gguf",
		"pairs/llama/gguf/llama.gguf": "models/twin.gguf",
		"pairs/llama/hf":              "models/Twin",
		"whole-gguf/qwen3":            "models/Qwen3-4B",
		"whole-gguf/qwen3/":           repository + "/snapshots/" + commit,
		"ollama/models":               ".ollama/models",
		"ollama/models/manifests/registry.ollama.ai/library/tinyllama/latest": manifests + "gemma3/latest",
	} {
		from, to = filepath.Join(data, from), filepath.Join(dir, to)
		st, err := os.Stat(from)
		must(t, err)
		if st.IsDir() {
			must(t, os.CopyFS(to, os.DirFS(from)))
			continue
		}
		b, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(to, b, 0o600))
	}
	must(t, testmodel.Write(filepath.Join(dir, "FLUX.1-dev"), pipelineFiles(t)))
	must(t, os.WriteFile(filepath.Join(dir, repository, "refs/main"), []byte(commit), 0o600))
	self, err := os.Executable()
	must(t, err)
	must(t, os.Symlink(self, filepath.Join(dir, "bin/tensorfs")))
	return home{dir: dir}
}

// environ is the environment of a user at a terminal, the same on every machine.
func (h home) environ() []string {
	return append([]string{
		"PATH=" + h.dir + "/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + h.dir, "XDG_RUNTIME_DIR=" + h.dir + "/run",
		"LANG=C.UTF-8", "LC_ALL=C.UTF-8", asProgram + "=1", "GORACE=atexit_sleep_ms=0 " + os.Getenv("GORACE"),
	}, h.env...)
}

// docTools are programs and libraries that blocks need, and how to ask for them.
var docTools = map[string][]string{
	"getfattr": {"getfattr", "--version"},
	"xxd":      {"xxd", "--version"},
	"python3":  {"/usr/bin/python3", "-c", "import numpy"},
}

// run runs a block and compares what it prints.
func (h home) run(t *testing.T, b docBlock) {
	for tool, ask := range docTools {
		if strings.Contains(b.text, tool+" ") && exec.Command(ask[0], ask[1:]...).Run() != nil {
			t.Skipf("NOT TESTED: no %s here", tool)
		}
	}
	if b.language == "sh" {
		h.shell(t, b.text)
		return
	}
	commands := strings.Split("\n"+b.text, "\n$ ")
	if commands[0] != "" || len(commands) < 2 {
		t.Fatalf("does not begin with a command: %q", b.text)
	}
	for _, c := range commands[1:] {
		command, shown, _ := strings.Cut(c, "\n")
		got := h.shell(t, command)
		if command == "tensorfs status" {
			got, shown = ownMounts(got), ownMounts(shown)
		}
		if !matches(got, shown) {
			t.Errorf("$ %s\nprints\n%s\nand not\n%s", command, got, shown)
		}
	}
}

// shell runs commands that must succeed and say nothing on standard error, and
// returns what they print.
func (h home) shell(t *testing.T, commands string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-e", "-u", "-c", commands)
	c.Dir, c.Env = h.dir, h.environ()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, problems bytes.Buffer
	c.Stdout, c.Stderr = &out, &problems
	err := c.Run()
	if err != nil || problems.Len() > 0 {
		t.Errorf("$ %s\n%v\n%s", commands, err, &problems)
	}
	return strings.NewReplacer(h.dir+"/run", readersRuntime, h.dir, readersHome).Replace(out.String())
}

// ownMounts leaves the mounts of others, and the widths of columns that follow from
// them, out of a table of mounts.
func ownMounts(table string) string {
	var own []string
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "PID") || strings.Contains(line, " ~/") {
			own = append(own, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(own, "\n")
}

// matches reports whether output matches a page's block, in which ... matches anything, and on a
// line of its own any lines.
func matches(got, shown string) bool {
	// A block may end with the line before the next command, or with an empty one.
	pattern := regexp.QuoteMeta(strings.Trim(shown, "\n"))
	pattern = strings.ReplaceAll("\n"+pattern+"\n", "\n"+regexp.QuoteMeta("...")+"\n", "\n(?s:.*)\n")
	pattern = strings.ReplaceAll(pattern, regexp.QuoteMeta("..."), ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString("\n" + strings.Trim(got, "\n") + "\n")
}

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		got, shown string
		want       bool
	}{
		{"", "", true},
		{"a\n", "a\n", true},
		{"a\n", "b\n", false},
		{"a\n", "", false},
		{"", "a\n", false},
		{"a\nb\n", "a\n", false},
		{"a\nb\nc\n", "a\n...\n", true},
		{"a\nb\nc\n", "a\n...\nc\n", true},
		{"a\nb\nc\n", "a\n...\nd\n", false},
		{"a 12 b\n", "a ... b\n", true},
		{"a 12\n b\n", "a ... b\n", false},
		{"a+\n", "a+\n", true},
	} {
		if got := matches(test.got, test.shown); got != test.want {
			t.Errorf("%q shown as %q: %v", test.got, test.shown, got)
		}
	}
}

// left complains about mounts that a page leaves.
func (h home) left(t *testing.T) {
	all, err := mounts.List()
	must(t, err)
	for _, m := range all {
		if strings.HasPrefix(m.Mountpoint, h.dir) {
			t.Errorf("the page leaves a mount at %s", m.Mountpoint)
			must(t, mounts.Unmount(m.Mountpoint, true))
		}
	}
}
