package names

import (
	"strings"
	"testing"
)

func TestEscape(t *testing.T) {
	long := func(s string, n int) string { return strings.Repeat(s, n) }
	for _, c := range []struct{ in, want string }{
		{"", "%"},
		{"%", "%25"},
		{".", "%2E"},
		{"..", "%2E."},
		{"...", "%2E.."},
		{".x.", "%2Ex."},
		{"a.b", "a.b"},
		{"/", "%2F"},
		{"/etc/passwd", "%2Fetc%2Fpasswd"},
		{"../../x", "%2E.%2F..%2Fx"},
		{"a/b", "a%2Fb"},
		{"a%2Fb", "a%252Fb"},
		{"a b", "a%20b"},
		{" ", "%20"},
		{"-rf", "-rf"},
		{"~", "%7E"},
		{"new\nline", "new%0Aline"},
		{"esc\x1b[31m", "esc%1B[31m"},
		{`quote"back\slash`, `quote"back%5Cslash`},
		{"\u00fcber", "%C3%BCber"},
		{"u\u0308ber", "u%CC%88ber"},
		{"\xff\xfe", "%FF%FE"},
		{"\x00", "%00"},
		{"\x7f", "%7F"},
		{"a:b", "a%3Ab"},
		{"*?[x]", "*?[x]"},
		{"Case", "Case"},
		{long("n", 200), long("n", 200)},
		{long("n", 201), long("n", 180) + "~291c4194382c6bd5"},
		{long("n", 254) + "a", long("n", 180) + "~0597236d0a37e288"},
		{long("n", 199) + "/", long("n", 180) + "~6608cc3e580ac18c"},
		{long("/", 66) + "nn", long("%2F", 66) + "nn"},
		{long("/", 67), long("%2F", 60) + "~3eb1349aab9dc074"},
		{"n" + long("/", 67), "n" + long("%2F", 59) + "~46e54e490bac5ad8"},
		{"nn" + long("/", 67), "nn" + long("%2F", 59) + "~86d27834056a0c8a"},
	} {
		if got := Escape(c.in); got != c.want {
			t.Errorf("Escape(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

// unescape undoes Escape for results that are not cut.
func unescape(s string) string {
	if s == "%" {
		return ""
	}
	const digits = "0123456789ABCDEF"
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '%' {
			b = append(b, byte(strings.IndexByte(digits, s[i+1])<<4|strings.IndexByte(digits, s[i+2])))
			i += 2
		} else {
			b = append(b, s[i])
		}
	}
	return string(b)
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", ".", "..", "a/b", "%2F", "~", "\xff", strings.Repeat("/", 70), strings.Repeat("n", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := Escape(name)
		if !safe(got) || len(got) > maxEscaped {
			t.Errorf("Escape(%q) = %q", name, got)
		}
		body, hash, cut := strings.Cut(got, "~")
		if !cut {
			if back := unescape(got); back != name {
				t.Errorf("%q comes back from %q as %q", name, got, back)
			}
			return
		}
		if hash != digest(name)[:16] || !strings.HasPrefix(name, unescape(body)) || len(body) > cutEscaped || len(body) < cutEscaped-2 {
			t.Errorf("Escape(%q) = %q", name, got)
		}
	})
}
