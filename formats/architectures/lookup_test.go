package architectures

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// TestLookup holds that a block that is read alone is as it is among all.
func TestLookup(t *testing.T) {
	all := AllSettings()
	got := settingsWhere(func(*Settings) bool { return true })
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

// said is all that a block says, with the text of expressions, which are functions.
func said(block any) string {
	b, err := json.Marshal(block)
	if err != nil {
		return err.Error()
	}
	switch block := block.(type) {
	case *Settings:
		return fmt.Sprintf("%s %v", b, block.words)
	case *Architecture:
		return fmt.Sprintf("%s %v %v", b, block.words, block.sizes)
	}
	return ""
}
