package testpack

import (
	"bytes"
	"compress/gzip"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNumbers holds the generators to what numpy 2.4.6 and std::mt19937 give.
func TestNumbers(t *testing.T) {
	got := NewNormals(0).First(5)
	if want := []float64{0.1257302210933933, -0.1321048632913019, 0.6404226504432821, 0.10490011715303971, -0.535669373161111}; !slices.Equal(got, want) {
		t.Errorf("seed 0: %v", got)
	}
	if got := NewNormals(1 << 40).First(1_000_000); got[999_999] != 1.2276262859825806 {
		t.Errorf("number 999,999 of seed 2^40: %v", got[999_999])
	}
	if got := NewIntegers(5489).First(10_000); got[0] != 3499211612 || got[9_999] != 4123659995 {
		t.Errorf("seed 5489: %d, %d", got[0], got[9_999])
	}
}

// TestFloats rounds each half, and what lies between two of them.
func TestFloats(t *testing.T) {
	for bits := range 0x7c00 {
		half := []byte{byte(bits), byte(bits >> 8)}
		wide := Widen(half, "F16")
		x := float32FromBytes(wide)
		for _, near := range []float32{x, math.Nextafter32(x, 100), -x} {
			want := slices.Clone(half)
			if math.Signbit(float64(near)) {
				want[1] |= 0x80
			}
			if got := AppendFloat(nil, "F16", near); !bytes.Equal(got, want) {
				t.Fatalf("%v: %x, want %x", near, got, want)
			}
		}
	}
	// The middle of two goes to the even one.
	if got := AppendFloat(AppendFloat(nil, "F16", 1+1.0/2048), "F16", 1+3.0/2048); !bytes.Equal(got, []byte{0, 0x3c, 2, 0x3c}) {
		t.Errorf("%x", got)
	}
	if got := AppendFloat(AppendFloat(nil, "BF16", 1+1.0/256), "BF16", 1+3.0/256); !bytes.Equal(got, []byte{0x80, 0x3f, 0x82, 0x3f}) {
		t.Errorf("%x", got)
	}
}

func float32FromBytes(b []byte) float32 {
	return math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
}

func TestPlanes(t *testing.T) {
	if got := Planes([]byte("a1b2c3"), 2); string(got) != "abc123" || string(Interleave(got, 2)) != "a1b2c3" {
		t.Errorf("%q", got)
	}
}

// TestMakeAll makes files, does not touch them again, and follows a changed list.
func TestMakeAll(t *testing.T) {
	dir := t.TempDir()
	put := func(name, recipe string) {
		t.Helper()
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		w.Write([]byte(recipe))
		w.Close()
		must(t, write(filepath.Join(dir, "packed", name+".pack"), z.Bytes()))
	}
	text := func(lines ...string) {
		must(t, write(filepath.Join(dir, list), []byte(strings.Join(lines, "\n")+"\n")))
	}
	put("a/x.bin", "stored 4 2\ninteger F32 2 5489 0 4 -0.5 0.25\nnormal BF16 1 0 0 1 0.5\n\nacbd")
	put("b.bin", "copy a/x.bin 2 2 raw\ncopy a/x.bin 12 2 BF16\n\n")
	first := "abcd" + "\x00\x00\x00\xbf" + "\x00\x00\x00\x00" + "\x88\x3f" // levels 0 and 2; 1.0628651
	second := "cd" + "\x00\x00\x88\x3f"
	text(sum([]byte(first))+"  a/x.bin", sum([]byte(second))+"  b.bin")
	must(t, MakeAll(dir))
	for name, want := range map[string]string{"a/x.bin": first, "b.bin": second} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v, want %q", name, b, err, want)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "a/x.bin"), []byte("changed"), 0o600))
	must(t, MakeAll(dir))
	if b, _ := os.ReadFile(filepath.Join(dir, "a/x.bin")); string(b) != "changed" {
		t.Error("a file was made again without a reason")
	}
	must(t, os.Remove(filepath.Join(dir, "b.bin"))) // as git does
	must(t, MakeAll(dir))
	if b, _ := os.ReadFile(filepath.Join(dir, "b.bin")); string(b) != second {
		t.Errorf("a removed file is %q", b)
	}
	text(sum([]byte(first)) + "  a/x.bin")
	must(t, MakeAll(dir))
	if b, _ := os.ReadFile(filepath.Join(dir, "a/x.bin")); string(b) != first {
		t.Errorf("a new list leaves %q", b)
	}
	if _, err := os.Stat(filepath.Join(dir, "b.bin")); err == nil {
		t.Error("a file stays that the list does not name any more")
	}
	text(sum(nil) + "  a/x.bin")
	if err := MakeAll(dir); err == nil || !strings.Contains(err.Error(), "a/x.bin: its recipe gives other bytes") {
		t.Error(err)
	}
}

// TestPacked holds the list, the recipes and what git ignores to each other.
func TestPacked(t *testing.T) {
	dir, ok := Testdata()
	if !ok {
		t.Fatal("there is no testdata")
	}
	files, err := List(dir)
	must(t, err)
	names := slices.Sorted(maps.Keys(files))
	ignored, err := os.ReadFile(filepath.Join(dir, ".gitignore"))
	must(t, err)
	if want := "/packed/made.txt\n/" + strings.Join(names, "\n/") + "\n"; string(ignored) != want {
		t.Error("testdata/.gitignore does not name the files of the list")
	}
	var packs []string
	must(t, filepath.WalkDir(filepath.Join(dir, "packed"), func(path string, d os.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(path, ".pack"); ok {
			rel, err := filepath.Rel(filepath.Join(dir, "packed"), name)
			must(t, err)
			packs = append(packs, filepath.ToSlash(rel))
		}
		return err
	}))
	slices.Sort(packs)
	if !slices.Equal(packs, names) {
		t.Errorf("%d recipes, and %d files in the list", len(packs), len(names))
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || sum(b) != files[name] {
			t.Errorf("%s is not what its recipe gives: %v", name, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
