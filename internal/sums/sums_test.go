package sums

import (
	"bytes"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// scan returns all lines of a list.
func scan(t testing.TB, list string) (lines []Line, err error) {
	t.Helper()
	for line, err := range Lines(strings.NewReader(list)) {
		if err != nil {
			return lines, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func TestLines(t *testing.T) {
	sum := Sum(sha256.Sum256(nil))
	hex := sum.String()
	for _, test := range []struct {
		name, list string
		want       []Line
	}{
		{"empty", "", nil},
		{"text", hex + "  raw/a\n", []Line{{1, "raw/a", sum, true}}},
		{"binary", hex + " *raw/a\n", []Line{{1, "raw/a", sum, true}}},
		{"one blank", hex + " raw/a\n", []Line{{1, "raw/a", sum, true}}},
		{"a name with blanks", hex + "   a b \n", []Line{{1, " a b ", sum, true}}},
		{"a name with a star", hex + "  *a\n", []Line{{1, "*a", sum, true}}},
		{"upper case", strings.ToUpper(hex) + "  a\n", []Line{{1, "a", sum, true}}},
		{"indented", "  " + hex + "  a\n", []Line{{1, "a", sum, true}}},
		{"without a last line break", hex + "  a", []Line{{1, "a", sum, true}}},
		{"CRLF", "# x\r\n\r\n" + hex + "  a\r\n", []Line{{3, "a", sum, true}}},
		{"escaped", `\` + hex + `  a\\b\nc\rd` + "\n", []Line{{1, "a\\b\nc\rd", sum, true}}},
		{"escaped without a mark", hex + `  a\nb` + "\n", []Line{{1, `a\nb`, sum, true}}},
		{"unknown escape", `\` + hex + `  a\tb` + "\n", []Line{{Number: 1}}},
		{"half an escape", `\` + hex + `  a\` + "\n", []Line{{Number: 1}}},
		{"tagged", "SHA256 (a (b) = c) = " + hex + "\n", []Line{{1, "a (b) = c", sum, true}}},
		{"another tag", "MD5 (a) = d41d8cd98f00b204e9800998ecf8427e\n", []Line{{Number: 1}}},
		{"half a tag", "SHA256 (a\n", []Line{{Number: 1}}},
		{"no name", hex + "  \n" + hex + "\n", []Line{{Number: 1}, {Number: 2}}},
		{"short", hex[1:] + "  a\n", []Line{{Number: 1}}},
		{"long", hex + "0  a\n", []Line{{Number: 1}}},
		{"no digits", strings.Repeat("g", 64) + "  a\n", []Line{{Number: 1, Name: "a"}}},
		{"binary junk", "\x00\xff\n" + hex + "  a\n", []Line{{Number: 1}, {2, "a", sum, true}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := scan(t, test.list)
			for i := range got {
				if !got[i].OK {
					got[i] = Line{Number: got[i].Number}
				}
			}
			for i := range test.want {
				if !test.want[i].OK {
					test.want[i] = Line{Number: test.want[i].Number}
				}
			}
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("%q: %+v, %v; want %+v", test.list, got, err, test.want)
			}
		})
	}
}

// A line without an end takes no more memory than a line may have.
func TestLinesAreBounded(t *testing.T) {
	sum := Sum(sha256.Sum256(nil))
	fits := sum.String() + "  " + strings.Repeat("a", MaxLine-100)
	if lines, err := scan(t, fits); err != nil || len(lines) != 1 || !lines[0].OK {
		t.Errorf("a long line: %v", err)
	}
	lines, err := scan(t, "x\n"+strings.Repeat("a", 2*MaxLine))
	if err == nil || !strings.Contains(err.Error(), "line 2 ") || len(lines) != 1 {
		t.Errorf("a line that is too long: %d lines, %v", len(lines), err)
	}
}

// What Append writes, sha256sum reads, and what sha256sum writes, Lines reads.
func TestSha256sum(t *testing.T) {
	program, err := exec.LookPath("sha256sum")
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	dir := t.TempDir()
	names := []string{"plain", "with blanks ", "*star", `back\slash`, "line\nbreak", "#hash", `\n`, "\xff\xfe", "ünicode"}
	var list []byte
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		list = Append(list, sha256.Sum256([]byte("of "+name)), name)
	}
	check := exec.Command(program, "--check", "--strict", "--quiet")
	check.Dir, check.Stdin = dir, bytes.NewReader(list)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum --check: %v\n%s%s", err, out, list)
	}
	for _, flags := range [][]string{nil, {"--binary"}, {"--tag"}} {
		write := exec.Command(program, append(append(flags, "--"), names...)...)
		write.Dir = dir
		out, err := write.Output()
		if err != nil {
			t.Fatal(err)
		}
		lines, err := scan(t, string(out))
		if err != nil || len(lines) != len(names) {
			t.Fatalf("%q: %d lines, %v", flags, len(lines), err)
		}
		for i, l := range lines {
			if !l.OK || l.Name != names[i] || l.Sum != sha256.Sum256([]byte("of "+names[i])) {
				t.Errorf("%q: %+v, want %q", flags, l, names[i])
			}
		}
	}
}

func FuzzLines(f *testing.F) {
	sum := Sum(sha256.Sum256(nil))
	f.Add(string(Append(nil, sum, "a\\b\nc")))
	f.Add("SHA256 (a) = " + sum.String())
	f.Fuzz(func(t *testing.T, list string) {
		lines, _ := scan(t, list)
		for _, l := range lines {
			if !l.OK || len(l.Name) > MaxLine/4 {
				continue
			}
			again, err := scan(t, string(Append(nil, l.Sum, l.Name)))
			if err != nil || len(again) != 1 || again[0].Name != l.Name || again[0].Sum != l.Sum {
				t.Errorf("%+v is read back as %+v, %v", l, again, err)
			}
		}
	})
}
