package export

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// TestOther refuses a directory of something else, and with force empties it of
// what is still as it was written.
func TestOther(t *testing.T) {
	for name, test := range map[string]struct {
		facts []Fact
		want  string
	}{
		"model":   {[]Fact{{"model", "/n"}, {"--type", "-"}}, "its model is /m, not /n"},
		"option":  {[]Fact{{"model", "/m"}, {"--type", "q8"}}, "its --type is -, not q8"},
		"fewer":   {[]Fact{{"model", "/m"}}, "its --type is -, not nothing"},
		"more":    {[]Fact{{"model", "/m"}, {"--type", "-"}, {"file x", "1"}}, "its file x is nothing, not 1"},
		"damaged": {nil, "its state cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			old := []File{{Path: "d/a", Data: tensorfs.Bytes("a")}, {Path: "d/b", Data: tensorfs.Bytes("b")}, {Path: "c", Data: tensorfs.Bytes("c")}}
			must(t, dir, old, options())
			o := options()
			if name == "damaged" {
				if err := os.WriteFile(filepath.Join(dir, stateDir, stateName), []byte("{"), 0o600); err != nil {
					t.Fatal(err)
				}
			} else {
				o.Facts = test.facts
			}
			for path, text := range map[string]string{"mine": "mine", "d/b": "changed"} {
				if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			fresh := []File{{Path: "c", Data: tensorfs.Bytes("C")}, {Path: "new", Data: tensorfs.Bytes("n")}}
			if err := fails(t, dir, fresh, o, dir, test.want); !errors.Is(err, ErrOther) {
				t.Error(err)
			}
			holds(t, dir, map[string][]byte{"d/a": []byte("a"), "d/b": []byte("changed"), "c": []byte("c"), "mine": []byte("mine")})
			o.Force = true
			must(t, dir, fresh, o)
			holds(t, dir, map[string][]byte{"d/b": []byte("changed"), "c": []byte("C"), "new": []byte("n"), "mine": []byte("mine")})
			o.Force = false
			if r := must(t, dir, fresh, o); r.Written != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestExists meets files that are there already.
func TestExists(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a", "same")
	write("b", "else")
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	same, other := File{Path: "a", Data: tensorfs.Bytes("same")}, File{Path: "b", Data: tensorfs.Bytes("mine")}
	if r := must(t, dir, []File{same}, options()); r != (Report{Files: 1, Bytes: 4}) {
		t.Errorf("equal content: %+v", r)
	}
	if err := fails(t, dir, []File{same, other}, options(), filepath.Join(dir, "b"), "with other content"); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	fails(t, dir, []File{{Path: "dir", Data: tensorfs.Bytes("x")}}, options(), "a directory of this name")
	fails(t, dir, []File{{Path: "a/x", Data: tensorfs.Bytes("x")}}, options(), "not a directory")
	o := options()
	o.Force = true
	fails(t, dir, []File{{Path: "dir", Data: tensorfs.Bytes("x")}}, o, "a directory of this name")
	st, err := os.Stat(filepath.Join(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	o.Never = []os.FileInfo{st}
	fails(t, dir, []File{other}, o, "a file of the model itself")
	o.Never = nil
	if r := must(t, dir, []File{same, other}, o); r.Written != 1 {
		t.Errorf("%+v", r)
	}
	holds(t, dir, map[string][]byte{"a": []byte("same"), "b": []byte("mine")})
	// A file that was complete and then changed counts as incomplete.
	write("b", "MINE")
	fails(t, dir, []File{same, other}, options(), "with other content")
	st, err = os.Stat(filepath.Join(dir, "a"))
	if err := errors.Join(err, os.Truncate(filepath.Join(dir, "a"), 1), os.Chtimes(filepath.Join(dir, "a"), st.ModTime(), st.ModTime())); err != nil {
		t.Fatal(err)
	}
	fails(t, dir, []File{same}, options(), "with other content")
	write("a", "same")
	// Without the state all is compared, and nothing is lost.
	if err := os.RemoveAll(filepath.Join(dir, stateDir)); err != nil {
		t.Fatal(err)
	}
	write("b", "mine")
	if r := must(t, dir, []File{same, other}, options()); r.Written != 0 {
		t.Errorf("%+v", r)
	}
	if err := os.Remove(filepath.Join(dir, stateDir, stateName)); err != nil {
		t.Fatal(err)
	}
	o = options()
	o.Facts = nil
	for range 2 { // nothing is known of the file now, and later neither
		fails(t, dir, []File{{Path: "b", Data: tensorfs.Bytes("MINE")}}, o, "with other content")
	}
	if r := must(t, dir, []File{same, other}, o); r.Written != 0 {
		t.Errorf("%+v", r)
	}
}

// TestNames refuses paths that could leave the directory or meet, and accepts
// names of any bytes.
func TestNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../x", "/x", "a/../b", "a/../../x", "a//b", "a/", "./a", "a\x00b", stateDir + "/" + stateName, ".Tensorfs-Export/x"} {
		dir := t.TempDir()
		fails(t, filepath.Join(dir, "d"), []File{{Path: name, Data: tensorfs.Bytes("x")}}, options())
		holds(t, dir, nil)
	}
	fails(t, t.TempDir(), []File{{Path: "x", Data: tensorfs.Bytes("x")}, {Path: "x", Data: tensorfs.Bytes("y")}}, options(), "two files")
	if a, b := sameFolded([]File{{Path: "d/x"}, {Path: "d/y"}, {Path: "D/X"}}); a != "d/x" || b != "D/X" {
		t.Errorf("%q and %q are the same", a, b)
	}
	if a, _ := sameFolded([]File{{Path: "x"}, {Path: "y"}}); a != "" {
		t.Error(a)
	}
	dir := t.TempDir()
	var files []File
	want := map[string][]byte{}
	for _, name := range []string{"..a", "...", "-rf", "a\nb", "\x1b[31m", "\xff\xfe", `"quoted"`, `"unclosed`, strings.Repeat("n", 255), ".x.partial", "\ufffd"} {
		files = append(files, File{Path: "v/" + name, Data: tensorfs.Bytes(name)})
		want["v/"+name] = []byte(name)
	}
	must(t, dir, files, options())
	holds(t, dir, want)
	for i := range files {
		files[i].Data = unreadable{files[i].Data}
	}
	must(t, dir, files, options())
}

// TestSymbolicLinks holds that links in the directory lead nothing astray.
func TestSymbolicLinks(t *testing.T) {
	outside := t.TempDir()
	file := func(path string) []File { return []File{{Path: path, Data: tensorfs.Bytes("new")}} }
	for _, target := range []string{outside, "real", ".."} {
		for _, force := range []bool{false, true} {
			dir := t.TempDir()
			if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o755), os.Symlink(target, filepath.Join(dir, "f16"))); err != nil {
				t.Fatal(err)
			}
			o := options()
			o.Force = force
			fails(t, dir, file("f16/x"), o, "is not a directory")
			if err := os.Rename(filepath.Join(dir, "f16"), filepath.Join(dir, stateDir+".old")); err != nil {
				t.Fatal(err)
			}
			must(t, dir, file("f16/x"), o)
			other := t.TempDir()
			if err := os.Symlink(outside, filepath.Join(other, stateDir)); err != nil {
				t.Fatal(err)
			}
			fails(t, other, file("x"), o, "is not a directory")
		}
	}
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(victim, filepath.Join(dir, "x")); err != nil {
		t.Fatal(err)
	}
	fails(t, dir, file("x"), options(), "with other content")
	o := options()
	o.Force = true
	must(t, dir, file("x"), o) // the link is replaced, not what it leads to
	if st, err := os.Lstat(filepath.Join(dir, "x")); err != nil || !st.Mode().IsRegular() {
		t.Error(st, err)
	}
	// Neither do the names of files that are being written lead anywhere.
	if err := os.Symlink(victim, filepath.Join(dir, stateDir, partialName("y"))); err != nil {
		t.Fatal(err)
	}
	fails(t, dir, file("y"), o)
	holds(t, outside, map[string][]byte{"victim": []byte("old")})
}
