package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a merge is exported from is told apart: its recipe, and each of its models.
func TestMergeFacts(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		must(t, os.CopyFS(filepath.Join(dir, name), os.DirFS("../../testdata/lora/plain-bf16-f32/base")))
	}
	recipe := filepath.Join(dir, "recipe.yml")
	write := func(weight string) {
		t.Helper()
		must(t, os.WriteFile(recipe, []byte("merge_method: linear\nmodels: [{model: ./a, parameters: {weight: 1}}, {model: ./b, parameters: {weight: "+weight+"}}]\n"), 0o666))
	}
	facts := func() string {
		t.Helper()
		f := &modelFlags{}
		tree, err := f.open(recipe)
		must(t, err)
		defer tree.Model.Close()
		list, never, err := f.facts(tree)
		must(t, err)
		if len(never) < 2 {
			t.Errorf("an export may replace the models: %d files are kept from it", len(never))
		}
		return fmt.Sprint(list)
	}
	write("0.3")
	first := facts()
	if again := facts(); again != first {
		t.Errorf("%s\nand then\n%s", first, again)
	}
	write("0.4")
	second := facts()
	b := filepath.Join(dir, "b/model.safetensors")
	data, err := os.ReadFile(b)
	must(t, err)
	data[len(data)-2] ^= 1
	must(t, os.Remove(b))
	must(t, os.WriteFile(b, data, 0o666))
	if third := facts(); second == first || third == second {
		t.Errorf("%s\n%s\n%s", first, second, third)
	}

	var info struct{ Merge *mergeInfo }
	must(t, json.Unmarshal([]byte(succeeds(t, "info", "--json", recipe)), &info))
	if m := info.Merge; m == nil || m.Method != "linear" || strings.Join(m.Models, " ") != "./a ./b" {
		t.Errorf("%+v", m)
	}
	if text := succeeds(t, "info", recipe); !strings.Contains(text, "merge         linear of ./a, ./b\n") {
		t.Error(text)
	}
}
