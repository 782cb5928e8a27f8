package tokenizer_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats/tokenizer"
)

// library is a process with Hugging Face's tokenizers in it.
type library struct {
	in  io.WriteCloser
	out *bufio.Reader
}

// encoded is what the library answers: see scripts/tokenizers/encode.mjs.
type encoded struct {
	OK         bool
	Error      string
	IDs        [][]int
	IDsSpecial [][]int
	Decoded    []string
}

const scripts = "../../scripts/tokenizers"

// startLibrary starts the library, or skips the test where it is not installed.
func startLibrary(t *testing.T) *library {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED: without node there is no library of Hugging Face to encode texts with")
	}
	v, _ := exec.Command(node, "--version").Output()
	major, _, _ := strings.Cut(strings.TrimPrefix(string(v), "v"), ".")
	if n, _ := strconv.Atoi(major); n < 20 {
		t.Skipf("NOT TESTED: Hugging Face's tokenizers need node 20, and there is %s", v)
	}
	if _, err := os.Stat(scripts + "/node_modules/tokenizers"); err != nil {
		t.Skip("NOT TESTED: Hugging Face's tokenizers are not installed: scripts/setup installs them where npm reaches its registry")
	}
	c := exec.Command(node, "encode.mjs")
	c.Dir = scripts
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("Hugging Face's tokenizers: %v", err)
		}
	})
	return &library{in, bufio.NewReader(out)}
}

// encode encodes texts with a tokenizer.json. The error is the library's.
func (l *library) encode(t *testing.T, tokenizer []byte, texts []string) *encoded {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(file, tokenizer, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]any{"tokenizer": file, "texts": texts})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.in.Write(append(b, '\n')); err != nil {
		t.Fatal(err)
	}
	line, err := l.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the library ended: %v", err)
	}
	var r encoded
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if !r.OK {
		t.Fatalf("the library refuses the file: %s", r.Error)
	}
	return &r
}

// vector is a text and its ids.
type vector struct {
	Text       string
	IDs        []int
	IDsSpecial []int `json:"ids_special"`
}

// vectors are the files of texts, and where their metadata is.
func vectorFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, pattern := range []struct{ texts, prefix string }{{"vocab/*.jsonl.gz", "vocab/ggml-vocab-"}, {"pre/*.jsonl.gz", "pre/"}, {"models/*.tok.jsonl.gz", "vocab/"}} {
		list, err := filepath.Glob(filepath.Join(wholeHF, pattern.texts))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range list {
			name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".jsonl.gz"), ".tok")
			files[file] = filepath.Join(wholeHF, pattern.prefix+name+".gguf.gz")
		}
	}
	if len(files) != 21 {
		t.Fatalf("%d files of texts", len(files))
	}
	return files
}

// TestLibrary holds that Hugging Face's library gives the recorded ids.
func TestLibrary(t *testing.T) {
	l := startLibrary(t)
	for texts, file := range vectorFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(texts), ".jsonl.gz"), func(t *testing.T) {
			written := write(t, file)
			var list []vector
			var inputs []string
			for line := range strings.Lines(string(unpack(t, texts))) {
				var v vector
				if err := json.Unmarshal([]byte(line), &v); err != nil {
					t.Fatal(err)
				}
				list, inputs = append(list, v), append(inputs, v.Text)
			}
			if len(list) < 300 {
				t.Fatalf("%d texts", len(list))
			}
			got := l.encode(t, written["tokenizer.json"], inputs)
			differ := 0
			for i, v := range list {
				if !slices.Equal(got.IDs[i], v.IDs) || v.IDsSpecial != nil && !slices.Equal(got.IDsSpecial[i], v.IDsSpecial) {
					if differ++; differ < 5 {
						t.Errorf("%q is %v and %v\nwant %v and %v", v.Text, got.IDs[i], got.IDsSpecial[i], v.IDs, v.IDsSpecial)
					}
				}
			}
			if differ > 0 {
				t.Errorf("%d of %d texts differ", differ, len(list))
			}
		})
	}
}

// TestRoundTrip holds that what was read can be written again: Hugging Face's
// library gives the ids of the source. It gives those of llama.cpp for one text
// that falcon's pre-tokenizer cuts otherwise there, and for names of control tokens
// where those of the source are SentencePiece's, which knows none in a text.
func TestRoundTrip(t *testing.T) {
	l := startLibrary(t)
	for _, c := range goldenCases(t) {
		t.Run(c.name, func(t *testing.T) {
			source := load(t, filepath.Join(golden, c.name))
			read, err := source.read(t, c.arch, c.rows)
			if err != nil {
				t.Fatal(err)
			}
			files, err := tokenizer.Write(keys(meta(read)).with("general.name", c.want["general.name"].Value).get, c.arch)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(golden, "expected", c.name+".run.json"))
			if err != nil {
				t.Fatal(err)
			}
			var want struct {
				Texts    []string
				HFTokens [][]int `json:"hf_tokens"`
				Llama    struct{ TokensSpecial [][]int }
			}
			if err := json.Unmarshal(b, &want); err != nil || len(want.Texts) == 0 || len(want.HFTokens) != len(want.Texts) {
				t.Fatalf("%d texts, %d lists of tokens, %v", len(want.Texts), len(want.HFTokens), err)
			}
			got := l.encode(t, files["tokenizer.json"], want.Texts)
			for i, text := range want.Texts {
				_, byLibrary := source["tokenizer.json"]
				if c.name == "falcon" && i == 5 || !byLibrary && strings.Contains(text, "</s>") {
					want.HFTokens[i] = want.Llama.TokensSpecial[i]
				}
				if !slices.Equal(got.IDs[i], want.HFTokens[i]) {
					t.Errorf("%q is %v, want %v", text, got.IDs[i], want.HFTokens[i])
				}
			}
		})
	}
}
