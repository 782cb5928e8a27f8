package metal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testhost"
	"github.com/tensorfs/tensorfs/internal/testing/testtree"
	"github.com/tensorfs/tensorfs/metal"
)

const maxPiece = 4 << 20

// newLoader returns a loader of a tree of its own.
func newLoader(t *testing.T, tree metal.Shelf, opts metal.Options) *metal.Loader {
	t.Helper()
	l, err := metal.NewOf(tree, opts)
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

// progress checks that a progress only goes up, to its total.
type progress struct {
	t           *testing.T
	calls       int
	done, total int64
}

func (p *progress) report(done, total int64) error {
	if done <= p.done || done > total || p.calls > 0 && total != p.total {
		p.t.Errorf("progress %d of %d after %d of %d", done, total, p.done, p.total)
	}
	p.calls++
	p.done, p.total = done, total
	return nil
}

func TestLoad(t *testing.T) {
	tree, refs := newFakeTree(t, 10, 0, 3*maxPiece+1, maxPiece, 300, 100_000)
	tree.keep("d", metal.OriginModel)
	tree.keep("f", metal.OriginCache)
	host := testhost.New(t, testhost.Options{Residency: true})
	l := newLoader(t, tree, metal.Options{Device: host})

	plan, err := l.Plan(append(refs, refs[2]))
	if err != nil {
		t.Fatal(err)
	}
	arena := int64(512 + 3*maxPiece + 256 + 300)
	want := metal.Plan{Model: maxPiece, Cache: 100_000, Memory: 10 + 3*maxPiece + 1 + 300, Arenas: []int64{arena}, Need: arena}
	for _, w := range plan.Windows {
		if f := tree.files[filepath.Base(w.File)]; f == nil || w != (metal.Window{File: f.path, Bytes: f.size, Origin: f.origin}) {
			t.Errorf("window %+v", w)
		}
	}
	if n := len(plan.Windows); n != 2 {
		t.Errorf("%d windows", n)
	}
	if plan.Windows = nil; !reflect.DeepEqual(plan, want) {
		t.Errorf("plan %+v, want %+v", plan, want)
	}
	if c := host.Counts(); len(tree.read) > 0 || c.Wraps+c.Allocs > 0 {
		t.Error("the plan was carried out")
	}

	p := &progress{t: t}
	set, err := l.Load(t.Context(), append(refs, refs[2]), metal.LoadOptions{Progress: p.report, Workers: 3, Resident: true})
	if err != nil {
		t.Fatal(err)
	}
	tree.same(set)
	if p.done != plan.Model+plan.Cache+plan.Memory || p.calls != 1+4+1+1+1 {
		t.Errorf("progress ended at %d of %d after %d calls", p.done, p.total, p.calls)
	}
	c := host.Counts()
	if c.Wraps != 2 || c.Allocs != 1 || c.AllocBytes != arena || len(tree.read) != 3 {
		t.Errorf("%+v, and %v were read", c, tree.read)
	}
	if !reflect.DeepEqual(set.Refs(), refs) {
		t.Errorf("refs %v", set.Refs())
	}
	if set.Residency() != 3 {
		t.Errorf("%d buffers are resident", set.Residency())
	}
	if _, ok := set.Buffer(metal.Ref{View: "f16", Name: "z"}); ok {
		t.Error("the set has a tensor that nobody asked for")
	}
	// Loaded buffers are used again, by other sets and by readers of one tensor.
	if plan, err := l.Plan(refs); err != nil || plan.Windows != nil || plan.Arenas != nil || plan.Need != 0 || plan.Memory != 0 {
		t.Errorf("%+v, %v", plan, err)
	}
	second, err := l.Load(t.Context(), refs[1:4], metal.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	alone := get(t, l, "f16", "c")
	if b, _ := set.Buffer(refs[2]); &b.Contents[0] != &alone.Contents[0] || b.Offset != alone.Offset || b.Origin != metal.OriginMemory || b.Copied {
		t.Errorf("%+v and %+v", b.Origin, alone.Origin)
	}
	inSet, _ := set.Buffer(refs[0])
	if err := inSet.Release(); !errorLike(err, "f16/a", "belongs to a Set") {
		t.Errorf("release of a buffer of a set: %v", err)
	}
	if err := l.Close(); !errorLike(err, "f16/a, f16/b, f16/c, f16/d, f16/e and 1 more") {
		t.Errorf("Close: %v", err)
	}
	if err := set.Release(); err != nil {
		t.Error(err)
	}
	if err := set.Release(); !errorLike(err, "released before") {
		t.Errorf("second release: %v", err)
	}
	if err := inSet.View(func([]byte) error { return nil }); err == nil {
		t.Error("a buffer of a released set was read")
	}
	tree.same(second)
	if now := host.Counts(); now.Wraps != c.Wraps || now.Allocs != c.Allocs {
		t.Errorf("%+v after %+v", now, c)
	}
	if err := second.Release(); err != nil {
		t.Error(err)
	}
	none, err := l.Load(t.Context(), nil, metal.LoadOptions{Resident: true, Progress: p.report})
	if err != nil || len(none.Refs()) != 0 || none.Residency() != 0 || none.Release() != nil {
		t.Errorf("a set of nothing: %v", err)
	}
}

// nothingLeft fails the test if a load that failed left something behind.
func nothingLeft(t *testing.T, host *testhost.Host, tree *fakeTree, dir string) {
	t.Helper()
	if err := errors.Join(host.Left(), mapped(dir)); err != nil {
		t.Error(err)
	}
}

var errStop = errors.New("stop")

// A load that ends at any of its pieces, whatever ends it, leaves nothing.
func TestLoadEndsAnywhere(t *testing.T) {
	sizes := []int{100, 2*maxPiece + 5, 300, maxPiece + 1, 0, 7}
	for _, workers := range []int{1, 4} {
		for stop := 1; stop <= 9; stop++ {
			for name, how := range map[string]func(o *metal.LoadOptions, h *testhost.Options, tree *fakeTree, cancel func()) error{
				"progress": func(o *metal.LoadOptions, _ *testhost.Options, _ *fakeTree, _ func()) error {
					calls := 0
					o.Progress = func(int64, int64) error {
						if calls++; calls == stop {
							return errStop
						}
						return nil
					}
					return errStop
				},
				"context": func(o *metal.LoadOptions, _ *testhost.Options, _ *fakeTree, cancel func()) error {
					calls := 0
					o.Progress = func(int64, int64) error {
						if calls++; calls == stop {
							cancel()
						}
						return nil
					}
					return context.Canceled
				},
				"read": func(o *metal.LoadOptions, _ *testhost.Options, tree *fakeTree, _ func()) error {
					calls := 0
					var mu sync.Mutex
					tree.fail = func(string, int64) error {
						mu.Lock()
						defer mu.Unlock()
						if calls++; calls == min(stop, 4) {
							return errStop
						}
						return nil
					}
					return errStop
				},
			} {
				tree, refs := newFakeTree(t, sizes...)
				tree.keep("b", metal.OriginModel)
				tree.keep("f", metal.OriginCache)
				ctx, cancel := context.WithCancel(t.Context())
				var o metal.LoadOptions
				var h testhost.Options
				o.Workers = workers
				want := how(&o, &h, tree, cancel)
				host := testhost.New(t, h)
				l := newLoader(t, tree, metal.Options{Device: host})
				s, err := l.Load(ctx, refs, o)
				if stop > 8 && name != "read" { // there are eight pieces
					if err != nil {
						t.Errorf("%s: %v", name, err)
					} else if err := s.Release(); err != nil {
						t.Error(err)
					}
				} else if !errors.Is(err, want) || s != nil {
					t.Errorf("%s at piece %d: %v", name, stop, err)
				}
				cancel()
				nothingLeft(t, host, tree, filepath.Dir(tree.files["b"].path))
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	const n = 3 << 20
	for _, c := range []struct {
		name string
		opts metal.Options
		host testhost.Options
		refs []metal.Ref // all if nil
		want []string    // none for success
	}{
		{name: "enough", opts: metal.Options{MaxMemory: 2*n + 512}},
		{name: "too much for the option", opts: metal.Options{MaxMemory: 2*n - 1}, want: []string{"6.0 MiB are needed", "6.0 MiB of host memory may be taken", "MaxMemory"}},
		{name: "mapped files count for a GPU", opts: metal.Options{MaxMemory: 2*n + 512}, host: testhost.Options{Whole: true}, want: []string{"9.0 MiB are needed", "6.0 MiB"}},
		{name: "enough for a GPU", opts: metal.Options{MaxMemory: 3*n + 512}, host: testhost.Options{Whole: true}},
		{name: "as much as is free", host: testhost.Options{Free: 2 * n}},
		{name: "more than is free", host: testhost.Options{Free: n}, want: []string{"6.0 MiB are needed", "3.0 MiB of host memory may be taken", "load fewer"}},
		{name: "more than is free, but allowed", opts: metal.Options{MaxMemory: 3 * n}, host: testhost.Options{Free: 10}},
		{name: "not known what is free"},
		{name: "the first allocation fails", host: testhost.Options{FailAlloc: 1, MaxBufferLength: n}, want: []string{"no memory for"}},
		{name: "the second allocation fails", host: testhost.Options{FailAlloc: 2, MaxBufferLength: n}, want: []string{"no memory for"}},
		{name: "declined, and memory is too little", opts: metal.Options{MaxMemory: 2*n + 512}, host: testhost.Options{Decline: always}, want: []string{"9.0 MiB are needed"}},
		{name: "declined", opts: metal.Options{MaxMemory: 3 * n}, host: testhost.Options{Decline: always}},
		{name: "absent", refs: []metal.Ref{{View: "f16", Name: "a"}, {View: "f16", Name: "x"}}, want: []string{`"x"`, "not in the model"}},
		{name: "an option of nothing", opts: metal.Options{TailPad: n}, host: testhost.Options{MaxBufferLength: n + 4096}, want: []string{"f16/a: 3145728 bytes", "at most 4096"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree, refs := newFakeTree(t, n, n, n)
			tree.keep("c", metal.OriginModel)
			host := testhost.New(t, c.host)
			c.opts.Device = host
			l := newLoader(t, tree, c.opts)
			if c.refs != nil {
				refs = c.refs
			}
			s, err := l.Load(t.Context(), refs, metal.LoadOptions{})
			switch {
			case len(c.want) > 0:
				if !errorLike(err, c.want...) {
					t.Errorf("error %v, want one with %q", err, c.want)
				}
				if strings.Contains(fmt.Sprint(err), "needed") && len(tree.read) > 0 {
					t.Error("there was work before the refusal")
				}
				nothingLeft(t, host, tree, filepath.Dir(tree.files["c"].path))
			case err != nil:
				t.Error(err)
			default:
				tree.same(s)
				// What is taken is not free any more.
				if c.opts.MaxMemory > 0 {
					if p, err := l.Plan(nil); err != nil || p.Limit > c.opts.MaxMemory-2*n {
						t.Errorf("the limit is %d after a load: %v", p.Limit, err)
					}
				}
				if err := s.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Errors of a tree name the tensor, and a tensor that fails can be asked for again.
func TestTensorFails(t *testing.T) {
	tree, _ := newFakeTree(t, 3*maxPiece)
	host := testhost.New(t, testhost.Options{})
	l := newLoader(t, tree, metal.Options{Device: host})
	tree.fail = func(_ string, off int64) error {
		if off >= maxPiece {
			return errStop
		}
		return nil
	}
	if _, err := l.Tensor("f16", "a"); !errors.Is(err, errStop) || !errorLike(err, "f16/a: ") {
		t.Errorf("error %v", err)
	}
	nothingLeft(t, host, tree, "/nowhere")
	tree.fail = nil
	b := get(t, l, "f16", "a")
	if string(b.Contents) != string(tree.tensors["a"]) || b.Origin != metal.OriginMemory || b.Offset != 0 {
		t.Error("wrong bytes")
	}
	if again := get(t, l, "f16", "a"); &again.Contents[0] != &b.Contents[0] || host.Counts().Allocs != 2 {
		t.Error("it was read twice")
	}
}

// What no file holds goes to the cache first, if that is wished.
func TestLoadPrepares(t *testing.T) {
	for _, c := range []struct {
		mode   metal.CacheMode
		origin map[string]metal.Origin
		calls  int
	}{
		{metal.CacheRead, map[string]metal.Origin{"a": metal.OriginMemory, "b": metal.OriginModel, "c": metal.OriginCache}, 0},
		{metal.CacheOff, map[string]metal.Origin{"a": metal.OriginMemory, "b": metal.OriginModel, "c": metal.OriginMemory}, 0},
		{metal.CacheReadWrite, map[string]metal.Origin{"a": metal.OriginCache, "b": metal.OriginModel, "c": metal.OriginCache}, 1},
	} {
		fake, refs := newFakeTree(t, maxPiece+1, 5000, 6000)
		fake.keep("b", metal.OriginModel)
		fake.keep("c", metal.OriginCache)
		tree := &preparing{fakeTree: fake}
		l := newLoader(t, tree, metal.Options{Device: testhost.New(t, testhost.Options{})})
		p := &progress{t: t}
		s, err := l.Load(t.Context(), refs, metal.LoadOptions{Cache: c.mode, Progress: p.report})
		if err != nil {
			t.Fatal(err)
		}
		tree.same(s)
		for _, ref := range refs {
			if b, _ := s.Buffer(ref); b.Origin != c.origin[ref.Name] {
				t.Errorf("mode %d: %s is from %s", c.mode, ref, b.Origin)
			}
		}
		if len(tree.calls) != c.calls || c.calls > 0 && !reflect.DeepEqual(tree.calls[0], refs[:1]) {
			t.Errorf("mode %d: prepared %v", c.mode, tree.calls)
		}
		if p.done != p.total {
			t.Errorf("mode %d: progress ended at %d of %d", c.mode, p.done, p.total)
		}
		if err := s.Release(); err != nil {
			t.Error(err)
		}
	}
	// It is a use of the loader.
	fake, refs := newFakeTree(t, maxPiece)
	l := newLoader(t, &preparing{fakeTree: fake}, metal.Options{Device: testhost.New(t, testhost.Options{})})
	calls := 0
	s, err := l.Load(t.Context(), refs, metal.LoadOptions{Cache: metal.CacheReadWrite, Progress: func(int64, int64) error {
		if err := l.Close(); !errors.Is(err, metal.ErrInUse) {
			t.Errorf("closed while it was loading: %v", err)
		}
		calls++
		return nil
	}})
	if err != nil || calls < 2 {
		t.Fatal(calls, err)
	}
	if err := s.Release(); err != nil {
		t.Error(err)
	}
	// An error of the progress ends that too, and memory is asked for before.
	fake, refs = newFakeTree(t, maxPiece)
	l = newLoader(t, &preparing{fakeTree: fake}, metal.Options{Device: testhost.New(t, testhost.Options{Whole: true}), MaxMemory: maxPiece})
	if _, err := l.Load(t.Context(), refs, metal.LoadOptions{Cache: metal.CacheReadWrite, Progress: func(int64, int64) error { return errStop }}); !errors.Is(err, errStop) {
		t.Errorf("error %v", err)
	}
	small := newLoader(t, &preparing{fakeTree: &fakeTree{t: t, tensors: fake.tensors}}, metal.Options{Device: testhost.New(t, testhost.Options{Whole: true}), MaxMemory: 1000})
	if _, err := small.Load(t.Context(), refs, metal.LoadOptions{Cache: metal.CacheReadWrite}); !errorLike(err, "are needed") {
		t.Errorf("error %v", err)
	}
}

// Sets and single tensors are loaded and released by many at once.
func TestLoadConcurrently(t *testing.T) {
	tree, refs := newFakeTree(t, 1000, maxPiece+5, 0, 70_000, 5)
	tree.keep("b", metal.OriginModel)
	host := testhost.New(t, testhost.Options{})
	l := newLoader(t, tree, metal.Options{Device: host})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				if g%2 == 0 {
					ref := refs[(g+i)%len(refs)]
					b, err := l.Tensor(ref.View, ref.Name)
					if err != nil || string(b.Contents) != string(tree.tensors[ref.Name]) || b.Release() != nil {
						t.Errorf("%s: %v", ref, err)
					}
					continue
				}
				s, err := l.Load(t.Context(), refs[i%3:], metal.LoadOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				for _, ref := range s.Refs() {
					if b, _ := s.Buffer(ref); string(b.Contents) != string(tree.tensors[ref.Name]) {
						t.Errorf("%s: wrong bytes", ref)
					}
				}
				if err := s.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	nothingLeft(t, host, tree, filepath.Dir(tree.files["b"].path))
}

// bigTree has a model file of several pieces and a converted tensor of two, one of
// exactly one and one of none.
func bigTree() (*testtree.Tree, []metal.Ref, int64) {
	const blocks = 2*maxPiece/18 + 1
	model := make([]byte, 3*maxPiece+12345)
	for i := range model {
		model[i] = byte(i >> 12)
	}
	at := func(off, n int64) []testtree.Extent { return []testtree.Extent{{File: "m", Offset: off, Bytes: n}} }
	tree := &testtree.Tree{
		Sources: map[string][]byte{"m": model},
		Tensors: []testtree.Tensor{
			{View: "raw", Name: "a", DType: "U8", Shape: []int64{100}, Extents: at(64, 100)},
			{View: "raw", Name: "b", DType: "Q4_0", Shape: []int64{32 * blocks}, Extents: at(4096, 18*blocks)},
			{View: "raw", Name: "c", DType: "F32", Shape: []int64{maxPiece/2 + 1}, Extents: at(0, 2*maxPiece+4)},
			{View: "raw", Name: "whole", DType: "F32", Shape: []int64{maxPiece / 2}, Extents: at(0, 2*maxPiece)},
			{View: "raw", Name: "none", DType: "F16", Shape: []int64{0}, Extents: at(0, 0)},
			{View: "f16", Name: "c", DType: "F16", Shape: []int64{maxPiece/2 + 1}, Data: model[1 : maxPiece+3]},
			{View: "f16", Name: "whole", DType: "F16", Shape: []int64{maxPiece / 2}, Data: model[:maxPiece]},
		},
	}
	refs := []metal.Ref{{View: "raw", Name: "a"}, {View: "raw", Name: "b"}, {View: "packed", Name: "b"}, {View: "f16", Name: "c"},
		{View: "f16", Name: "whole"}, {View: "f16", Name: "none"}, {View: "raw", Name: "a"}}
	return tree, refs, 100 + 18*blocks + maxPiece + 2 + maxPiece
}

func TestPrefetch(t *testing.T) {
	tree, refs, want := bigTree()
	host := testhost.New(t, testhost.Options{})
	l, mount, model := openTree(t, tree, metal.Options{Device: host})
	p := &progress{t: t}
	if err := l.Prefetch(t.Context(), refs, func(done, total int64) { p.report(done, total) }); err != nil {
		t.Fatal(err)
	}
	if p.done != want || p.total != want || p.calls != 1+3+2+1 {
		t.Errorf("progress ended at %d of %d after %d calls", p.done, p.total, p.calls)
	}
	hold := get(t, l, "raw", "b")
	if err := l.Prefetch(t.Context(), refs, nil); err != nil {
		t.Error(err)
	}
	if err := l.Prefetch(t.Context(), nil, func(int64, int64) { t.Error("progress of nothing") }); err != nil {
		t.Error(err)
	}
	if c := host.Counts(); c.Wraps+c.Allocs != 1 || hold.Size <= 2*maxPiece {
		t.Errorf("the device was used: %+v", c)
	}
	if err := mapped(mount); err != nil {
		t.Error(err)
	}
	_ = model
}

func TestPrefetchErrors(t *testing.T) {
	tree, refs, _ := bigTree()
	l, mount, _ := openTree(t, tree, metal.Options{TreeOnly: true})
	if err := l.Prefetch(t.Context(), []metal.Ref{{View: "raw", Name: "nothing"}}, nil); !errors.Is(err, metal.ErrAbsent) {
		t.Errorf("a tensor that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := l.Prefetch(ctx, refs, func(done, total int64) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	// A file that is cut while it is mapped.
	ref := metal.Ref{View: "f16", Name: "c"}
	b := get(t, l, ref.View, ref.Name)
	if err := os.Truncate(filepath.Join(mount, "f16/c"), 4096); err != nil {
		t.Fatal(err)
	}
	_, lerr := l.Load(t.Context(), []metal.Ref{ref}, metal.LoadOptions{})
	for _, err := range []error{lerr, l.Prefetch(t.Context(), []metal.Ref{{View: "raw", Name: "a"}, ref}, nil)} {
		if !errorLike(err, "f16/c", "was lost while it was read") {
			t.Errorf("a cut file: %v", err)
		}
	}
	if b.Size != maxPiece+2 {
		t.Error("the buffer changed")
	}
}
