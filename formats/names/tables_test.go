package names

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEverySpelling maps each unconditional spelling of the tables in a model with only this
// tensor.
func TestEverySpelling(t *testing.T) {
	number := strings.NewReplacer("{n}", "31", "{e}", "7", "{s}", "weight")
	for layout, s := range map[Layout]*spellings{GGUF: ggufSpellings(), HF: hfSpellings()} {
		count := 0
		for key, r := range s.rules {
			for r.next != nil {
				r = r.next
			}
			if r.when != nil {
				continue
			}
			if strings.Contains(key, "post_attention_norm") && layout == GGUF {
				continue // without the other norms it means ffn_norm
			}
			count++
			got := Map(layout, "", []Source{{Name: number.Replace(key)}})[0]
			if want := number.Replace(r.canonical); got.Name != want || !got.Mapped {
				t.Errorf("%s: got %+v, want %s", number.Replace(key), got, want)
			}
		}
		if count < 400 {
			t.Errorf("layout %d: only %d spellings", layout, count)
		}
	}
}

// TestTables holds what the code relies on without checking it.
func TestTables(t *testing.T) {
	pattern := regexp.MustCompile(`^[A-Za-z0-9._-]*(\{n\}[A-Za-z0-9._-]*(\{e\}[A-Za-z0-9._-]*)?)?(\{s\})?$`)
	canonical := regexp.MustCompile(`^[a-z][a-z0-9._]*(\{n\}[a-z0-9._]*(\{e\}[a-z0-9._]*)?)?(\{s\})?$`)
	holders := func(s string) []string { return regexp.MustCompile(`\{.\}`).FindAllString(s, -1) }
	for _, s := range []*spellings{ggufSpellings(), hfSpellings()} {
		for key, r := range s.rules {
			if end := param([]byte(key)); end != "" && s.rules[strings.TrimSuffix(key, end)+"{s}"] != nil {
				t.Errorf("%s has a line of its own and one with {s}", key)
			}
			for ; r != nil; r = r.next {
				if !pattern.MatchString(key) || !canonical.MatchString(r.canonical) {
					t.Errorf("%s, %s: other bytes than a name may have", key, r.canonical)
				}
				if !slices.Equal(holders(key), holders(r.canonical)) {
					t.Errorf("%s and %s have other placeholders", key, r.canonical)
				}
				if strings.Contains(r.canonical, "..") || len(r.canonical)+2*maxDigits+maxGroup > maxEscaped-20 {
					t.Errorf("%s is not a file name", r.canonical)
				}
				if c := r.when; c != nil {
					if !slices.Contains([]string{"has", "lacks", "arch", "twice"}, c.verb) || len(c.args) == 0 {
						t.Errorf("%s: condition %+v", key, c)
					}
					for _, a := range c.args {
						if c.verb != "arch" && !slices.Equal(holders(a), holders(strings.TrimSuffix(key, "{s}"))) {
							t.Errorf("%s: condition on %s", key, a)
						}
					}
				}
			}
		}
	}
	for _, g := range groups {
		for key := range hfSpellings().rules {
			if strings.HasPrefix(key, g) {
				t.Errorf("%s begins like a group and is never found", key)
			}
		}
	}
	for _, c := range companions() {
		if c.suffix == ".bias" || !regexp.MustCompile(`^[a-z0-9_]+$`).MatchString(c.role) {
			t.Errorf("companion %+v", c)
		}
	}
	if n := len(wrappers()); n < 27 {
		t.Errorf("%d wrappers", n)
	}
}

func TestApart(t *testing.T) {
	square := []int64{8, 8}
	for _, c := range []struct {
		arch, name string
		shape      []int64
		dim        int64
		want       string
	}{
		{"gptneox", "layers.0.attention.qkv.weight", square, 8, inTurns},
		{"gptneox", "layers.31.attention.qkv.bias", nil, 0, inTurns},
		{"gptneox", "layers.0.attention.qkv.scales", square, 8, inTurns},
		{"gptneox", "layers.0.attention.output.weight", square, 8, ""},
		{"gptneox", "vision.layers.0.attention.qkv.weight", square, 8, ""},
		{"gptneox", "attention.qkv.weight", square, 8, ""},
		{"gptneox", "layers.0", nil, 0, ""},
		{"gptneox", "layers.", nil, 0, ""},
		{"gptneox", "", nil, 0, ""},
		{"gpt-oss", "layers.0.ffn.experts.gate_up.blocks", nil, 0, inTurns},
		{"gpt-oss", "layers.0.ffn.experts.gate_up.weight", []int64{4, 6, 8}, 8, inTurns},
		{"gpt-oss", "layers.0.attention.qkv.weight", square, 8, ""},
		{"gpt2", "layers.0.attention.qkv.weight", []int64{8, 24}, 8, transposed},
		{"gpt2", "layers.0.attention.qkv.bias", []int64{24}, 8, ""},
		{"qwen3moe", "layers.0.ffn.experts.gate_up.weight", []int64{4, 6, 8}, 8, ""},
		{"qwen3moe", "layers.0.ffn.experts.gate_up.weight", []int64{4, 8, 6}, 8, transposed},
		{"qwen3moe", "layers.0.ffn.experts.gate_up.weight", []int64{4, 8, 8}, 8, ambiguous},
		{"qwen3moe", "layers.0.ffn.experts.gate_up.weight", []int64{4, 6, 6}, 8, ambiguous},
		{"qwen3moe", "layers.0.ffn.experts.gate_up.weight", []int64{4, 8, 6}, 0, ""},
		{"qwen3moe", "layers.0.ffn.experts.gate_up.weight", square, 8, ""},
		{"qwen3moe", "layers.0.ffn.experts.gate_up.bias", []int64{4, 8, 6}, 8, ""},
		{"phi3", "layers.0.attention.qkv.weight", square, 8, ""},
		{"unknown", "layers.0.attention.qkv.weight", square, 8, ""},
	} {
		if got := Apart(c.arch, c.name, c.shape, c.dim); got != c.want {
			t.Errorf("Apart(%q, %q, %v, %d) = %q, want %q", c.arch, c.name, c.shape, c.dim, got, c.want)
		}
	}
}
