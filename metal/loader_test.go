package metal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testhost"
	"github.com/tensorfs/tensorfs/internal/testing/testtree"
	"github.com/tensorfs/tensorfs/metal"
	"github.com/tensorfs/tensorfs/views"
)

// openTree writes a tree and opens it with a strict device, whose leftovers fail
// the test.
func openTree(t *testing.T, tree *testtree.Tree, opts metal.Options) (l *metal.Loader, mount, model string) {
	t.Helper()
	mount, model = tree.Write(t)
	return openDir(t, mount, opts), mount, model
}

func openDir(t *testing.T, mount string, opts metal.Options) *metal.Loader {
	t.Helper()
	if opts.Device == nil {
		opts.Device = testhost.New(t, testhost.Options{})
	}
	if opts.CacheDir == "" {
		opts.CacheDir = t.TempDir()
	}
	l, err := metal.Open(mount, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, metal.ErrClosed) {
			t.Error(err)
		}
	})
	return l
}

// always declines every mapping, as virtual GPUs do.
func always(int) bool { return true }

// get returns a tensor that is released when the test ends.
func get(t *testing.T, l *metal.Loader, view, name string) metal.Buffer {
	t.Helper()
	b, err := l.Tensor(view, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Release(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Every tensor has the right bytes and a legal place, whatever the device.
func TestTensorBytes(t *testing.T) {
	page := int64(os.Getpagesize())
	tree := testtree.Sample()
	for _, c := range []struct {
		name string
		opts metal.Options
		host testhost.Options
	}{
		{name: "default"},
		{name: "files of the tree only", opts: metal.Options{TreeOnly: true}},
		{name: "offsets on 256", opts: metal.Options{OffsetAlign: 256}},
		{name: "small buffers", host: testhost.Options{MaxBufferLength: 55 * page}},
		{name: "buffers of no whole pages", host: testhost.Options{MaxBufferLength: 55*page + 17}},
		{name: "pages as on Apple silicon", host: testhost.Options{PageSize: 16 << 10, MaxBufferLength: 64 << 20}},
		{name: "small buffers of large pages", host: testhost.Options{PageSize: 64 << 10, MaxBufferLength: 300 << 10}},
		{name: "declined", host: testhost.Options{Decline: always}},
		{name: "sometimes declined", host: testhost.Options{Decline: func(call int) bool { return call%2 == 0 }}},
		{name: "space behind tensors", opts: metal.Options{TailPad: 4096}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opts.Device = testhost.New(t, c.host)
			mount, model := tree.Write(t)
			l := openDir(t, mount, c.opts)
			var refs []metal.Ref
			for _, x := range tree.Tensors {
				refs = append(refs, metal.Ref{View: x.View, Name: x.Name})
			}
			set, err := l.Load(t.Context(), refs, metal.LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer set.Release()
			info := l.DeviceInfo()
			for i, want := range slices.Concat(tree.Tensors, tree.Tensors) {
				ref := metal.Ref{View: want.View, Name: want.Name}
				bytes := tree.Bytes(want)
				b, ok := set.Buffer(ref)
				if !ok {
					t.Fatalf("%s is not in the set", ref)
				}
				if i >= len(tree.Tensors) {
					b = get(t, l, want.View, want.Name)
				}
				if !slices.Equal(b.Contents, bytes) || b.Size != int64(len(bytes)) {
					t.Errorf("%s: wrong bytes", ref)
				}
				align := max(4, c.opts.OffsetAlign)
				if slices.Contains([]string{"F64", "I64"}, want.DType) {
					align = max(align, 8)
				}
				if b.Offset%align != 0 {
					t.Errorf("%s: offset %d", ref, b.Offset)
				}
				if b.Offset+b.Size+c.opts.TailPad > info.MaxBufferLength {
					t.Errorf("%s: ends beyond the buffer", ref)
				}
				addr := int64(uintptr(unsafe.Pointer(unsafe.SliceData(b.Contents)))) - b.Offset
				inFile := false
				switch b.Origin {
				case metal.OriginModel:
					inFile = strings.HasPrefix(b.File, model)
					if c.opts.TreeOnly || len(want.Extents) != 1 {
						t.Errorf("%s: from the model's file", ref)
					}
				case metal.OriginCache:
					inFile = b.File == filepath.Join(mount, ref.String())
				case metal.OriginMemory:
					if b.File == "" || c.host.Decline == nil && c.opts.TailPad == 0 && b.Size > 0 {
						t.Errorf("%s: in memory, from %q", ref, b.File)
					}
				}
				if b.Origin != metal.OriginMemory && (!inFile || addr%info.PageSize != 0) {
					t.Errorf("%s: from %q of %s, and its buffer begins at %#x", ref, b.File, b.Origin, addr)
				}
				if copied := b.Origin == metal.OriginMemory && c.host.Decline != nil && b.Size > 0; b.Copied != copied {
					t.Errorf("%s: copied is %v", ref, b.Copied)
				}
				if err := iotest.TestReader(io.NewSectionReader(b, 0, b.Size), bytes); err != nil {
					t.Errorf("%s: %v", ref, err)
				}
			}
		})
	}
}

// A tensor at a legal offset of the model's file is mapped from this file; other tensors come from
// their mounted files. A set has one buffer per file.
func TestTensorsShareOneMapping(t *testing.T) {
	tree := testtree.Sample()
	host := testhost.New(t, testhost.Options{})
	l, _, model := openTree(t, tree, metal.Options{Device: host})
	file := filepath.Join(model, "model.gguf")
	cases := []struct {
		ref    metal.Ref
		offset int64 // in the model's file, -1 for a file of its own
	}{
		{metal.Ref{View: "f16", Name: "layers.0.attention_norm.weight"}, 96},
		{metal.Ref{View: "raw", Name: "layers.0.attention.q.weight"}, 4128},
		{metal.Ref{View: "raw", Name: "layers.0.attention.k.weight"}, 76_160},
		{metal.Ref{View: "raw", Name: "last.weight"}, 299_900},
		{metal.Ref{View: "raw", Name: "eight.weight"}, 220_200},
		{metal.Ref{View: "raw", Name: "four.weight"}, -1}, // 8-byte elements at a multiple of 4
		{metal.Ref{View: "raw", Name: "two.weight"}, -1},
		{metal.Ref{View: "raw", Name: "odd.weight"}, -1},
		{metal.Ref{View: "fused", Name: "layers.0.attention.qkv.weight"}, -1},
	}
	var refs []metal.Ref
	for _, c := range cases {
		refs = append(refs, c.ref)
	}
	set, err := l.Load(t.Context(), append(refs, metal.Ref{View: "raw", Name: "second.weight"}), metal.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Release()
	first, _ := set.Buffer(refs[0])
	for _, c := range cases {
		inSet, _ := set.Buffer(c.ref)
		for _, b := range []metal.Buffer{inSet, get(t, l, c.ref.View, c.ref.Name)} {
			if direct := b.File == file; direct != (c.offset >= 0) {
				t.Errorf("%s: from %s", c.ref, b.File)
				continue
			}
			if b.Offset != max(0, c.offset) {
				t.Errorf("%s: offset %d, want %d", c.ref, b.Offset, c.offset)
			}
			got := uintptr(unsafe.Pointer(&b.Contents[0])) - uintptr(b.Offset)
			if want := uintptr(unsafe.Pointer(&first.Contents[0])) - uintptr(first.Offset); (got == want) != (c.offset >= 0) {
				t.Errorf("%s: in a mapping at %#x, and the file's is at %#x", c.ref, got, want)
			}
		}
	}
	if second := get(t, l, "raw", "second.weight"); second.File != filepath.Join(model, "sub/shard-2.bin") {
		t.Errorf("the second shard's tensor is from %s", second.File)
	}
	if n := host.Counts().Wraps; n != 6 {
		t.Errorf("%d mappings: two model files and four mounted ones were expected", n)
	}
}

func TestTensorTooLarge(t *testing.T) {
	tree := testtree.Sample()
	l, _, _ := openTree(t, tree, metal.Options{Device: testhost.New(t, testhost.Options{MaxBufferLength: 64 << 10})})
	ref := metal.Ref{View: "raw", Name: "layers.0.attention.q.weight"}
	_, terr := l.Tensor(ref.View, ref.Name)
	_, lerr := l.Load(t.Context(), []metal.Ref{ref}, metal.LoadOptions{})
	_, perr := l.Plan([]metal.Ref{ref})
	for _, err := range []error{terr, lerr, perr} {
		if err == nil || !strings.Contains(err.Error(), ref.String()+": 72000 bytes, and host memory takes buffers of at most 65536") {
			t.Errorf("error %v", err)
		}
	}
	get(t, l, "raw", "second.weight")
}

func TestInfo(t *testing.T) {
	mount, _ := testtree.Sample().Write(t)
	l := openDir(t, mount, metal.Options{})
	got, err := l.Info("packed", "layers.0.ffn.up.weight")
	if err != nil {
		t.Fatal(err)
	}
	want := []tensorfs.Part{{Name: "weights", DType: "U32", Bytes: 1024}, {Name: "scales", DType: "F16", Offset: 1024, Bytes: 128}, {Name: "biases", DType: "F16", Offset: 1152, Bytes: 128}}
	engine, _ := views.EngineDType("packed", &got)
	if q := got.Quant; got.Name != "layers.0.ffn.up.weight" || got.DType != tensorfs.U32 || !slices.Equal(got.Shape, []int64{32, 64}) || got.Data.Size() != 1280 || !slices.Equal(got.Parts, want) ||
		q == nil || q.Mode != "affine" || q.Bits != 4 || q.GroupSize != 32 || engine != 100 {
		t.Errorf("got %+v", got)
	}
	if plain, err := l.Info("f16", "token_embedding.weight"); err != nil || plain.DType != tensorfs.F16 || plain.Parts != nil || plain.Quant != nil {
		t.Errorf("%+v, %v", plain, err)
	}
	if got, want := l.Views(), []string{"bf16", "f16", "f32", "fused", "fused-f16", "npy", "packed", "raw"}; !slices.Equal(got, want) {
		t.Errorf("views %q", got)
	}
	if got, want := l.Names("packed"), []string{"layers.0.attention.k.weight", "layers.0.attention.q.weight", "layers.0.attention.v.weight", "layers.0.attention_norm.weight", "layers.0.ffn.up.weight"}; !slices.Equal(got[2:7], want) {
		t.Errorf("names %q", got)
	}
	if l.Names("f17") != nil {
		t.Error("a view that is not there has names")
	}
	if m := l.Model(); m.Format != "gguf" || m.Path != mount || m.Architecture != "llama" || m.Layout != "gguf" {
		t.Errorf("model %s %s %s %s", m.Format, m.Path, m.Architecture, m.Layout)
	}
	for _, c := range []struct{ view, name, want string }{
		{"f16", "eight.weight", "I64"},
		{"f16", "nothing", `"nothing" is not in view "f16"`},
		{"f16", "../raw/odd.weight", "is not in view"},
		{"raw", "..", "is not in view"},
		{"f17", "odd.weight", "there are bf16, f16, f32, fused, fused-f16, npy, packed, raw"},
	} {
		_, ierr := l.Info(c.view, c.name)
		_, terr := l.Tensor(c.view, c.name)
		for _, err := range []error{ierr, terr} {
			if !errors.Is(err, metal.ErrAbsent) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s/%s: error %v, want one with %q", c.view, c.name, err, c.want)
			}
		}
	}
	if c, err := l.Config(); err != nil || c.Dim != 64 || c.Architecture != "llama" {
		t.Errorf("config %+v, %v", c, err)
	}
	if l.MetaString("general.name", "") != "sample" || !l.MetaBool("yes", false) || l.MetaString("none", "-") != "-" || l.MetaFloat("big", 0) != 1<<64 {
		t.Errorf("metadata %v", l.Model().Metadata)
	}
}

func TestOpenRefuses(t *testing.T) {
	empty := t.TempDir()
	bad := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(bad, "raw"), 0o755), os.WriteFile(filepath.Join(bad, "index.json"), []byte(`{"version":9}`), 0o644)); err != nil {
		t.Fatal(err)
	}
	fifo := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(fifo, "raw"), 0o755), unix.Mkfifo(filepath.Join(fifo, "index.json"), 0o644)); err != nil {
		t.Fatal(err)
	}
	good, _ := testtree.Sample().Write(t)
	for _, c := range []struct {
		dir  string
		opts metal.Options
		want string
	}{
		{filepath.Join(empty, "none"), metal.Options{}, "no such file"},
		{empty, metal.Options{}, "it is an empty directory"},
		{bad, metal.Options{}, `its version is "9"`},
		{fifo, metal.Options{}, "not a regular file"},
		{filepath.Join(bad, "index.json"), metal.Options{}, "found 13 bytes"},
		{good, metal.Options{OffsetAlign: -1}, "power of two"},
		{good, metal.Options{OffsetAlign: 48}, "power of two"},
		{good, metal.Options{TailPad: -1}, "tail padding -1"},
		{good, metal.Options{MaxMemory: -1}, "memory limit -1"},
	} {
		if _, err := metal.Open(c.dir, c.opts); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.dir) {
			t.Errorf("%s: error %v, want one with %q", c.dir, err, c.want)
		}
	}
	// Without a device the loader opens one and closes it.
	l, err := metal.Open(good, metal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestLifetimes(t *testing.T) {
	l, _, _ := openTree(t, testtree.Sample(), metal.Options{})
	const view, name = "f16", "token_embedding.weight"
	a, err := l.Tensor(view, name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Tensor(view, name)
	if err != nil {
		t.Fatal(err)
	}
	if unsafe.SliceData(a.Contents) != unsafe.SliceData(b.Contents) || a.Offset != b.Offset || a.Handle != b.Handle {
		t.Error("asking twice gave two buffers")
	}
	other, err := l.Tensor("raw", "second.weight")
	if err != nil {
		t.Fatal(err)
	}
	err = l.Close()
	if err == nil || !strings.Contains(err.Error(), "f16/token_embedding.weight, raw/second.weight") {
		t.Errorf("Close with buffers in use: %v", err)
	}
	// The refused Close closed nothing.
	c, err := l.Tensor(view, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []metal.Buffer{a, b} {
		if err := x.Release(); err != nil {
			t.Error(err)
		}
		// A second release of one buffer does not take another user's buffer away.
		if err := x.Release(); err == nil || !strings.Contains(err.Error(), "f16/token_embedding.weight: it was released before") {
			t.Errorf("one release too many: %v", err)
		}
	}
	if _, err := c.ReadAt(make([]byte, 1), 0); err != nil {
		t.Error(err)
	}
	if err := c.View(func([]byte) error { return c.Release() }); err != nil {
		t.Errorf("released while it was read: %v", err)
	}
	if err := a.View(func([]byte) error { t.Error("a released buffer was read"); return nil }); err == nil {
		t.Error("a released buffer was read")
	}
	if _, err := a.ReadAt(make([]byte, 1), 0); err == nil {
		t.Error("a released buffer was read")
	}
	if err := other.Release(); err != nil {
		t.Error(err)
	}
	if err := (metal.Buffer{}).Release(); err == nil {
		t.Error("the zero Buffer was released")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Tensor(view, name); !errors.Is(err, metal.ErrClosed) {
		t.Errorf("Tensor after Close: %v", err)
	}
	if err := l.Close(); !errors.Is(err, metal.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
}

// slowDevice lets a test do something while a buffer is given back.
type slowDevice struct {
	metal.Device
	during func()
}

func (d slowDevice) Wrap(mem []byte, done func()) (metal.DeviceBuffer, error) {
	b, err := d.Device.Wrap(mem, done)
	return slowBuffer{b, d.during}, err
}

func (d slowDevice) Alloc(n int64) (metal.DeviceBuffer, error) {
	b, err := d.Device.Alloc(n)
	return slowBuffer{b, d.during}, err
}

type slowBuffer struct {
	metal.DeviceBuffer
	during func()
}

func (b slowBuffer) Release() error {
	b.during()
	return b.DeviceBuffer.Release()
}

// TestCloseWaitsForReleases holds that Close, once no buffer is in use, still waits for a buffer
// that another thread is returning to the device.
func TestCloseWaitsForReleases(t *testing.T) {
	tree := testtree.Sample()
	var l *metal.Loader
	var released atomic.Bool
	closed := make(chan error, 1)
	device := slowDevice{testhost.New(t, testhost.Options{}), func() {
		go func() {
			err := l.Close()
			if !released.Load() {
				err = errors.Join(err, errors.New("it did not wait"))
			}
			closed <- err
		}()
		time.Sleep(50 * time.Millisecond) // for a Close that does not wait
		released.Store(true)
	}}
	l, _, _ = openTree(t, tree, metal.Options{Device: device})
	b, err := l.Tensor(tree.Tensors[0].View, tree.Tensors[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestCloseNamesFew(t *testing.T) {
	tree := testtree.Sample()
	l, _, _ := openTree(t, tree, metal.Options{})
	for _, x := range tree.Tensors {
		get(t, l, x.View, x.Name)
	}
	want := fmt.Sprintf("and %d more", len(tree.Tensors)-5)
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

// A file that shrinks under its mapping gives errors from View and ReadAt, and later loads notice
// that it does not match index.json.
func TestLostBytes(t *testing.T) {
	l, mount, _ := openTree(t, testtree.Sample(), metal.Options{})
	b := get(t, l, "f16", "token_embedding.weight")
	if err := os.Truncate(filepath.Join(mount, "f16/token_embedding.weight"), 0); err != nil {
		t.Fatal(err)
	}
	err := b.View(func(p []byte) error {
		sum := 0
		for _, x := range p {
			sum += int(x)
		}
		return fmt.Errorf("read %d from a lost page", sum)
	})
	if err == nil || !strings.Contains(err.Error(), "was lost while it was read") {
		t.Errorf("View: %v", err)
	}
	if n, err := b.ReadAt(make([]byte, 10), 5000); n != 0 || err == nil || err == io.EOF {
		t.Errorf("ReadAt: %d, %v", n, err)
	}
	again := openDir(t, mount, metal.Options{})
	if _, err := again.Tensor("f16", "token_embedding.weight"); err == nil || !strings.Contains(err.Error(), "has 0 bytes and should have 8192") {
		t.Errorf("Tensor: %v", err)
	}
}

// A panic of the reader, and a fault elsewhere, are not taken for lost pages.
func TestViewPassesOtherPanics(t *testing.T) {
	l, _, _ := openTree(t, testtree.Sample(), metal.Options{})
	b := get(t, l, "f16", "token_embedding.weight")
	closed, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(closed)
	for _, c := range []struct {
		name string
		fn   func([]byte) error
	}{
		{"a panic", func([]byte) error { panic("mine") }},
		{"a nil pointer", func([]byte) error { return touch(nil) }},
		{"a fault in other memory", func([]byte) error { return touch(&closed[0]) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = b.View(c.fn)
		})
	}
}

//go:noinline
func touch(p *byte) error { *p = 1; return nil }

func TestMissingFiles(t *testing.T) {
	l, mount, _ := openTree(t, testtree.Sample(), metal.Options{})
	path := filepath.Join(mount, "f16/token_embedding.weight")
	get(t, l, "f16", "shifted.weight") // the view is known from here on
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Tensor("f16", "token_embedding.weight"); err == nil || !strings.Contains(err.Error(), "is the model still mounted?") {
		t.Errorf("error %v", err)
	}
	// A failure is not remembered.
	if err := os.WriteFile(path, make([]byte, 8192), 0o644); err != nil {
		t.Fatal(err)
	}
	get(t, l, "f16", "token_embedding.weight")
	for _, what := range []func(path string) error{
		func(path string) error { return os.Mkdir(path, 0o755) },
		func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		path := filepath.Join(mount, "raw/odd.weight")
		if err := errors.Join(os.RemoveAll(path), what(path)); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Tensor("raw", "odd.weight"); err == nil {
			t.Error("something else than a file was loaded")
		}
	}
}

// A model file that is not the mounted one any more is not used: the mount's
// files are.
func TestChangedSource(t *testing.T) {
	tree := testtree.Sample()
	other := bytes.Clone(tree.Sources["model.gguf"])
	other[4128] ^= 1
	old := time.Now().Add(-48 * time.Hour)
	for _, c := range []struct {
		name   string
		change func(path string) error
		stays  bool // the file that is open is as it was
	}{
		{"removed", os.Remove, true},
		{"cut", func(path string) error { return os.Truncate(path, 299_999) }, false},
		{"touched", func(path string) error { return os.Chtimes(path, time.Now(), time.Now()) }, false},
		{"replaced by an older one", func(path string) error {
			return errors.Join(os.WriteFile(path, other, 0o644), os.Chtimes(path, old, old))
		}, false},
		{"written to, and touched", func(path string) error {
			st, err := os.Stat(path)
			if err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(other[4128:4129], 4128)
			return errors.Join(err, f.Close(), os.Chtimes(path, st.ModTime(), st.ModTime()))
		}, false},
		{"replaced by one of the same size and time", func(path string) error {
			st, err := os.Stat(path)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(path+".new", other, 0o644), os.Chtimes(path+".new", st.ModTime(), st.ModTime()), os.Rename(path+".new", path))
		}, true},
		{"a directory", func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, mount, model := openTree(t, tree, metal.Options{})
			// It was the right one before.
			norm := get(t, l, "f16", "layers.0.attention_norm.weight")
			if norm.Origin != metal.OriginModel {
				t.Errorf("from %s", norm.File)
			}
			if err := c.change(filepath.Join(model, "model.gguf")); err != nil {
				t.Fatal(err)
			}
			b := get(t, l, "raw", "layers.0.attention.q.weight")
			if strings.HasPrefix(b.File, mount) == c.stays || b.Copied {
				t.Errorf("from %s", b.File)
			}
			if want := tree.Sources["model.gguf"][4128:76_128]; !bytes.Equal(b.Contents, want) {
				t.Error("wrong bytes")
			}
		})
	}
}

// Names of an index that lead out of the tree are refused.
func TestNamesStayInside(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "secret")
	mount := filepath.Join(dir, "mount")
	text := `{"version":1,"views":{"..":{"secret":{"dtype":"U8","shape":[4],"bytes":4}},
	"raw":{"../../secret":{"dtype":"U8","shape":[4],"bytes":4},"..":{"dtype":"U8","shape":[4],"bytes":4},
	"file":{"dtype":"U8","shape":[4],"bytes":4,"extents":[{"file":"../../secret","offset":0,"bytes":4}]}}}}`
	if err := errors.Join(os.MkdirAll(filepath.Join(mount, "raw"), 0o755),
		os.WriteFile(outside, []byte("good"), 0o644),
		os.Chtimes(outside, time.Unix(0, 0), time.Unix(0, 0)),
		os.WriteFile(filepath.Join(mount, "raw/file"), []byte("good"), 0o644),
		os.WriteFile(filepath.Join(mount, "index.json"), []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	l := openDir(t, mount, metal.Options{})
	for _, ref := range []metal.Ref{{"..", "secret"}, {"raw", "../../secret"}, {"raw", ".."}} {
		if _, err := l.Tensor(ref.View, ref.Name); err == nil {
			t.Errorf("%s was opened", ref)
		}
	}
	if b := get(t, l, "raw", "file"); string(b.Contents) != "good" || b.File == outside {
		t.Errorf("%q from %s", b.Contents, b.File)
	}
}

// Many goroutines load and release the same tensors.
func TestConcurrentUse(t *testing.T) {
	tree := testtree.Sample()
	l, _, _ := openTree(t, tree, metal.Options{Device: testhost.New(t, testhost.Options{MaxBufferLength: 256 << 10})})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for range 300 {
				want := tree.Tensors[rng.IntN(len(tree.Tensors))]
				b, err := l.Tensor(want.View, want.Name)
				if err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(b.Contents, tree.Bytes(want)) {
					t.Errorf("%s/%s: wrong bytes", want.View, want.Name)
				}
				if err := b.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkTensor(b *testing.B) {
	mount, _ := testtree.Sample().Write(b)
	l, err := metal.Open(mount, metal.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	hold, err := l.Tensor("raw", "last.weight")
	if err != nil {
		b.Fatal(err)
	}
	defer hold.Release()
	for _, ref := range []metal.Ref{{"raw", "layers.0.attention.q.weight"}, {"f16", "token_embedding.weight"}} {
		b.Run(ref.View, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x, err := l.Tensor(ref.View, ref.Name)
				if err != nil {
					b.Fatal(err)
				}
				if err := x.Release(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
