package architectures

import (
	"strings"
	"testing"
)

// TestText: the text is what the reader takes.
func TestText(t *testing.T) {
	if all := All(); len(all) < 15 {
		t.Errorf("%d architectures", len(all))
	}
}

// texts returns the texts of items.
func texts(items []Item) string {
	var list []string
	for _, x := range items {
		if x.When != nil {
			list = append(list, "["+x.When.String()+"]"+x.Text)
		} else {
			list = append(list, x.Text)
		}
	}
	return strings.Join(list, " ")
}

// TestLike: a block begins with the lines of the other.
func TestLike(t *testing.T) {
	all, err := readArchitectures("text", `# comment
arch a
  prefix  one.
  layer   a b(1 2):x [rope y]
          c [] d
          [!e] f
  layer   g
arch b like a
  layer   -b +d:more @a +h +i
arch c like b
  prefix  two.
  layer   -c +j
`)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a b(1 2):x [rope y]c d [!e]f g", "a h i [rope y]c d:more [!e]f g", "a h i d:more [!e]f g j"} {
		if got := texts(all[i].Items("layer")); got != want {
			t.Errorf("%s has %s, want %s", all[i].Name, got, want)
		}
	}
	if a, b := texts(all[1].Items("prefix")), texts(all[2].Items("prefix")); a != "one." || b != "two." {
		t.Error(a, b)
	}
}

// TestMistakes: a text that is wrong says where.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"arch a\n  what b\n":    "text:2: unknown word",
		"arch a\narch a\n":      "text:2: a is there twice",
		"arch a like b\n":       "text:1: a is like b",
		"arch a b\n":            `text:1: "arch a b"`,
		"  layer a\n":           "text:1: a line before",
		"arch a\n  layer a a\n": "text:2: layer has a twice",
		"arch a\n  layer +a\n":  "text:2: +a changes",
		"arch a\n  layer a\narch b like a\n  layer -b\n":     "text:4: there is no b",
		"arch a\n  layer a\narch b like a\n  layer -a b\n":   "text:4: layer has changes and items",
		"arch a\n  layer [a b\n":                             "text:2: a condition without its end",
		"arch a\n  layer [a +] b\n":                          "text:2: the expression",
		"arch a\n  layer b(c\n":                              "text:2: parentheses",
		"arch a\n  layer \u00fc\n":                           "text:2: only printable ASCII",
		"arch a\n  layer [" + strings.Repeat("!", 99) + "a]": "it is too deep",
	} {
		if _, err := readArchitectures("text", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestExpr(t *testing.T) {
	facts := Facts(func(name string) any {
		return map[string]any{"width": int64(12), "heads": int64(4), "rope": "yarn", "zero": int64(0), "half": 0.5, "yes": true, "big": int64(1) << 40}[name]
	})
	for text, want := range map[string]any{
		"width/heads": int64(3), "width/5": nil, "width/zero": nil, "2*width+1": int64(25), "width-heads*2": int64(4), "-(width)": int64(-12),
		"none | width": int64(12), "none": nil, "none+1": nil, "big*2": nil, "half*width": 6.0, "0.25": 0.25,
		"rope llama3 yarn": true, "rope linear": false, "none linear": false, "!none": true, "!width": false, "!zero": true,
		"width < 13": true, "width >= 13": false, "heads == 4 and yes": true, "zero or none": false, "rope == rope": true,
		"width if yes else heads": int64(12), "width if zero else heads": int64(4), "width if zero": nil, "(1+2)*3": int64(9), "9-2-3": int64(4),
	} {
		e, err := ParseExpr(text)
		if err != nil {
			t.Error(err)
		} else if got := e.Eval(facts); got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"", "a b +", "a+", "(a", "a)", "if", "a ? b", "1 2"} {
		if _, err := ParseExpr(text); err == nil {
			t.Errorf("%q is an expression", text)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add(architecturesText)
	f.Add("arch a\n layer [a+b*2 < (c|d)] x(y z):m+b?\narch b like a\n layer -x +y @y +z\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := readArchitectures("text", text)
		if err != nil && (len(all) > 0 || !strings.HasPrefix(err.Error(), "text:")) {
			t.Error(all, err)
		}
		for _, a := range all {
			for _, x := range a.Items("layer") {
				x.When.Holds(func(string) any { return int64(1) << 62 })
			}
		}
	})
}
