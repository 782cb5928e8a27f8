package metal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/exported"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/views"
	modeltree "github.com/tensorfs/tensorfs/views/tree"
)

// tree is a model as a Tree.
type tree struct {
	model     *tensorfs.Model
	requested *models.Model // the same with what was asked of it
	names     []string      // of the views, sorted
	views     map[string]func() *view
	opts      views.Options
	kept      kept

	mu    sync.Mutex
	files map[string]*modelFile // by their names below source/; nil if it cannot be mapped
}

// view is a view that was made.
type view struct {
	views.Built
	names []string
	// reason is why there are no tensors, of one of wholeViews.
	reason string
	alike  func() map[string]bool // names that differ from another one only in case
}

var (
	_ shelf    = (*tree)(nil)
	_ preparer = (*tree)(nil)
)

// newTree returns what a loader loads a model from. The tree closes the model.
func newTree(m *models.Model, o Options) *tree {
	t := &tree{model: m.Model, requested: m, opts: m.Options.Views, views: map[string]func() *view{}, files: map[string]*modelFile{}}
	t.kept = kept{tree: t, dir: o.CacheDir, limit: o.CacheLimit, log: o.Logger}
	chosen := m.Options.Views.Views
	if chosen == nil {
		chosen, _ = views.Choose([]string{views.Default}) // which is known
	}
	for _, v := range chosen {
		t.names = append(t.names, v.Name)
	}
	for _, v := range views.All {
		t.views[v.Name] = sync.OnceValue(func() *view { return t.build(v) })
	}
	for name := range wholeViews {
		t.views[name] = sync.OnceValue(func() *view { return t.buildWhole(name) })
	}
	slices.Sort(t.names)
	return t
}

func (t *tree) build(v views.View) *view {
	opts := t.opts
	opts.Views = []views.View{v}
	return newView(views.Build(t.model, opts)[0])
}

func newView(b views.Built) *view {
	v := &view{Built: b, names: make([]string, b.Tensors.Len())}
	for i := range v.names {
		v.names[i] = b.Tensors.Name(i)
	}
	v.alike = sync.OnceValue(func() map[string]bool { return alike(v.names) })
	return v
}

// alike returns those names that differ from another one only in case.
func alike(names []string) map[string]bool {
	found, first := map[string]bool{}, make(map[string]string, len(names))
	for _, name := range names {
		key := strings.ToLower(name)
		if other, ok := first[key]; ok {
			found[other], found[name] = true, true
		} else {
			first[key] = name
		}
	}
	return found
}

func (t *tree) Model() *tensorfs.Model { return t.model }

func (t *tree) Tree() *modeltree.Tree { return t.requested.Tree() }

func (t *tree) Views() []string { return slices.Clone(t.names) }

// has reports whether there is a view.
func (t *tree) has(view string) bool {
	return slices.Contains(t.names, view) || wholeViews[view] != nil
}

func (t *tree) Names(view string) []string {
	if !t.has(view) {
		return nil
	}
	return t.views[view]().names
}

// joinedFrom maps a view to the view whose tensors it joins.
var joinedFrom = map[string]string{"fused": "packed", "fused-f16": "f16"}

func (t *tree) Tensor(ref Ref) (tensorfs.Tensor, error) {
	view, name := ref.View, ref.Name
	if !t.has(view) {
		return tensorfs.Tensor{}, absent(fmt.Sprintf("%q: no such view; there are %s", view, strings.Join(t.names, ", ")))
	}
	v := t.views[view]()
	if from := joinedFrom[view]; from != "" && t.model.Shown != nil && t.model.Tensor(name) != nil {
		if _, ok := t.model.Shown(view, name); ok { // of a tree that lacks what was joined, so it is a tensor of the model
			v = t.views[from]()
		}
	}
	if i, ok := slices.BinarySearch(v.names, name); ok {
		return v.Tensors.At(i), nil
	}
	reason, ok := v.WhyAbsent(name)
	if !ok {
		reason = cmp.Or(v.reason, ErrAbsent.Error())
	}
	return tensorfs.Tensor{}, absent(fmt.Sprintf("%q is not in view %q: %s", name, view, reason))
}

// Extents returns the tensor's place in a file of the model, its file in the tree that the
// model was opened from, and its file in the cache.
func (t *tree) Extents(ref Ref, x *tensorfs.Tensor) (out []extent) {
	size, shown := x.Data.Size(), t.model.Shown != nil
	origin := OriginModel
	if t.model.Format == exported.Format {
		origin = OriginCache
	}
	if e := tensorfs.Extents(x.Data); len(e) == 1 && e[0].Bytes == size {
		if f := t.file(e[0].File); f != nil && !(shown && tensorfs.Check(f.descriptor) != nil) { // else the tree still has it
			out = append(out, extent{f, e[0].Offset, origin})
		}
	}
	if shown {
		if f, ok := t.model.Shown(ref.View, ref.Name); ok && f.Bytes == size {
			out = append(out, extent{shownFile{t, ref, f.Path, size}, 0, OriginCache})
		}
	}
	if f, ok := t.kept.file(ref, size); ok {
		out = append(out, extent{f, 0, OriginCache})
	}
	return out
}

func (t *tree) Close() error {
	err := t.kept.close()
	if cerr := t.model.Close(); cerr != nil {
		err = cerr
	}
	return err
}
