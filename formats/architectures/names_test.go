package architectures

import (
	"slices"
	"testing"

	"github.com/tensorfs/tensorfs/formats/names"
)

// TestReordered: the tables of names and the descriptions say of the same tensors that GGUF files have
// their rows in another order. Adapters go by the first, conversions by the second.
func TestReordered(t *testing.T) {
	blocks, err := readArchitectures("architectures.txt", architecturesText, modules())
	if err != nil {
		t.Fatal(err)
	}
	both := 0
	for _, a := range blocks {
		if a.words["class"] == nil {
			continue
		}
		arch := a.Name
		if gguf := a.words["gguf"]; gguf != nil {
			arch = gguf[0].Text
		}
		for _, x := range a.Layer {
			heads := slices.ContainsFunc(x.Moves, func(m Move) bool { return m.Name == "heads" })
			got := names.Reordered(arch, "layers.0."+x.Module+".weight")
			if got != heads {
				t.Errorf("%s (%s): %s is reordered by the names: %v, by its description: %v", a.Name, arch, x.Module, got, heads)
			}
			if got && heads {
				both++
			}
		}
	}
	if both < 30 {
		t.Errorf("only %d tensors are reordered", both)
	}
}

// TestClasses: the tables of names know each class and model_type of the descriptions, as an architecture that
// has it.
func TestClasses(t *testing.T) {
	classes, types := map[string][]string{}, map[string][]string{}
	for _, s := range AllSettings() {
		for _, c := range s.Classes {
			if s.Where != "" && names.Arch(c.Name+WithExperts, "") == s.GGUF {
				continue // the class belongs to another architecture too, and names ask for the experts
			}
			classes[c.Name] = append(classes[c.Name], s.GGUF)
			types[c.ModelType] = append(types[c.ModelType], s.GGUF)
		}
	}
	delete(classes, "")
	delete(types, "")
	delete(types, "git")         // what one release of Grok is marked with; the word is another model's
	delete(types, "bailing_moe") // of two generations, and the first has no description
	if len(classes) < 190 || len(types) < 150 {
		t.Errorf("%d classes, %d types", len(classes), len(types))
	}
	for class, archs := range classes {
		if got := names.Arch(class, ""); !slices.Contains(archs, got) {
			t.Errorf("class %s is %q by the names, want one of %q", class, got, archs)
		}
	}
	for modelType, archs := range types {
		if got := names.Arch("", modelType); !slices.Contains(archs, got) {
			t.Errorf("model_type %s is %q by the names, want one of %q", modelType, got, archs)
		}
	}
}
