package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/opendir"
	"github.com/tensorfs/tensorfs/internal/source"
	"golang.org/x/sys/unix"
)

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
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	made := filepath.Join(dir, "made")
	few := o
	few.Free = func(string) (int64, error) { return 0, nil }
	fails(t, filepath.Join(made, "export"), files, few, "12288 bytes")
	if _, err := os.Stat(made); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory that it made stays: %v", err)
	}
	free++
	must(t, dir, files, o)
	free = 0 // nothing is missing
	must(t, dir, files, o)
	files[0].Path = "c"
	fails(t, dir, files, o, "8192 bytes")
	if _, err := os.Stat(filepath.Join(dir, stateDir, stateName)); err != nil {
		t.Error("the state of the earlier export is gone")
	}
	o.Free = func(string) (int64, error) { return 0, errors.New("unknown") }
	must(t, dir, files, o)
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if n, err := freeBytes(d); err != nil || n <= 0 {
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
		log, rerr := os.ReadFile(filepath.Join(dir, stateDir, logName))
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

// TestBusy lets one export at a time write to a directory.
func TestBusy(t *testing.T) {
	dir := t.TempDir()
	must(t, dir, nil, options())
	f, err := os.Open(filepath.Join(dir, stateDir, logName))
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
		"too long": {append(b, 1), false, 1 << 20, ""}, // it grew during the export: not taken
		"changed":  {b, true, 1 << 20, "changed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, m, o := t.TempDir(), mapped(t, b), options()
			o.Free = func(string) (int64, error) { return test.free, nil }
			clones := 0
			o.clone = func(dir *opendir.Dir, src int, name string) (*os.File, error) {
				clones++
				if src != m.Descriptor() {
					t.Errorf("cloned %d", src)
				}
				f, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
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

// TestLink makes a file another name of the model's own, which is never written to:
// neither its mode nor its time, nor its bytes when a later run may not link.
func TestLink(t *testing.T) {
	none := errors.New("not here")
	b := random(20_000)
	for name, test := range map[string]struct {
		link   bool
		via    bool // the model's path is a symbolic link
		want   bool
		change func(path string) // when the file is to be linked
	}{
		"linked":    {link: true, want: true},
		"through":   {link: true, via: true, want: true},
		"unwanted":  {},
		"replaced":  {link: true, change: func(path string) { rewrite(t, path, b[1:]) }}, // what is open is copied
		"was there": {link: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			m, o := mapped(t, b), options()
			dir := filepath.Join(filepath.Dir(m.Path()), "out")
			if test.via {
				path := filepath.Join(filepath.Dir(m.Path()), "link")
				if err := os.Symlink("source", path); err != nil {
					t.Fatal(err)
				}
				var err error
				if m, err = source.Map(path, "source"); err != nil {
					t.Fatal(err)
				}
				defer m.Close()
			}
			before, err := os.Stat(m.Path())
			if err != nil {
				t.Fatal(err)
			}
			o.clone = func(*opendir.Dir, int, string) (*os.File, error) { return nil, none }
			o.Link = func(os.FileInfo) bool {
				if test.change != nil {
					test.change(m.Path())
				}
				return test.link
			}
			shared := ""
			o.Shared = func(path string, linked bool) { shared = fmt.Sprint(path, linked) }
			if name == "was there" { // what a run that was killed left, where a later one may not link
				if err := errors.Join(os.MkdirAll(filepath.Join(dir, stateDir), 0o700), os.Link(m.Path(), filepath.Join(dir, stateDir, strings.TrimSuffix(partialName("f"), partialSuffix)+linkSuffix))); err != nil {
					t.Fatal(err)
				}
			}
			files := []File{{Path: "f", Data: m}}
			must(t, dir, files, o)
			holds(t, dir, map[string][]byte{"f": b})
			st, err := os.Stat(filepath.Join(dir, "f"))
			after, _ := os.Stat(m.Path())
			if err != nil || os.SameFile(st, before) != test.want || (shared == "ftrue") != test.want {
				t.Errorf("%v, shared %q, %v", st, shared, err)
			}
			if test.change == nil && (after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime())) {
				t.Errorf("%v became %v", before, after)
			}
			o.Link = nil // a copy of the same file beside it
			must(t, dir, append(files, File{Path: "g", Data: m}), o)
			holds(t, dir, map[string][]byte{"f": b, "g": b})
			if g, err := os.Stat(filepath.Join(dir, "g")); err != nil || os.SameFile(g, before) {
				t.Error(g, err)
			}
		})
	}
}

// rewrite puts another file at a path.
func rewrite(t *testing.T, path string, b []byte) {
	if err := errors.Join(os.Remove(path), os.WriteFile(path, b, 0o600)); err != nil {
		t.Error(err)
	}
}
