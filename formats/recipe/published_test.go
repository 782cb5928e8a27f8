package recipe

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestPublished plans recipes as cards and threads have them, or refuses them for a true reason.
func TestPublished(t *testing.T) {
	f, err := os.Open("../../testdata/published/recipes.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := 0
	for lines := bufio.NewScanner(f); lines.Scan(); rows++ {
		var row struct {
			Source, Refused      string
			Recipe               json.RawMessage
			Models, Layers, Made int
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if !Match(row.Recipe) {
			t.Errorf("%s: it is not known as a recipe", row.Source)
		}
		r, err := Parse(row.Recipe)
		switch {
		case row.Refused != "":
			if err == nil || !strings.Contains(err.Error(), row.Refused) {
				t.Errorf("%s: %v, want %q", row.Source, err, row.Refused)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", row.Source, err)
			continue
		}
		list, err := r.Plan(llama(len(r.Models), row.Layers))
		if err != nil {
			t.Errorf("%s: %v", row.Source, err)
			continue
		}
		if n := len(r.Layers(row.Layers)); len(r.Models) != row.Models || n != row.Made || len(list) != 2*n+3 || r.Notes() != nil {
			t.Errorf("%s: %d models, %d layers, %d tensors, notes %q", row.Source, len(r.Models), n, len(list), r.Notes())
		}
	}
	if rows < 10 {
		t.Errorf("%d recipes", rows)
	}
}
