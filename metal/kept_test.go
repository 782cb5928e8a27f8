package metal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/cache"
)

// counting is a tree that counts the tensors whose bytes were asked for.
type counting struct {
	*tree
	opened atomic.Int64
}

func (c *counting) Tensor(ref Ref) (tensorfs.Tensor, error) {
	t, err := c.tree.Tensor(ref)
	if err == nil {
		t.Data = counted{t.Data, c}
	}
	return t, err
}

// counted is Data whose reads are counted.
type counted struct {
	tensorfs.Data
	by *counting
}

func (c counted) Extents() []tensorfs.Extent { return tensorfs.Extents(c.Data) }

func (c counted) ReadAt(p []byte, off int64) (int, error) {
	c.by.opened.Add(1)
	return c.Data.ReadAt(p, off)
}

// countingTree opens a model as such a tree. It is closed when the test ends.
func countingTree(t testing.TB, model string, o Options) *counting {
	t.Helper()
	m, err := models.Open(model, o.modelOptions())
	if err != nil {
		t.Fatal(err)
	}
	c := &counting{tree: newTree(m, o)}
	t.Cleanup(func() { c.Close() })
	return c
}

// refs are the tensors of some views.
func (t *tree) refs(of ...string) (refs []Ref) {
	for _, v := range of {
		for _, n := range t.Names(v) {
			refs = append(refs, Ref{View: v, Name: n})
		}
	}
	return refs
}

// extents are a tensor's extents.
func (t *tree) extents(tb testing.TB, ref Ref) []extent {
	tb.Helper()
	x, err := t.Tensor(ref)
	if err != nil {
		tb.Fatal(err)
	}
	return t.Extents(ref, &x)
}

// cached returns the bytes that the cache has of a tensor, nil without any.
func cached(t testing.TB, x *tree, ref Ref) []byte {
	t.Helper()
	y, err := x.Tensor(ref)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range x.Extents(ref, &y) {
		if e.Origin != OriginCache {
			continue
		}
		f, err := e.File.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b, err := io.ReadAll(io.NewSectionReader(f, e.Offset, y.Data.Size()))
		if err != nil || int64(len(b)) != y.Data.Size() || e.File.Size() != y.Data.Size() || e.File.Name() == "" {
			t.Fatal(e, err)
		}
		return b
	}
	return nil
}

// holds compares what the cache has with the views; have are the tensors that it
// must have.
func holds(t testing.TB, x *tree, want built, have []Ref) {
	t.Helper()
	for _, ref := range have {
		switch b := cached(t, x, ref); {
		case b == nil && want[ref].Data.Size() > 0:
			t.Errorf("%s is not in the cache", ref)
		case !bytes.Equal(b, want.bytes(t, ref)):
			t.Errorf("%s: the cache has other bytes than the view", ref)
		}
	}
}

const (
	bf16Model = testdata + "/gguf/llama-xs.bf16.gguf"
	q4Model   = testdata + "/gguf/llama-xs.q4_k_m.gguf"
	mlxModel  = testdata + "/models-mlx/qwen3-mixed"
)

// TestCache keeps what is converted, and converts nothing the second time.
func TestCache(t *testing.T) {
	for _, model := range []string{bf16Model, q4Model, mlxModel, testdata + "/whole-gguf/qwen3moe"} {
		t.Run(filepath.Base(model), func(t *testing.T) {
			o := options(t)
			want := build(t, model)
			for i, mode := range []CacheMode{CacheRead, CacheReadWrite, CacheRead, CacheReadWrite} {
				x := countingTree(t, model, o)
				l, err := newLoader(x, o)
				if err != nil {
					t.Fatal(err)
				}
				refs := all(l)
				last, totals := int64(-1), map[int64]bool{}
				set, err := l.Load(t.Context(), refs, LoadOptions{Cache: mode, Progress: func(done, total int64) error {
					if done < last || done > total {
						t.Errorf("%d after %d, of %d", done, last, total)
					}
					last, totals[total] = done, true
					return nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				want.same(t, set, refs)
				origins := map[Origin]int{}
				for _, ref := range refs {
					b, _ := set.Buffer(ref)
					if b.Size > 0 {
						origins[b.Origin]++
					}
				}
				wantMemory := i == 0
				if (origins[OriginMemory] > 0) != wantMemory || (origins[OriginCache] > 0) == wantMemory {
					t.Errorf("load %d: %v", i, origins)
				}
				if n := x.opened.Load(); i > 1 && n > 0 {
					t.Errorf("load %d: %d tensors were converted", i, n)
				}
				if err := errors.Join(set.Release(), l.Close()); err != nil {
					t.Fatal(err)
				}
			}
			// The cache is an exported tree.
			x := countingTree(t, model, o)
			cached(t, x.tree, Ref{View: "f16", Name: x.Names("f16")[0]})
			l, err := Open(x.kept.model.Dir(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			n := 0
			for _, ref := range listed(t, x.kept.model.Dir()) {
				b, err := l.Tensor(ref.View, ref.Name)
				if err != nil {
					t.Fatal(err)
				}
				info, err := l.Info(ref.View, ref.Name)
				if err != nil || info.DType != want[ref].DType || !bytes.Equal(b.Contents, want.bytes(t, ref)) {
					t.Errorf("%s: %+v, %v", ref, info, err)
				}
				n++
				if err := b.Release(); err != nil {
					t.Error(err)
				}
			}
			if a, b := config.JSON(l.Model()), config.JSON(x.model); n == 0 || !bytes.Equal(a, b) {
				t.Errorf("%d tensors, config %s, not %s", n, a, b)
			}
		})
	}
}

// TestCacheGrows adds to what is there, in the same and in another view, and lists
// all in index.json.
func TestCacheGrows(t *testing.T) {
	o := options(t)
	want := build(t, bf16Model)
	x := countingTree(t, bf16Model, o)
	f16, npy := x.refs("f16"), x.refs("npy")
	for _, refs := range [][]Ref{f16[:3], f16[2:5], npy[:2], f16} {
		total := int64(0)
		if err := x.Prepare(t.Context(), refs, 2, func(done, n int64) error { total = n; return nil }); err != nil {
			t.Fatal(err)
		}
		holds(t, x.tree, want, refs)
		if err := x.Prepare(t.Context(), refs, 2, func(int64, int64) error { return errors.New("something is written again") }); err != nil || total == 0 {
			t.Error(err, total)
		}
	}
	if got := listed(t, x.kept.model.Dir()); !slices.Equal(got, append(slices.Clone(f16), npy[:2]...)) {
		t.Errorf("index.json has %v", got)
	}
	if err := x.Prepare(t.Context(), []Ref{{View: "f16", Name: "nothing"}}, 0, nil); !errors.Is(err, ErrAbsent) {
		t.Error(err)
	}
}

// TestCacheDamaged uses no damaged entry, and writes it again.
func TestCacheDamaged(t *testing.T) {
	want := build(t, bf16Model)
	write := func(path string, off int64) error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte{0xff, 0xfe}, off)
		return errors.Join(err, f.Close())
	}
	sums := func(dir, path string) string { return filepath.Join(dir, ".sums", strings.TrimPrefix(path, dir)) }
	for name, damage := range map[string]func(dir, path string) error{
		"truncated":   func(_, path string) error { return os.Truncate(path, 10) },
		"empty":       func(_, path string) error { return os.Truncate(path, 0) },
		"longer":      func(_, path string) error { return write(path, 1<<20) },
		"overwritten": func(_, path string) error { return write(path, 100) },
		"gone":        func(_, path string) error { return os.Remove(path) },
		"a flipped bit": func(_, path string) error { // as a disk does it: the time stays
			st, err := os.Stat(path)
			if err != nil {
				return err
			}
			return errors.Join(write(path, 100), os.Chtimes(path, st.ModTime(), st.ModTime()))
		},
		"a flipped bit of the sums": func(dir, path string) error { return write(sums(dir, path), 1) },
		"sums truncated":            func(dir, path string) error { return os.Truncate(sums(dir, path), 2) },
		"no sums":                   func(dir, _ string) error { return os.RemoveAll(filepath.Join(dir, ".sums")) }, // as older versions left it
		"a link": func(_, path string) error {
			return errors.Join(os.Rename(path, path+".moved"), os.Symlink(filepath.Base(path)+".moved", path))
		},
		"of another model": func(dir, path string) error {
			return os.WriteFile(filepath.Join(dir, "../model.json"), []byte(`{"version":1,"identity":"another"}`), 0o600)
		},
		"no log": func(dir, path string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, ".tensorfs-export")), write(path, 100))
		},
		"bad state": func(dir, path string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, ".tensorfs-export/state.json"), []byte("{"), 0o600), write(path, 100))
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			x := countingTree(t, bf16Model, o)
			refs := x.refs("f16")[:4]
			if err := x.Prepare(t.Context(), refs, 0, nil); err != nil {
				t.Fatal(err)
			}
			holds(t, x.tree, want, refs)
			dir := x.kept.model.Dir()
			extents := x.extents(t, refs[0])
			if err := damage(dir, filepath.Join(dir, refs[0].String())); err != nil {
				t.Fatal(err)
			}
			if name != "of another model" && !strings.Contains(name, "sums") { // which are looked at once
				if _, err := extents[len(extents)-1].File.Open(); err == nil || strings.Contains(err.Error(), "\n") {
					t.Errorf("the damaged file was opened: %v", err)
				}
			}
			x.Close()
			var log bytes.Buffer
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			x = countingTree(t, bf16Model, o)
			if b := cached(t, x.tree, refs[0]); b != nil {
				t.Errorf("%d bytes of a damaged file", len(b))
			}
			if err := x.Prepare(t.Context(), refs, 0, nil); err != nil {
				t.Fatal(err)
			}
			holds(t, x.tree, want, refs)
			if n := strings.Count(log.String(), "is converted again"); n == 0 && (strings.Contains(name, "sums") || name == "a flipped bit") {
				t.Errorf("the log says %q", log.String())
			}
		})
	}
}

// TestReplaced opens another model at the same path, and one that was written to.
func TestReplaced(t *testing.T) {
	o := options(t)
	path := copyModel(t, bf16Model)
	first := countingTree(t, path, o)
	refs := first.refs("f16")
	if err := first.Prepare(t.Context(), refs, 0, nil); err != nil {
		t.Fatal(err)
	}
	// A copy with other numbers, of the same size and mtime.
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(b) / 2; i < len(b); i += 2 {
		b[i]++
	}
	if err := errors.Join(os.WriteFile(path+".new", b, 0o644), os.Chtimes(path+".new", st.ModTime(), st.ModTime()), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
	holds(t, first.tree, build(t, bf16Model), refs) // it has the old one open
	extents := first.extents(t, Ref{"raw", first.Names("raw")[0]})
	if len(extents) != 1 || extents[0].Origin != OriginModel {
		t.Fatal(extents)
	}
	f, err := extents[0].File.Open()
	if err != nil {
		t.Fatal(err)
	}
	if old, err := os.ReadFile(bf16Model); err != nil {
		t.Error(err)
	} else if got, err := io.ReadAll(io.NewSectionReader(f, 0, extents[0].File.Size())); err != nil || !bytes.Equal(got, old) {
		t.Error("the descriptor is of another file than the model's", err)
	}
	f.Close()
	second := countingTree(t, path, o)
	want := build(t, path)
	for _, ref := range refs {
		if cached(t, second.tree, ref) != nil {
			t.Fatalf("%s of the old model", ref)
		}
	}
	if err := second.Prepare(t.Context(), refs, 0, nil); err != nil {
		t.Fatal(err)
	}
	holds(t, second.tree, want, refs)
	// Written in place.
	if err := errors.Join(os.WriteFile(path, b[:len(b)-1], 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := second.Prepare(t.Context(), second.refs("f32"), 0, nil); !errors.Is(err, tensorfs.ErrChanged) {
		t.Errorf("the model changed: %v", err)
	}
	_, err = second.extents(t, Ref{"raw", second.Names("raw")[0]})[0].File.Open()
	if !errors.Is(err, tensorfs.ErrChanged) {
		t.Errorf("the model changed: %v", err)
	}
}

// TestImage opens a model at the path of an earlier one with the same size, inode and mtime, as
// reproducibly made images have.
func TestImage(t *testing.T) {
	o := options(t)
	path := copyModel(t, bf16Model)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		for k := len(b) / 2; k < len(b); k += 2 {
			b[k] += byte(i)
		}
		if err := errors.Join(os.WriteFile(path, b, 0o644), os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0))); err != nil {
			t.Fatal(err)
		}
		x := countingTree(t, path, o)
		refs := x.refs("f16")
		if cached(t, x.tree, refs[0]) != nil {
			t.Error("the cache has tensors of another model")
		}
		if err := x.Prepare(t.Context(), refs, 0, nil); err != nil {
			t.Fatal(err)
		}
		holds(t, x.tree, build(t, path), refs)
		x.Close()
		if x = countingTree(t, path, o); cached(t, x.tree, refs[0]) == nil {
			t.Error("the cache is not found again")
		}
		x.Close()
	}
}

// TestTouched finds the cache of a model whose store touches its files.
func TestTouched(t *testing.T) {
	o := options(t)
	b, err := os.ReadFile(bf16Model)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "blobs", "sha256-"+strings.Repeat("0123456789abcdef", 4))
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o644)); err != nil {
		t.Fatal(err)
	}
	x := countingTree(t, path, o)
	refs := x.refs("f16")
	if err := x.Prepare(t.Context(), refs, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	holds(t, countingTree(t, path, o).tree, build(t, bf16Model), refs)
}

// TestOthersBlobs keeps nothing for a model under the digest that another directory gives
// other bytes.
func TestOthersBlobs(t *testing.T) {
	o := options(t)
	b, err := os.ReadFile(bf16Model)
	if err != nil {
		t.Fatal(err)
	}
	blob := func() string {
		path := filepath.Join(t.TempDir(), "blobs", strings.Repeat("01", 32))
		if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o644)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	real := blob()
	for i := len(b) / 2; i < len(b); i += 2 {
		b[i]++
	}
	other := countingTree(t, blob(), o)
	refs := other.refs("f16")
	if err := other.Prepare(t.Context(), refs, 0, nil); err != nil {
		t.Fatal(err)
	}
	if cached(t, countingTree(t, real, o).tree, refs[0]) != nil {
		t.Error("the cache has tensors of another file for a model")
	}
}

// TestRelinked keeps nothing under the digest of a file that a link leads to after
// the model was opened.
func TestRelinked(t *testing.T) {
	o := options(t)
	b, err := os.ReadFile(bf16Model)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	blobs, link := filepath.Join(dir, "blobs"), filepath.Join(dir, "model.gguf")
	first, second := filepath.Join(blobs, strings.Repeat("01", 32)), filepath.Join(blobs, strings.Repeat("02", 32))
	if err := errors.Join(os.Mkdir(blobs, 0o755), os.WriteFile(first, b, 0o644), os.Symlink(first, link)); err != nil {
		t.Fatal(err)
	}
	for i := len(b) / 2; i < len(b); i += 2 {
		b[i]++
	}
	old := countingTree(t, link, o)
	if err := errors.Join(os.WriteFile(second, b, 0o644), os.Symlink(second, link+".new"), os.Rename(link+".new", link)); err != nil {
		t.Fatal(err)
	}
	refs := old.refs("f16")
	if err := old.Prepare(t.Context(), refs, 0, nil); err != nil {
		t.Fatal(err)
	}
	holds(t, old.tree, build(t, first), refs)
	x := countingTree(t, link, o)
	if cached(t, x.tree, refs[0]) != nil {
		t.Error("the cache has tensors of a file that was not read")
	}
	if err := x.Prepare(t.Context(), refs, 0, nil); err != nil {
		t.Fatal(err)
	}
	holds(t, x.tree, build(t, second), refs)
}

// TestCacheCase keeps no tensors whose files would be one where case makes no
// difference.
func TestCacheCase(t *testing.T) {
	header := `{"W":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},"w":{"dtype":"BF16","shape":[4],"data_offsets":[8,16]},"x":{"dtype":"BF16","shape":[4],"data_offsets":[16,24]}}`
	path := filepath.Join(t.TempDir(), "model.safetensors")
	text := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	if err := os.WriteFile(path, append(append(text, header...), "abcdefghijklmnopqrstuvwx"...), 0o644); err != nil {
		t.Fatal(err)
	}
	x := countingTree(t, path, options(t))
	refs := x.refs("f16")
	if err := x.Prepare(t.Context(), refs, 0, nil); err != nil {
		t.Fatal(err)
	}
	kept := map[string]bool{}
	for _, ref := range refs {
		kept[ref.Name] = cached(t, x.tree, ref) != nil
	}
	if want := map[string]bool{"W": false, "w": false, "x": true}; !maps.Equal(kept, want) {
		t.Errorf("the cache has %v, want %v", kept, want)
	}
}

// TestCacheFails continues without a cache, after one warning.
func TestCacheFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	open := t.TempDir()
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	want := build(t, bf16Model)
	for name, test := range map[string]struct {
		dir   string
		limit int64
		want  string
	}{
		"a file":       {file, 0, "the cache must be a directory"},
		"others write": {open, 0, "others may write to the cache"},
		"no room":      {t.TempDir(), 1, "the cache has room for 0 of "},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			o := options(t)
			o.CacheDir, o.CacheLimit, o.Logger = test.dir, test.limit, slog.New(slog.NewTextHandler(&log, nil))
			l := load(t, bf16Model, o)
			for range 2 {
				refs := all(l, "f16")
				set, err := l.Load(t.Context(), refs, LoadOptions{Cache: CacheReadWrite})
				if err != nil {
					t.Fatal(err)
				}
				want.same(t, set, refs)
				if b, _ := set.Buffer(refs[0]); b.Origin != OriginMemory {
					t.Error(b.Origin)
				}
				if err := set.Release(); err != nil {
					t.Error(err)
				}
			}
			if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, test.want) {
				t.Errorf("%q", text)
			}
		})
	}
}

// TestCacheLimit keeps entries up to the limit, and removes models that were unused for longer.
func TestCacheLimit(t *testing.T) {
	o := options(t)
	old := countingTree(t, q4Model, o)
	if err := old.Prepare(t.Context(), old.refs("f16"), 0, nil); err != nil {
		t.Fatal(err)
	}
	want := build(t, bf16Model)
	x := countingTree(t, bf16Model, o)
	refs := x.refs("f16")
	list := list(t, o)
	if len(list) != 1 || list[0].Source == "" || !list[0].Whole || !list[0].InUse {
		t.Fatalf("%+v", list)
	}
	o.CacheLimit = list[0].Disk + list[0].Disk/2
	old.Close()
	x = countingTree(t, bf16Model, o)
	if err := x.Prepare(t.Context(), refs, 0, nil); err != nil {
		t.Fatal(err)
	}
	holds(t, x.tree, want, refs)
	again := countingTree(t, q4Model, o)
	part := again.refs("f16")
	if err := again.Prepare(t.Context(), part, 0, nil); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, ref := range part {
		if cached(t, again.tree, ref) != nil {
			n++
		}
	}
	if n == 0 || n == len(part) {
		t.Errorf("%d of %d tensors are in the cache", n, len(part))
	}
	holds(t, again.tree, build(t, q4Model), part[:n])
}

func list(t *testing.T, o Options) []cache.Info {
	t.Helper()
	c, err := cache.OpenConverted(o.CacheDir, false)
	if err != nil {
		t.Fatal(err)
	}
	return c.List()
}

// TestPrepareStops ends with its context, and with an error of progress, and goes on
// later.
func TestPrepareStops(t *testing.T) {
	o := options(t)
	x := countingTree(t, bf16Model, o)
	refs := x.refs("f16", "f32", "npy")
	why := errors.New("why")
	for stopAt := range 8 {
		calls := 0
		err := x.Prepare(t.Context(), refs, 1+stopAt%3, func(done, total int64) error {
			if calls++; calls > stopAt {
				return why
			}
			return nil
		})
		if err != why {
			t.Fatalf("%d: %v", stopAt, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	if err := x.Prepare(ctx, refs, 2, func(int64, int64) error { stop(); return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := x.Prepare(t.Context(), refs, 2, nil); err != nil {
		t.Fatal(err)
	}
	holds(t, x.tree, build(t, bf16Model), refs)
}
