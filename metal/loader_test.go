package metal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tensorfs/tensorfs/metal/internal/testtree"
)

// openTree writes a tree and opens it with a host device, whose leftovers fail
// the test.
func openTree(t *testing.T, tree *testtree.Tree, opts Options) (l *Loader, mount, model string) {
	t.Helper()
	mount, model = tree.Write(t)
	return openDir(t, mount, opts), mount, model
}

func openDir(t *testing.T, mount string, opts Options) *Loader {
	t.Helper()
	if opts.Device == nil {
		opts.Device = newHost(t, HostOptions{})
	}
	l, err := Open(mount, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := opts.Device.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("the device: %v", err)
		}
		if n := len(l.files.slots) + len(l.regions.slots); n > 0 {
			t.Errorf("%d mappings and regions are left", n)
		}
	})
	return l
}

// get returns a tensor that is released when the test ends.
func get(t *testing.T, l *Loader, view, name string) Buffer {
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

// refused is a device that declines every mapping, as virtual GPUs do.
type refused struct{ Device }

func (refused) Wrap([]byte, func()) (DeviceBuffer, error) {
	return nil, fmt.Errorf("test: %w", ErrDeclined)
}

// Every tensor has the right bytes and a legal place, whatever the device.
func TestTensorBytes(t *testing.T) {
	page := int64(os.Getpagesize())
	tree := testtree.Sample()
	for _, c := range []struct {
		name   string
		opts   Options
		host   HostOptions
		copied bool
	}{
		{name: "default"},
		{name: "mounted files only", opts: Options{MountedOnly: true}},
		{name: "offsets on 256", opts: Options{OffsetAlign: 256}},
		{name: "small windows", host: HostOptions{MaxBufferLength: 55 * page}},
		{name: "windows of no whole pages", host: HostOptions{MaxBufferLength: 55*page + 17}},
		{name: "pages as on Apple silicon", host: HostOptions{PageSize: 16 << 10}},
		{name: "small windows of large pages", host: HostOptions{PageSize: 64 << 10, MaxBufferLength: 300 << 10}},
		{name: "declined", opts: Options{Device: refused{newHost(t, HostOptions{})}}, copied: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.opts.Device == nil {
				c.opts.Device = newHost(t, c.host)
			}
			l, mount, model := openTree(t, tree, c.opts)
			info := l.DeviceInfo()
			for _, want := range tree.Tensors {
				b := get(t, l, want.View, want.Name)
				ref := want.View + "/" + want.Name
				bytes := tree.Bytes(want)
				if !slices.Equal(b.Contents, bytes) || b.Size != int64(len(bytes)) {
					t.Errorf("%s: wrong bytes", ref)
				}
				if b.Copied != (c.copied) {
					t.Errorf("%s: copied is %v", ref, b.Copied)
				}
				if b.Offset%l.align(l.index.view(want.View).entry(want.Name)) != 0 {
					t.Errorf("%s: offset %d", ref, b.Offset)
				}
				if b.Offset+b.Size > info.MaxBufferLength {
					t.Errorf("%s: ends beyond the buffer", ref)
				}
				addr := int64(uintptr(unsafe.Pointer(unsafe.SliceData(b.Contents)))) - b.Offset
				if !b.Copied && addr%info.PageSize != 0 {
					t.Errorf("%s: its buffer begins at %#x", ref, addr)
				}
				fromModel := strings.HasPrefix(b.File, model)
				if !fromModel && !strings.HasPrefix(b.File, mount) {
					t.Errorf("%s: from %q", ref, b.File)
				}
				if fromModel && (c.opts.MountedOnly || len(want.Extents) != 1) {
					t.Errorf("%s: from the model's file", ref)
				}
				if err := iotest.TestReader(io.NewSectionReader(b, 0, b.Size), bytes); err != nil {
					t.Errorf("%s: %v", ref, err)
				}
			}
		})
	}
}

// A tensor that stands alone at a legal offset of the model's file is a part of
// the one mapping of it; others come from their mounted file.
func TestTensorsShareOneMapping(t *testing.T) {
	tree := testtree.Sample()
	l, _, model := openTree(t, tree, Options{})
	file := filepath.Join(model, "model.gguf")
	var first *Buffer
	for _, c := range []struct {
		ref    Ref
		direct bool
		offset int64 // in the file
	}{
		{Ref{"f16", "layers.0.attention_norm.weight"}, true, 96},
		{Ref{"raw", "layers.0.attention.q.weight"}, true, 4128},
		{Ref{"raw", "layers.0.attention.k.weight"}, true, 76_160},
		{Ref{"raw", "last.weight"}, true, 299_900},
		{Ref{"raw", "eight.weight"}, true, 220_200},
		{Ref{"raw", "four.weight"}, false, 0}, // 8-byte elements at a multiple of 4
		{Ref{"raw", "two.weight"}, false, 0},
		{Ref{"raw", "odd.weight"}, false, 0},
		{Ref{"fused", "layers.0.attention.qkv.weight"}, false, 0},
	} {
		b := get(t, l, c.ref.View, c.ref.Name)
		if direct := b.File == file; direct != c.direct {
			t.Errorf("%s: from %s", c.ref, b.File)
			continue
		}
		if !c.direct {
			if b.Offset != 0 {
				t.Errorf("%s: offset %d in a file of its own", c.ref, b.Offset)
			}
			continue
		}
		if first == nil {
			first = &b
		}
		if b.Offset != c.offset {
			t.Errorf("%s: offset %d, want %d", c.ref, b.Offset, c.offset)
		}
		got := uintptr(unsafe.Pointer(&b.Contents[0])) - uintptr(b.Offset)
		if want := uintptr(unsafe.Pointer(&first.Contents[0])) - uintptr(first.Offset); got != want {
			t.Errorf("%s: in a mapping at %#x, not %#x", c.ref, got, want)
		}
	}
	if second := get(t, l, "raw", "second.weight"); second.File != filepath.Join(model, "sub/shard-2.bin") {
		t.Errorf("the second shard's tensor is from %s", second.File)
	}
	if n := len(l.files.slots); n != 6 {
		t.Errorf("%d mappings: two model files and four mounted ones were expected", n)
	}
	want := []SourceInfo{{"model.gguf", 11, 1, nil}, {"sub/shard-2.bin", 1, 1, nil}}
	got := l.Sources()
	slices.SortFunc(got, func(a, b SourceInfo) int { return strings.Compare(a.Name, b.Name) })
	for i := range got {
		// A tensor in several extents stands in no file as a whole.
		if got[i].Err != nil || got[i].Name != want[i].Name || got[i].Windows != 1 {
			t.Errorf("source %+v, want %+v", got[i], want[i])
		}
	}
}

// A file longer than the device's buffers is one mapping and several of them.
func TestWindows(t *testing.T) {
	tree := testtree.Sample()
	page := int64(os.Getpagesize())
	l, _, model := openTree(t, tree, Options{Device: newHost(t, HostOptions{MaxBufferLength: 20 * page})})
	bases := map[uintptr]bool{}
	for _, name := range []string{"layers.0.attention.q.weight", "layers.0.attention.k.weight", "layers.0.attention.v.weight", "last.weight"} {
		b := get(t, l, "raw", name)
		if !strings.HasPrefix(b.File, model) {
			t.Errorf("%s: from %s", name, b.File)
		}
		bases[uintptr(unsafe.Pointer(&b.Contents[0]))-uintptr(b.Offset)] = true
	}
	if len(bases) != 4 || len(l.files.slots) != 1 {
		t.Errorf("%d buffers over %d mappings, want 4 over 1", len(bases), len(l.files.slots))
	}
}

func TestTensorTooLarge(t *testing.T) {
	tree := testtree.Sample()
	l, _, _ := openTree(t, tree, Options{Device: newHost(t, HostOptions{MaxBufferLength: 64 << 10})})
	if _, err := l.Tensor("raw", "layers.0.attention.q.weight"); err == nil || !strings.Contains(err.Error(), "at most 65536") {
		t.Errorf("error %v", err)
	}
	get(t, l, "raw", "second.weight")
}

func TestInfo(t *testing.T) {
	l, mount, model := openTree(t, testtree.Sample(), Options{})
	got, err := l.Info("packed", "layers.0.ffn.up.weight")
	if err != nil {
		t.Fatal(err)
	}
	want := TensorInfo{
		Ref: Ref{"packed", "layers.0.ffn.up.weight"}, DType: "U32", Shape: []int64{32, 8}, Bytes: 1280,
		Sections:    []Section{{"weights", "U32", 0, 1024}, {"scales", "F16", 1024, 128}, {"biases", "F16", 1152, 128}},
		Quant:       &Quant{"affine", 4, 32},
		EngineDType: 100,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if plain, err := l.Info("f16", "token_embedding.weight"); err != nil || plain.EngineDType != -1 || plain.Sections != nil || plain.Quant != nil {
		t.Errorf("%+v, %v", plain, err)
	}
	if got, want := l.Views(), []string{"f16", "fused", "npy", "packed", "raw"}; !slices.Equal(got, want) {
		t.Errorf("views %q", got)
	}
	if got, want := l.Names("f16"), []string{"layers.0.attention.q.weight", "layers.0.attention_norm.weight", "token_embedding.weight"}; !slices.Equal(got, want) {
		t.Errorf("names %q", got)
	}
	if l.Names("f32") != nil {
		t.Error("a view that is not there has names")
	}
	if got, want := l.Model(), (ModelInfo{"test", model, "llama", "plain"}); got != want {
		t.Errorf("model %+v, want %+v", got, want)
	}
	for _, c := range []struct{ view, name, want string }{
		{"f16", "odd.weight", "integers have no dense form"},
		{"f16", "nothing", `"nothing" is not in view "f16"`},
		{"f32", "odd.weight", "there are f16, fused, npy, packed, raw"},
	} {
		_, ierr := l.Info(c.view, c.name)
		_, terr := l.Tensor(c.view, c.name)
		for _, err := range []error{ierr, terr} {
			if !errors.Is(err, ErrAbsent) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s/%s: error %v, want one with %q", c.view, c.name, err, c.want)
			}
		}
	}
	_ = mount
}

func TestOpenRefuses(t *testing.T) {
	empty := t.TempDir()
	bad := t.TempDir()
	if err := os.WriteFile(filepath.Join(bad, "index.json"), []byte(`{"version":9}`), 0o644); err != nil {
		t.Fatal(err)
	}
	good, _ := testtree.Sample().Write(t)
	for _, c := range []struct {
		dir  string
		opts Options
		want string
	}{
		{filepath.Join(empty, "none"), Options{}, "no such file"},
		{empty, Options{}, "is a model mounted here?"},
		{bad, Options{}, "version 9"},
		{filepath.Join(bad, "index.json"), Options{}, "not a directory"},
		{good, Options{OffsetAlign: -1}, "negative"},
	} {
		if _, err := Open(c.dir, c.opts); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.dir) {
			t.Errorf("%s: error %v, want one with %q", c.dir, err, c.want)
		}
	}
	// Without a device the loader opens one and closes it.
	l, err := Open(good, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.device.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("the loader's own device was left open: %v", err)
	}
}

func TestLifetimes(t *testing.T) {
	l, _, _ := openTree(t, testtree.Sample(), Options{})
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
	if _, err := l.Tensor(view, name); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := b.Release(); err != nil {
			t.Error(err)
		}
	}
	if err := a.Release(); err == nil || !strings.Contains(err.Error(), "f16/token_embedding.weight") {
		t.Errorf("one release too many: %v", err)
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
	if err := (Buffer{}).Release(); err == nil {
		t.Error("the zero Buffer was released")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Tensor(view, name); !errors.Is(err, ErrClosed) {
		t.Errorf("Tensor after Close: %v", err)
	}
	if err := l.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
}

func TestCloseNamesFew(t *testing.T) {
	tree := testtree.Sample()
	l, _, _ := openTree(t, tree, Options{})
	for _, x := range tree.Tensors {
		get(t, l, x.View, x.Name)
	}
	want := fmt.Sprintf("and %d more", len(tree.Tensors)-5)
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

// A file that shrinks under its mapping gives errors to those who read by View
// and ReadAt, and later loads see that it is not what index.json says.
func TestLostBytes(t *testing.T) {
	l, mount, _ := openTree(t, testtree.Sample(), Options{})
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
	again := openDir(t, mount, Options{})
	if _, err := again.Tensor("f16", "token_embedding.weight"); err == nil || !strings.Contains(err.Error(), "has 0 bytes and index.json says 8192") {
		t.Errorf("Tensor: %v", err)
	}
}

// A panic of the reader, and a fault elsewhere, are not taken for lost pages.
func TestViewPassesOtherPanics(t *testing.T) {
	l, _, _ := openTree(t, testtree.Sample(), Options{})
	b := get(t, l, "f16", "token_embedding.weight")
	closed := pages(t, 1)
	if err := unix.Mprotect(closed, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
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
	l, mount, _ := openTree(t, testtree.Sample(), Options{})
	path := filepath.Join(mount, "f16/token_embedding.weight")
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
		path := filepath.Join(mount, "raw/empty.weight")
		if err := errors.Join(os.RemoveAll(path), what(path)); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Tensor("raw", "empty.weight"); err == nil {
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
		want   string
	}{
		{"removed", os.Remove, "no such file"},
		{"cut", func(path string) error { return os.Truncate(path, 299_999) }, "has 299999 bytes"},
		{"touched", func(path string) error { return os.Chtimes(path, time.Now(), time.Now()) }, "was modified after"},
		{"replaced by an older one", func(path string) error {
			return errors.Join(os.WriteFile(path, other, 0o644), os.Chtimes(path, old, old))
		}, "is not the file that is mounted"},
		{"a directory", func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) }, "not a regular file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, mount, model := openTree(t, tree, Options{})
			if err := c.change(filepath.Join(model, "model.gguf")); err != nil {
				t.Fatal(err)
			}
			b := get(t, l, "raw", "layers.0.attention.q.weight")
			if !strings.HasPrefix(b.File, mount) || b.Copied {
				t.Errorf("from %s", b.File)
			}
			if want := tree.Sources["model.gguf"][4128:76_128]; !bytes.Equal(b.Contents, want) {
				t.Error("wrong bytes")
			}
			for _, s := range l.Sources() {
				if s.Name == "model.gguf" && (s.Err == nil || !strings.Contains(s.Err.Error(), c.want)) {
					t.Errorf("reason %v, want one with %q", s.Err, c.want)
				}
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
	l := openDir(t, mount, Options{})
	for _, ref := range []Ref{{"..", "secret"}, {"raw", "../../secret"}, {"raw", ".."}} {
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
	l, _, _ := openTree(t, tree, Options{Device: newHost(t, HostOptions{MaxBufferLength: 256 << 10})})
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
	l, err := Open(mount, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	hold, err := l.Tensor("raw", "last.weight")
	if err != nil {
		b.Fatal(err)
	}
	defer hold.Release()
	for _, ref := range []Ref{{"raw", "layers.0.attention.q.weight"}, {"f16", "token_embedding.weight"}} {
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
