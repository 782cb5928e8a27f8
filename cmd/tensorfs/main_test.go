package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
	"weak"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/cli/manual"
	"github.com/tensorfs/tensorfs/internal/parallel"
	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// asProgram makes the test binary behave as tensorfs, so that mount can start
// it as its server and tests can run it as a second process.
const asProgram = "TENSORFS_TEST_AS_PROGRAM"

// asExerciser makes it exercise a mount: "DIR\nMODEL\nSEED\nOPERATIONS".
const asExerciser = "TENSORFS_TEST_EXERCISE"

// asSoaker makes it read a mount until its standard input ends:
// "DIR\nMODEL\nSEED\nFORGIVING".
const asSoaker = "TENSORFS_TEST_SOAK"

// asReader makes it read the file PATH in a way of the benchmarks': PATH N.
const asReader = "TENSORFS_TEST_READ"

// asDeaf makes it the program that the kernel kills when it opens a socket to other
// machines.
const asDeaf = "TENSORFS_TEST_DEAF"

// withNFSClient makes the program mount by NFS on Linux, whose client is the nearest to macOS's that tests have.
const withNFSClient = "TENSORFS_TEST_NFS_CLIENT"

// linuxClient mounts with mount(8).
var linuxClient = &server.NFSClient{
	Program: "mount",
	Args:    []string{"-t", "nfs"},
	Options: []string{"ro", "nosuid", "nodev", "noexec", "vers=3", "tcp", "mountproto=tcp",
		"rsize=1048576", "nolock", "actimeo=3600", "soft", "timeo=100", "retrans=3", "noresvport"},
}

// asListener makes it print the datagrams that come to a socket at this path.
const asListener = "TENSORFS_TEST_LISTEN"

func listenMain(path string) int {
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return 1
	}
	b := make([]byte, 64<<10)
	for {
		n, err := c.Read(b)
		if err != nil {
			return 1
		}
		fmt.Printf("%q\n", b[:n])
	}
}

func TestMain(m *testing.M) {
	if spec := os.Getenv(asExerciser); spec != "" {
		os.Exit(exerciseMain(spec))
	}
	if spec := os.Getenv(asSoaker); spec != "" {
		os.Exit(soakMain(spec))
	}
	if how := os.Getenv(asReader); how != "" {
		os.Exit(readMain(how))
	}
	if path := os.Getenv(asListener); path != "" {
		os.Exit(listenMain(path))
	}
	if os.Getenv(asDeaf) != "" {
		deafMain()
	}
	if os.Getenv(asProgram) != "" {
		if os.Getenv(withNFSClient) != "" {
			server.NFSClients["linux"] = linuxClient
		}
		main()
	}
	// What tests start is the program. Started with a command line and without this variable, all tests
	// would run again, in another directory, as the server of one of them.
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "%s=1 runs this as tensorfs\n", asProgram)
		os.Exit(2)
	}
	if err := os.Setenv(asProgram, "1"); err != nil {
		panic(err)
	}
	server.StartAgain = nil
	// No test sends a request to another machine. Tests with their own servers allow it.
	if err := os.Setenv("TENSORFS_OFFLINE", "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const (
	ggufDir  = "../../testdata/gguf/"
	q8       = ggufDir + "llama-xs.q8_0.gguf"
	splitTwo = ggufDir + "llama-xs.q8_0-00002-of-00003.gguf"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// modelOf is a GGUF file with one tensor "t" of n halves, whose bytes are all b.
func modelOf(b byte, n int64) []byte {
	return testmodel.GGUF{Tensors: []testmodel.GGUFTensor{{Name: "t", Shape: []int64{n}, Type: uint32(tensorfs.F16.GGML()), Data: bytes.Repeat([]byte{b}, int(2*n))}}}.Bytes()
}

// command runs a command line in this process.
func command(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, &out, &err)
	return code, out.String(), err.String()
}

// TestCommandIsFreed: a command that does not complete a line is garbage when it ends. The tests of
// this package run thousands of commands in one process.
func TestCommandIsFreed(t *testing.T) {
	root := newRoot()
	if code := execute(root, []string{"version"}, io.Discard, io.Discard); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	left := weak.Make(root)
	root = nil
	runtime.GC()
	if left.Value() != nil {
		t.Error("a command is kept after its end")
	}
}

// TestPanicIsALine: a fault of the program after a model was opened is one line that names the model.
func TestPanicIsALine(t *testing.T) {
	fault := func(context.Context, int) error { panic("planted") }
	for what, run := range map[string]func(*cobra.Command, []string) error{
		"in the command": func(*cobra.Command, []string) error { return fault(nil, 0) },
		"in a worker":    func(*cobra.Command, []string) error { return parallel.Each(context.Background(), 2, 2, fault) },
	} {
		var stderr bytes.Buffer
		code := execute(system(runtime.GOOS).command("verify", nil, nil, run), []string{q8}, io.Discard, &stderr)
		if code != cli.ExitFailed || !strings.HasPrefix(stderr.String(), "tensorfs: "+q8+": internal error at main_test.go:") || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: exit code %d, %q", what, code, stderr.String())
		}
	}
}

// Help fits a terminal of 80 columns.
func TestHelpFits(t *testing.T) {
	for _, c := range append(manual.Pages(newRoot()), newRoot()) {
		args := append(strings.Fields(c.CommandPath())[1:], "--help")
		code, help, stderr := command(args...)
		if code != 0 || stderr != "" || !strings.Contains(help, "Usage:") && !c.IsAdditionalHelpTopicCommand() {
			t.Errorf("%q: exit code %d, %q", args, code, stderr)
		}
		for line := range strings.Lines(help) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%q: %d columns: %s", args, n, line)
			}
		}
	}
}

func TestExitCodes(t *testing.T) {
	noModel := filepath.Join(t.TempDir(), "none.gguf")
	for _, test := range []struct {
		args   []string
		code   int
		stderr string // part of the one line; "" for an empty stderr
	}{
		{nil, 0, ""},
		{[]string{"--help"}, 0, ""},
		{[]string{"mount", "--help"}, 0, ""},
		{[]string{"export", "--help"}, 0, ""},
		{[]string{"version"}, 0, ""},
		{[]string{"--version"}, 0, ""},
		{[]string{"-V"}, 0, ""},
		{[]string{"lss", q8}, 2, `"lss" is not a command, and there is no file of that name; did you mean list or ls?`},
		{[]string{"umuont", "/"}, 2, "did you mean umount?"},
		{[]string{"mont", q8, "/"}, 2, "did you mean mount or umount?"},
		{[]string{noModel, "/"}, 1, "no such file"},
		{[]string{"status"}, 0, ""},
		{[]string{"man", "man1"}, 2, "tensorfs help COMMAND prints the same text"},
		{[]string{"ls", q8}, 0, ""},
		{[]string{"verify", q8}, 0, ""},
		{[]string{"help", "mount"}, 0, ""},
		{[]string{"help", "cache", "list"}, 0, ""},
		{[]string{q8, "/", "--help"}, 0, ""}, // mount(8)'s form
		{[]string{"help", "mont"}, 2, `"mont" is not a command; did you mean mount or umount?`},
		{[]string{"help", "cache", "lst"}, 2, `"lst" is not a command; did you mean list?`},
		{[]string{"bogus", "--help"}, 2, `"bogus" is not a command`},
		{[]string{"-h", "umuont", "m"}, 2, "did you mean umount?"},
		{[]string{"cache", "lst", "--help"}, 2, `"lst" is not a command; did you mean list?`},
		{[]string{"info"}, 2, "too few arguments; usage: tensorfs info"},
		{[]string{"status", "m"}, 2, "too many arguments; usage: tensorfs status"},
		{[]string{"nonsense"}, 2, `"nonsense" is not a command`},
		{[]string{"a", "b", "c"}, 2, "not a command"},
		{[]string{"ls"}, 2, "usage: tensorfs ls"},
		{[]string{"ls", "-x", q8}, 2, "see tensorfs ls --help"},
		{[]string{"ls", "-l", "--json", q8}, 2, "exclude each other"},
		{[]string{"ls", q8, "["}, 2, "[ without ]"},
		{[]string{"cat", q8}, 2, "usage: tensorfs cat"},
		{[]string{"mount", q8}, 2, "usage: tensorfs mount"},
		{[]string{"info", "--i2s", "999", q8}, 2, "want 128, 64, rows4 or trinity"},
		{[]string{"ls", "--views", "f16,npy", q8}, 0, ""},
		{[]string{"info", "--views", "f16, npy", q8}, 2, `" npy" is not a view; the views are raw, packed, f16, bf16, f32, fused, fused-f16, npy, npy-f32`},
		{[]string{"verify", "--views", "raw", q8}, 0, ""},
		{[]string{"mount", "-o", "views=f16:f17", q8, t.TempDir()}, 2, `--views: "f17" is not a view`},
		{[]string{"cat", q8, "npy-f32/output_norm.weight.npy"}, 1, "the view was not chosen; --views npy-f32 chooses it"},
		{[]string{"ls", "--views", "npy", q8, "raw/*"}, 1, "the view was not chosen; --views raw chooses it"},
		{[]string{"ls", noModel}, 1, "no such file or directory; check the path"},
		{[]string{"ls", q8, "nothing/*"}, 1, "no path of the tree matches"},
		{[]string{"cat", q8, "raw/none"}, 1, "raw/none is not in the tree; tensorfs ls " + q8 + " shows the paths"},
		{[]string{"cat", q8, "f16/layers.0.atention.q.weight"}, 1, "f16/layers.0.atention.q.weight is not in the tree; did you mean f16/layers.0.attention.q.weight, f16/"},
		{[]string{"cat", q8, "blk.0.attn_q.weight"}, 1, "blk.0.attn_q.weight is not in the tree; did you mean raw/layers.0.attention.q.weight, packed/"},
		{[]string{"export", q8, t.TempDir(), "f16/blk.0.attn_q.weight"}, 1, "did you mean f16/layers.0.attention.q.weight?"},
		{[]string{"cat", ggufDir + "llama-xs.q4_k_m.gguf", "fused/layers.1.attention.qkv.weight"}, 1, "is not in the tree: fused/ leaves it out: "},
		{[]string{"cat", q8, "raw"}, 1, "is a directory"},
		{[]string{"info", "main_test.go"}, 1, "looked for GGUF"},
		{[]string{"info", ggufDir}, 1, "GGUF models: align256.gguf, "},
		{[]string{"info", t.TempDir()}, 1, "it is an empty directory"},
		{[]string{"info", ggufDir + "kv.guf"}, 1, "testdata/gguf/kv.gguf?"},
		{[]string{"umount", t.TempDir()}, 1, "no tensorfs is mounted there"},
		{[]string{"mount", q8, filepath.Join(t.TempDir(), "none/m")}, 1, "none makes it"},
		{[]string{"mount", "--no-mkdir", q8, filepath.Join(t.TempDir(), "none")}, 1, "none makes it"},
		{[]string{"mount", "-o", "no_mkdir", q8, filepath.Join(t.TempDir(), "none")}, 1, "none makes it"},
		{[]string{"mount", noModel, t.TempDir()}, 1, "no such file"},
		{[]string{"mount", "-o", "nonsense", q8, t.TempDir()}, 2, `unknown mount option "nonsense"; known are allow_orgs=, allow_other, as=, cache=, `},
		{[]string{"mount", "-o", "no-mkdir", q8, t.TempDir()}, 2, `unknown mount option "no-mkdir"; did you mean no_mkdir?`},
		{[]string{"mount", "-o", "ro,allow-other", q8, t.TempDir()}, 2, `unknown mount option "allow-other"; did you mean allow_other?`},
		{[]string{"mount", "-o", "gguf-type=Q4_0", q8, t.TempDir()}, 2, `unknown mount option "gguf-type=Q4_0"; did you mean gguf_type=?`},
		{[]string{"mount", "-o", "ro,cache_size", q8, t.TempDir()}, 2, "a value is missing: cache_size="},
		{[]string{"mount", "-o", "cache_size=x", q8, t.TempDir()}, 2, "-o cache_size=x: want a size like 512M or 8G"},
		{[]string{"mount", "-o", "umask=9", q8, t.TempDir()}, 2, "three octal digits"},
		{[]string{"mount", "-o", "allow_root", q8, t.TempDir()}, 2, "use allow_other"},
		{[]string{"mount", "-o", "env.PAGER=x", q8, t.TempDir()}, 2, "tensorfs does not use PAGER; it looks for models by HF_HOME, "},
		{[]string{"mount", "-o", "env.HF_HOME", q8, t.TempDir()}, 2, "env.HF_HOME=VALUE"},
		{[]string{"mount", "--i2s", "999", q8, t.TempDir()}, 2, "want 128, 64, rows4 or trinity"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", "")
			code, _, stderr := command(test.args...)
			if code != test.code {
				t.Errorf("exit code %d, want %d (stderr %q)", code, test.code, stderr)
			}
			if test.stderr == "" && stderr != "" {
				t.Errorf("stderr is not empty: %q", stderr)
			}
			if test.stderr != "" && (!strings.Contains(stderr, test.stderr) || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "tensorfs: ")) {
				t.Errorf("stderr %q, want one line with %q", stderr, test.stderr)
			}
		})
	}
}

func TestHelpOfEveryCommand(t *testing.T) {
	for _, c := range newRoot().Commands() {
		if c.Short == "" || c.Name() != "version" && c.Long == "" {
			t.Errorf("%s lacks a description", c.Name())
		}
	}
}

func TestList(t *testing.T) {
	_, out, _ := command("ls", q8)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, want := range []string{"README", "index.json", "config.json", "metadata.json", "metadata/general.architecture",
		"source/llama-xs.q8_0.gguf", "raw/layers.0.attention.q.weight", "packed/layers.0.attention.q.weight", "f16/layers.0.attention.q.weight",
		"bf16/layers.0.attention.q.weight", "f32/layers.0.attention.q.weight",
		"fused/layers.0.attention.qkv.weight", "fused-f16/layers.0.ffn.gate_up.weight", "npy/token_embedding.weight.npy"} {
		if !contains(lines, want) {
			t.Errorf("ls does not list %s", want)
		}
	}
	_, out, _ = command("ls", "-l", q8, "raw/layers.0.attention.q.weight")
	if got := strings.Fields(out); len(got) != 4 || got[0] != "4352" || got[1] != "Q8_0" || got[2] != "[64,64]" || got[3] != "raw/layers.0.attention.q.weight" {
		t.Errorf("ls -l prints %q", out)
	}
	for glob, want := range map[string]int{"raw/*": 20, "*.attention.q.weight": 10, "*/layers.?.ffn_norm.weight": 10, "f16/layers.[1].*": 9, "f16/layers.[!0].*": 9, `f16/layers\.0.*norm.weight`: 2, "README": 1, "raw[/]output_norm.weight": 1, "?aw/output_norm.weight": 1, "raw?output_norm.weight": 1} {
		_, out, stderr := command("ls", q8, glob)
		if got := strings.Count(out, "\n"); got != want {
			t.Errorf("glob %s lists %d paths, want %d %s", glob, got, want, stderr)
		}
	}
	_, out, _ = command("ls", "--json", q8)
	var rows []lsRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != len(lines) {
		t.Fatalf("ls --json: %v, %d rows, want %d", err, len(rows), len(lines))
	}
	for i, r := range rows {
		if r.Path != lines[i] || (r.Bytes == nil) != (r.Link != "") {
			t.Errorf("ls --json row %d: %+v", i, r)
		}
	}
	if _, out, _ := command("ls", "--json", q8, "none"); strings.Join(strings.Fields(out), "") != "[]" {
		t.Errorf("ls --json of nothing prints %q", out)
	}
}

func contains(lines []string, s string) bool {
	for _, l := range lines {
		if l == s {
			return true
		}
	}
	return false
}

// catted is what cat writes of a file.
func catted(t *testing.T, d tensorfs.Data) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := (&output{ctx: t.Context(), stdout: &b, stderr: io.Discard}).data(d); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCatIsTheFile(t *testing.T) {
	tree, err := (&modelFlags{}).open(q8)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Model.Close()
	err = tensorfs.Walk(tree.Root, func(path string, e tensorfs.Entry) error {
		if e.Dir != nil {
			return nil
		}
		code, out, stderr := command("cat", q8, path)
		if code != 0 || stderr != "" {
			t.Errorf("cat %s: %d %s", path, code, stderr)
		}
		if e.Data != nil && int64(len(out)) != e.Data.Size() {
			t.Errorf("cat %s: %d bytes, want %d", path, len(out), e.Data.Size())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if stored, err := os.ReadFile(q8); err != nil {
		t.Fatal(err)
	} else if _, out, _ := command("cat", q8, "source/llama-xs.q8_0.gguf"); out != string(stored) {
		t.Error("cat of a source link is not the file")
	}
}

// allModels are all models of testdata that the commands can open.
func allModels(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(ggufDir + "*.gguf")
	if err != nil || len(list) == 0 {
		t.Fatal("no models in testdata", err)
	}
	dirs, err := filepath.Glob("../../testdata/models-mlx/*/config.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		list = append(list, filepath.Dir(d))
	}
	return list
}

// The tree's own texts hold together.
func TestTreeTexts(t *testing.T) {
	for _, m := range allModels(t) {
		_, text, _ := command("cat", m, "metadata.json")
		var all map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Errorf("%s: metadata.json: %v", m, err)
		}
		_, keys, _ := command("ls", m, "metadata/*")
		for _, key := range strings.Fields(keys) {
			if _, ok := all[strings.TrimPrefix(key, "metadata/")]; !ok {
				t.Errorf("%s: %s is not in metadata.json", m, key)
			}
		}
		if n := strings.Count(keys, "\n"); n != len(all) {
			t.Errorf("%s: %d files in metadata/, %d keys in metadata.json", m, n, len(all))
		}
		for _, path := range []string{"config.json", "index.json"} {
			_, text, _ := command("cat", m, path)
			if !json.Valid([]byte(text)) {
				t.Errorf("%s: %s is not JSON", m, path)
			}
		}
	}
}

// TestHelpLayout holds that help begins with usage and examples, names the flags for
// allModels on other machines in one place, and lists each command in a group.
func TestHelpLayout(t *testing.T) {
	pointed := 0
	for _, c := range newRoot().Commands() {
		_, help, _ := command(c.Name(), "--help")
		if c.Name() == "help" || !c.Runnable() {
			continue
		}
		usage, examples, flags := strings.Index(help, "Usage:\n"), strings.Index(help, "\nExamples:\n"), strings.Index(help, "\nFlags:\n")
		text := strings.Index(help, strings.TrimSpace(long(c)))
		if usage != 0 || c.Example != "" && !(usage < examples && examples < text) || flags < text || c.GroupID == "" {
			t.Errorf("%s, in the group %q: usage at %d, examples at %d, text at %d, flags at %d", c.Name(), c.GroupID, usage, examples, text, flags)
		}
		if c.Flags().Lookup("offline") != nil {
			pointed++
			if !strings.Contains(help, "see tensorfs help remote: --cache, ") || strings.Contains(help, "ask no other machine") {
				t.Errorf("%s: %s", c.Name(), help)
			}
		}
	}
	if pointed < 9 {
		t.Errorf("only %d commands take models on other machines", pointed)
	}
	if _, help, _ := command("help", "remote"); !strings.Contains(help, "\n      --offline ") || !strings.Contains(help, "ask no other machine") {
		t.Errorf("help remote: %s", help)
	}
}
