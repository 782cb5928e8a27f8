package architectures

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// TestLookup holds that a block that is read without the rest equals the block among all.
func TestLookup(t *testing.T) {
	all := AllSettings()
	got := settingsWhere(func(head) bool { return true })
	if len(got) != len(all) {
		t.Fatalf("%d blocks have a class, not %d", len(all), len(got))
	}
	for i := range got {
		if said(got[i]) != said(all[i]) {
			t.Errorf("%s alone is not what it is among all", all[i].Name)
		}
	}
	for _, a := range All() {
		if said(Find(a.Name)) != said(a) {
			t.Errorf("%s alone is not what it is among all", a.Name)
		}
	}
	for _, name := range []string{"", "core", "mistral", "nothing"} {
		if Find(name) != nil {
			t.Errorf("%q is an architecture", name)
		}
	}
	if !Latent("deepseek2") || Latent("llama") || Latent("nothing") {
		t.Error("which architectures keep one vector for all heads")
	}
	for class, want := range map[string][]string{"MixtralForCausalLM": {"mixtral"}, "Qwen3ForCausalLM": {"qwen3", "qwen3-reranker"}, "Qwen2_5OmniModel": {"qwen2vl"}, "Nothing": nil} {
		var got []string
		for _, s := range OfClass(func(c Class) bool { return c.Name == class }) {
			got = append(got, s.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is of %v, not %v", class, got, want)
		}
	}
}

// said is a text of everything in a block but the numbers of lines. Expressions are functions, so
// it has their texts.
func said(block any) string {
	b, err := json.Marshal(block)
	if err != nil {
		return err.Error()
	}
	switch block := block.(type) {
	case *Settings:
		return fmt.Sprintf("%s %v", b, withoutLines(block.words))
	case *Architecture:
		return fmt.Sprintf("%s %v %v", b, withoutLines(block.words), block.sizes)
	}
	return ""
}

func withoutLines(words map[string][]Item) map[string][]Item {
	out := map[string][]Item{}
	for word, items := range words {
		for _, x := range items {
			x.Line = 0
			out[word] = append(out[word], x)
		}
	}
	return out
}

// Said answers from the text of blocks as their settings do.
func TestSaid(t *testing.T) {
	asked := 0
	for _, of := range AllSettings() {
		for _, word := range []string{"yarn", "period"} {
			for _, s := range AllSettings() {
				for _, item := range s.Words(word) {
					want := slices.ContainsFunc(OfGGUF(of.GGUF), func(s *Settings) bool { return slices.Contains(s.Words(word), item) })
					if got := Said(of.GGUF, word, item); got != want {
						t.Errorf("%s: %s %s: %v, want %v", of.GGUF, word, item, got, want)
					}
					asked++
				}
			}
		}
	}
	if asked == 0 {
		t.Error("no block has such words")
	}
}
