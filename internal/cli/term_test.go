package cli

import (
	"bytes"
	"math"
	"os"
	"testing"
	"unicode/utf8"
)

func TestUTF8(t *testing.T) {
	for _, test := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", false},
		{"", "", "C", false},
		{"", "", "en_US.UTF-8", true},
		{"", "", "C.utf8", true},
		{"", "UTF-8", "", true}, // macOS
		{"C", "", "en_US.UTF-8", false},
		{"", "POSIX", "en_US.UTF-8", false},
		{"de_DE.UTF-8@euro", "C", "C", true},
		{"de_DE.ISO-8859-1", "", "", false},
	} {
		t.Setenv("LC_ALL", test.all)
		t.Setenv("LC_CTYPE", test.ctype)
		t.Setenv("LANG", test.lang)
		if got := UTF8(); got != test.want {
			t.Errorf("LC_ALL=%q LC_CTYPE=%q LANG=%q: %v", test.all, test.ctype, test.lang, got)
		}
	}
}

func TestBar(t *testing.T) {
	for _, test := range []struct {
		fraction       float64
		width          int
		unicode, ascii string
	}{
		{0, 10, "", ""},
		{-1, 10, "", ""},
		{math.NaN(), 10, "", ""},
		{0.5, 0, "", ""},
		{0.5, -1, "", ""},
		{1e-9, 10, "▏", "#"},
		{1.0 / 8, 1, "▏", "#"},
		{0.5, 1, "▌", "#"},
		{0.5, 4, "██", "##"},
		{0.6, 4, "██▍", "##"},
		{0.96, 2, "█▉", "##"},
		{1, 4, "████", "####"},
		{7, 4, "████", "####"},
		{math.Inf(1), 4, "████", "####"},
	} {
		t.Setenv("LC_ALL", "C.UTF-8")
		if got := Bar(test.fraction, test.width); got != test.unicode {
			t.Errorf("%v of %d columns: %q, want %q", test.fraction, test.width, got, test.unicode)
		}
		t.Setenv("LC_ALL", "C")
		if got := Bar(test.fraction, test.width); got != test.ascii {
			t.Errorf("%v of %d columns in ASCII: %q, want %q", test.fraction, test.width, got, test.ascii)
		}
	}
}

// TestBarGrows holds that a larger fraction is never a shorter bar, and that none
// is wider than it may be.
func TestBarGrows(t *testing.T) {
	for _, locale := range []string{"C", "C.UTF-8"} {
		t.Setenv("LC_ALL", locale)
		last := ""
		for i := range 1001 {
			b := Bar(float64(i)/1000, 12)
			if utf8.RuneCountInString(b) > 12 || utf8.RuneCountInString(b) < utf8.RuneCountInString(last) {
				t.Fatalf("%s: %q follows %q", locale, b, last)
			}
			last = b
		}
	}
}

// TestNoTerminal holds that files and buffers are not terminals. The tests of cmd/tensorfs
// have a terminal.
func TestNoTerminal(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if IsTerminal(f) || IsTerminal(&bytes.Buffer{}) {
		t.Error("a file or a buffer is taken for a terminal")
	}
	if Width(f) != Columns || Width(&bytes.Buffer{}) != Columns {
		t.Error("a file or a buffer has a width of its own")
	}
}
