package architectures

import (
	"slices"
	"strings"
	"testing"
)

// TestSupport holds that each class has a sentence for every directory that cannot be made, and
// that classes of blocks are listed.
func TestSupport(t *testing.T) {
	made := map[string]int{}
	for _, s := range Support() {
		for column, g := range s.Columns {
			if !slices.Contains(SupportColumns, column) {
				t.Errorf("%s has a column %s", s.Class, column)
			}
			if g.Made {
				made[column]++
			}
			if g.Made != (g.Reason == "") {
				t.Errorf("%s: %s: made %v, and the reason is %q", s.Class, column, g.Made, g.Reason)
			}
		}
		if len(s.Columns) == 0 {
			t.Errorf("nothing is said of %s", s.Class)
		}
	}
	if len(Support()) < 280 || made["gguf"] < 50 || made["hf"] < 50 || made["mlx"] < 40 || made["vision"] < 12 {
		t.Errorf("%d classes: %v", len(Support()), made)
	}
	i := slices.IndexFunc(Support(), func(s Supported) bool { return s.Class == "NeoBERT" })
	if s := Support()[i]; !slices.Equal(s.Made(), []string{"gguf"}) || len(s.Reasons()) != 2 || s.Architecture != "neo-bert" {
		t.Errorf("%+v", s)
	}
}

// TestMissingMistakes holds what is wrong in missing.txt.
func TestMissingMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"text A":                         "m.txt:1: a list without its word",
		"why x\n  A B":                   "m.txt:2: a list without its word",
		"why x\n  wrapped A":             "m.txt:2: a list without its word",
		"# x\nwhy x\n  text A\n       A": "m.txt:4: A is there twice",
	} {
		if _, _, err := readMissing("m.txt", text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
