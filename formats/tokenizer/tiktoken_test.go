package tokenizer_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const tiktoken = "../../testdata/tiktoken"

// kimiRows are the rows of the embedding that the golden tiktoken.model is for.
const kimiRows = 360

// TestTiktoken compares with what llama.cpp's converter wrote of the vocabulary that tiktoken read,
// and with the ids that tiktoken gives texts.
func TestTiktoken(t *testing.T) {
	parse := func(name string, into any) {
		b, err := os.ReadFile(filepath.Join(tiktoken, name))
		if err == nil {
			err = json.Unmarshal(b, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var golden map[string]typed
	parse("kimi.meta.json", &golden)
	f := load(t, filepath.Join(tiktoken, "kimi"))
	got, err := f.read(t, "deepseek2", kimiRows)
	if err != nil {
		t.Fatal(err)
	}
	have := meta(got)
	for key, v := range golden {
		if want := expected(t, v); !same(have[key], want) {
			t.Errorf("%s is %.300v, want %.300v", key, have[key], want)
		}
	}
	if len(golden) < 8 || len(got.Notes) != 1 || !strings.HasPrefix(got.Notes[0], "of the tokens of tiktoken.model, 3 are not two tokens of lower ranks together: ") {
		t.Errorf("%d keys, and notes %q", len(golden), got.Notes)
	}
	want(t, "eos of the class of Kimi Linear", f.with("config.json", `{"eos_token_id":3}`), "kimi-linear", kimiRows, map[string]any{"g.eos_token_id": uint32(338)})
	want(t, "eos of config.json", f.with("config.json", `{"eos_token_id":3}`), "deepseek2", kimiRows, map[string]any{"g.eos_token_id": uint32(3)})
	want(t, "more rows", f, "deepseek2", 337+258+2, map[string]any{"g.pre": "kimi-k2"})

	var run struct {
		Texts    []string
		Tiktoken [][]int
	}
	parse("kimi.run.json", &run)
	cpp := startLlama(t)
	differ := 0
	for i, ids := range cpp.encode(t, got.Meta, run.Texts) {
		if !slices.Equal(ids, run.Tiktoken[i]) {
			differ++
			t.Logf("%q is %v, and %v by tiktoken", run.Texts[i], ids, run.Tiktoken[i])
		}
	}
	if len(run.Texts) < 12 || differ > 0 {
		t.Errorf("%d of %d texts differ", differ, len(run.Texts))
	}
}

// TestTiktokenRefuses names the line of a file of ranks that is not as tiktoken writes it.
func TestTiktokenRefuses(t *testing.T) {
	f := load(t, filepath.Join(tiktoken, "kimi"))
	lines := strings.SplitAfter(f["tiktoken.model"], "\n")
	changed := func(at int, line string) string {
		list := slices.Clone(lines)
		list[at] = line
		return strings.Join(list, "")
	}
	for name, tt := range map[string]struct{ text, want string }{
		"no rank":        {changed(3, "Aw==\n"), "its line 4, "},
		"another rank":   {changed(3, "Aw== 4\n"), "its line 4, "},
		"no base64":      {changed(3, "A 3\n"), "its line 4, "},
		"no bytes":       {changed(3, " 3\n"), "its line 4, "},
		"the same twice": {changed(3, "AA== 3\n"), "the tokens 0 and 3 are both"},
		"too many":       {f["tiktoken.model"] + strings.Join(numbered(337, kimiRows+1), ""), "361 tokens, and the embedding 360 rows"},
	} {
		if _, err := f.with("tiktoken.model", tt.text).read(t, "deepseek2", kimiRows); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	other := f.with("tokenizer_config.json", `{"tokenizer_class":"OtherTokenizer"}`)
	if _, err := other.read(t, "deepseek2", kimiRows); err == nil || !strings.Contains(err.Error(), "the model has tiktoken.model and neither") {
		t.Errorf("another class: %v", err)
	}
	special := f.with("tokenizer_config.json", `{"tokenizer_class":"TikTokenTokenizer","added_tokens_decoder":{"340":{"content":"x"},"341":{"content":"x"}}}`)
	if _, err := special.read(t, "deepseek2", kimiRows); err == nil || !strings.Contains(err.Error(), "both") {
		t.Errorf("a text twice: %v", err)
	}
}

// numbered are lines of ranks from one to another, each with bytes that no other has.
func numbered(from, to int) (lines []string) {
	for rank := from; rank < to; rank++ {
		token := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "token %d", rank))
		lines = append(lines, fmt.Sprintf("%s %d\n", token, rank))
	}
	return lines
}

// TestTiktokenOfLines reads Hunyuan's file of ranks, whose ids are the numbers of lines without repeated ones.
func TestTiktokenOfLines(t *testing.T) {
	f := load(t, "../../testdata/architectures/hunyuan-moe")
	const rows = 337 + 5 + 205
	for name, file := range map[string]string{
		"as published":     f["hy.tiktoken"],
		"other ranks":      strings.ReplaceAll(f["hy.tiktoken"], " 3\n", " 7\n"),
		"a token repeated": strings.Replace(f["hy.tiktoken"], "Aw== 3\n", "Aw== 3\nAQ== 4\n", 1),
	} {
		want(t, name, f.with("hy.tiktoken", file), "hunyuan-moe", rows, map[string]any{"g.bos_token_id": uint32(339), "g.eos_token_id": uint32(340), "g.pre": "hunyuan"})
	}
	if _, err := f.with("hy.tiktoken", "AA== 0\nAQ\n").read(t, "hunyuan-moe", rows); err == nil || !strings.Contains(err.Error(), "its line 2, ") {
		t.Errorf("a line without a rank: %v", err)
	}
}
