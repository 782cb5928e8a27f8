package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
	"golang.org/x/sys/unix"
)

var modTime = time.Date(2024, 2, 29, 12, 0, 0, 123456789, time.UTC)

// options are those of most tests: several workers, and small stretches.
func options() Options {
	return Options{Facts: []Fact{{"model", "/m"}, {"--type", "-"}}, ModTime: modTime, Jobs: 3, stretch: 4096}
}

func random(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// reader is Data that can only be read, and counts the bytes.
type reader struct {
	b    []byte
	read *atomic.Int64
}

func newReader(b []byte) reader { return reader{b, new(atomic.Int64)} }

func (r reader) Size() int64 { return int64(len(r.b)) }

func (r reader) ReadAt(p []byte, off int64) (int, error) {
	n, err := tensorfs.Bytes(r.b).ReadAt(p, off)
	r.read.Add(int64(n))
	return n, err
}

// changing is Data whose file is changed by the n-th read.
type changing struct {
	tensorfs.Bytes
	reads *atomic.Int64
	n     int64
}

func (c changing) ReadAt(p []byte, off int64) (int, error) {
	c.reads.Add(1)
	return c.Bytes.ReadAt(p, off)
}

func (c changing) Slices(dst [][]byte, off, n int64) ([][]byte, error) {
	c.reads.Add(1)
	return c.Bytes.Slices(dst, off, n)
}

func (c changing) Check() error {
	if c.reads.Load() >= c.n {
		return &tensorfs.ChangedError{File: "/m"}
	}
	return nil
}

// mapped is a file of this machine as Data.
func mapped(t *testing.T, b []byte) *source.Mapped {
	t.Helper()
	path := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(path, b, 0o400); err != nil {
		t.Fatal(err)
	}
	m, err := source.Map(path, "source")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// must runs an export that has to succeed.
func must(t *testing.T, dir string, files []File, o Options) Report {
	t.Helper()
	r, err := Run(t.Context(), dir, files, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fails runs one that must not, and returns the error.
func fails(t *testing.T, dir string, files []File, o Options, parts ...string) error {
	t.Helper()
	_, err := Run(t.Context(), dir, files, o)
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q, want one line with %q", err, p)
		}
	}
	return err
}

// holds checks that exactly these files are in a directory.
func holds(t *testing.T, dir string, want map[string][]byte) {
	t.Helper()
	got := map[string]bool{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		if err != nil || d.IsDir() || strings.HasPrefix(rel, stateDir) {
			return err
		}
		got[rel] = true
		b, err := os.ReadFile(p)
		if w, ok := want[rel]; !ok || !bytes.Equal(b, w) {
			t.Errorf("%s has %d bytes, %v; want %d", rel, len(b), err, len(w))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if !got[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

func partials(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, stateDir, "*"+partialSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestEveryKindOfData writes what Data there is, of sizes around the limits of
// stretches, and writes nothing when all of it is there.
func TestEveryKindOfData(t *testing.T) {
	for _, jobs := range []int{1, 3} {
		t.Run(fmt.Sprint(jobs), func(t *testing.T) {
			var files []File
			want := map[string][]byte{}
			add := func(name string, b []byte, d tensorfs.Data) {
				files = append(files, File{Path: name, Data: d})
				want[name] = b
			}
			for _, n := range []int{0, 1, 4095, 4096, 4097, 8192, 100_000} {
				b := random(n)
				add(fmt.Sprintf("plain/%d", n), b, tensorfs.Bytes(b))
				add(fmt.Sprintf("read/deep/%d", n), b, newReader(b))
				add(fmt.Sprintf("text%d", n), b, tensorfs.NewText(3, func(dst []byte, i int) []byte { return append(dst, b[i*n/3:(i+1)*n/3]...) }))
				if n == 0 {
					continue
				}
				m := mapped(t, b)
				add(fmt.Sprintf("stored/%d", n), b, m)
				add(fmt.Sprintf("stored/%d.part", n), b[n/3:], m.Section(int64(n/3), int64(n-n/3)))
				many := make([]byte, 0, 2*n) // runs of a byte
				for _, c := range b {
					many = append(many, c, c)
				}
				add(fmt.Sprintf("joined/%d", n), many, tensorfs.Interleave(int64(n), m, m.Section(0, int64(n))))
			}
			dir := filepath.Join(t.TempDir(), "made", "here")
			o := options()
			o.Jobs = jobs
			var total, done atomic.Int64
			o.Progress = func(n int64) func(int64) { total.Store(n); return func(n int64) { done.Add(n) } }
			r := must(t, dir, files, o)
			holds(t, dir, want)
			size := int64(0)
			for _, b := range want {
				size += int64(len(b))
			}
			if r != (Report{Files: len(files), Bytes: size, Written: len(files)}) || done.Load() != total.Load() {
				t.Errorf("%+v of %d files with %d bytes; %d of %d bytes announced", r, len(files), size, done.Load(), total.Load())
			}
			for name := range want {
				st, err := os.Stat(filepath.Join(dir, name))
				if err != nil || st.Mode() != 0o644 || !st.ModTime().Equal(modTime) {
					t.Errorf("%s: %v, %v, %v", name, st.Mode(), st.ModTime(), err)
				}
			}
			if p := partials(t, dir); len(p) > 0 {
				t.Errorf("left over: %q", p)
			}
			for i := range files { // they are not even read
				files[i].Data = unreadable{files[i].Data}
			}
			if r := must(t, dir, files, o); r != (Report{Files: len(files), Bytes: size}) {
				t.Errorf("again: %+v", r)
			}
		})
	}
}

// unreadable is Data that has a size and no bytes.
type unreadable struct{ d tensorfs.Data }

func (u unreadable) Size() int64                       { return u.d.Size() }
func (u unreadable) ReadAt([]byte, int64) (int, error) { return 0, errors.New("read") }

// TestLast holds that the last file is there only while all others are.
func TestLast(t *testing.T) {
	dir := t.TempDir()
	a, index := File{Path: "a", Data: tensorfs.Bytes("a")}, File{Path: "index", Data: tensorfs.Bytes("index"), Last: true}
	broken := File{Path: "b", Data: unreadable{tensorfs.Bytes("b")}}
	fails(t, dir, []File{index, a, broken}, options(), "read")
	if _, err := os.Stat(filepath.Join(dir, "index")); err == nil {
		t.Error("the last file was written before others")
	}
	must(t, dir, []File{index, a}, options())
	holds(t, dir, map[string][]byte{"a": []byte("a"), "index": []byte("index")})
	fails(t, dir, []File{index, a, broken}, options(), "read")
	holds(t, dir, map[string][]byte{"a": []byte("a")})
	broken.Data = tensorfs.Bytes("b")
	if r := must(t, dir, []File{index, a, broken}, options()); r.Written != 2 {
		t.Errorf("%+v", r)
	}
	holds(t, dir, map[string][]byte{"a": []byte("a"), "b": []byte("b"), "index": []byte("index")})
}

// TestNoSpace compares what is missing with what is free, before anything is written.
func TestNoSpace(t *testing.T) {
	dir := t.TempDir()
	o := options()
	free := int64(3*block - 1)
	o.Free = func(d string) (int64, error) {
		if d != dir {
			t.Errorf("asked for %s", d)
		}
		return free, nil
	}
	files := []File{{Path: "a", Data: tensorfs.Bytes(random(block + 1))}, {Path: "b", Data: tensorfs.Bytes("b")}}
	err := fails(t, dir, files, o, dir, "12288 bytes", "12287 bytes", "choose another directory")
	if e, ok := errors.AsType[*NoSpaceError](err); !ok || e.Need != 3*block || e.Free != free {
		t.Errorf("%#v", err)
	}
	holds(t, dir, nil)
	free++
	must(t, dir, files, o)
	free = 0 // nothing is missing
	must(t, dir, files, o)
	files[0].Path = "c"
	fails(t, dir, files, o, "8192 bytes")
	o.Free = func(string) (int64, error) { return 0, errors.New("unknown") }
	must(t, dir, files, o)
	if n, err := freeBytes(dir); err != nil || n <= 0 {
		t.Errorf("%d bytes are free, %v", n, err)
	}
}

// TestChanged holds that no file gets its name once the model has changed.
func TestChanged(t *testing.T) {
	for n := range int64(9) {
		dir := t.TempDir()
		b := random(20_000)
		files := []File{{Path: "f", Data: changing{b, new(atomic.Int64), n}}, {Path: "index", Data: tensorfs.Bytes("i"), Last: true}}
		o := options()
		o.Jobs = 1
		_, err := Run(t.Context(), dir, files, o)
		log, rerr := os.ReadFile(filepath.Join(dir, logName))
		if got := strings.Count(string(log), recordStretch); rerr != nil || got != int(max(min(n-1, 5), 0)) {
			t.Errorf("changed by read %d: %d stretches are recorded, %v", n, got, rerr)
		}
		if n <= 5 {
			if !errors.Is(err, tensorfs.ErrChanged) {
				t.Errorf("changed by read %d: %v", n, err)
			}
			holds(t, dir, nil)
		} else if err != nil {
			t.Error(err)
		}
	}
	// What has no file of its own is the whole model's.
	dir, o, calls := t.TempDir(), options(), 0
	o.Check = func() error { calls++; return &tensorfs.ChangedError{File: "/m"} }
	if err := fails(t, dir, []File{{Path: "f", Data: tensorfs.Bytes("f")}}, o, "/m"); !errors.Is(err, tensorfs.ErrChanged) || calls == 0 {
		t.Error(err)
	}
	holds(t, dir, nil)
}

// TestTruncated maps a file that is shorter by the time it is written.
func TestTruncated(t *testing.T) {
	for _, whole := range []bool{true, false} {
		m := mapped(t, random(64<<10))
		d := m.Section(5, 60<<10)
		if whole {
			d = m
		}
		if err := os.Truncate(m.Path(), 8<<10); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := fails(t, dir, []File{{Path: "f", Data: d}}, options()); !errors.Is(err, tensorfs.ErrChanged) {
			t.Error(err)
		}
		holds(t, dir, nil)
	}
}

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
				if err := os.WriteFile(filepath.Join(dir, stateName), []byte("{"), 0o600); err != nil {
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
	// A complete file that somebody changed afterwards is not complete.
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
	if err := os.Remove(filepath.Join(dir, stateName)); err != nil {
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
	for _, name := range []string{"", ".", "..", "../x", "/x", "a/../b", "a/../../x", "a//b", "a/", "./a", "a\x00b", stateName, ".Tensorfs-Export/x"} {
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
	if err := os.Symlink(victim, filepath.Join(dir, partialName("y"))); err != nil {
		t.Fatal(err)
	}
	fails(t, dir, file("y"), o)
	holds(t, outside, map[string][]byte{"victim": []byte("old")})
}

// TestBusy lets one export at a time write to a directory.
func TestBusy(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, nil, options())
	f, err := os.Open(filepath.Join(dir, logName))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := fails(t, dir, nil, options(), dir); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	f.Close()
	must(t, dir, nil, options())
}

// TestCancel ends an export early, and goes on with it.
func TestCancel(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	b := random(100_000)
	o := options()
	o.Jobs = 1
	seen := int64(0)
	o.Progress = func(int64) func(int64) {
		return func(n int64) {
			if seen += n; seen >= 50_000 {
				cancel()
			}
		}
	}
	if _, err := Run(ctx, dir, []File{{Path: "f", Data: tensorfs.Bytes(b)}}, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	holds(t, dir, nil)
	o.Progress = nil
	r := newReader(b)
	must(t, dir, []File{{Path: "f", Data: r}}, o)
	holds(t, dir, map[string][]byte{"f": b})
	if got := r.read.Load(); got == 0 || got > 60_000 {
		t.Errorf("%d bytes were read again", got)
	}
	if slices.Contains(partials(t, dir), partialName("f")) {
		t.Error("a partial file is left over")
	}
}

// TestClone takes a file system at its word that can clone, and gives space for
// no clone.
func TestClone(t *testing.T) {
	b := random(20_000)
	for name, test := range map[string]struct {
		cloned []byte // what the file system makes
		change bool
		free   int64
		want   string
	}{
		"cloned":   {b, false, 0, ""},
		"too long": {append(b, 1), false, 1 << 20, ""}, // it grew meanwhile: not taken
		"changed":  {b, true, 1 << 20, "changed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, m, o := t.TempDir(), mapped(t, b), options()
			o.Free = func(string) (int64, error) { return test.free, nil }
			clones := 0
			o.clone = func(root *os.Root, src int, name string) (*os.File, error) {
				clones++
				if src != m.Descriptor() {
					t.Errorf("cloned %d", src)
				}
				f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
				if err == nil {
					_, err = f.Write(test.cloned)
				}
				if test.change {
					err = errors.Join(err, os.Truncate(m.Path(), 10))
				}
				return f, err
			}
			files := []File{{Path: "d/f", Data: m}, {Path: "index", Data: tensorfs.Bytes(""), Last: true}}
			if test.want != "" {
				fails(t, dir, files, o, test.want)
				holds(t, dir, nil)
				return
			}
			if r := must(t, dir, files, o); r.Written != 2 || clones != 1 {
				t.Errorf("%+v, %d clones", r, clones)
			}
			holds(t, dir, map[string][]byte{"d/f": b, "index": {}})
			if st, err := os.Stat(filepath.Join(dir, "d/f")); err != nil || st.Mode() != 0o644 || !st.ModTime().Equal(modTime) {
				t.Error(st, err)
			}
		})
	}
}
