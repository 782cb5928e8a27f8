package views

import (
	"slices"
	"sort"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// Tensors are the tensors of a view by index, sorted by name. They are made on
// demand, so a view of 50,000 tensors costs an index and no more. Implementations
// are safe for concurrent use.
type Tensors interface {
	Len() int
	Name(i int) string
	At(i int) tensorfs.Tensor
}

// Find returns the index of a name.
func Find(ts Tensors, name string) (int, bool) {
	i := sort.Search(ts.Len(), func(i int) bool { return ts.Name(i) >= name })
	return i, i < ts.Len() && ts.Name(i) == name
}

// stored are a model's tensors as they are.
type stored []tensorfs.Tensor

func (s stored) Len() int                 { return len(s) }
func (s stored) Name(i int) string        { return s[i].Name }
func (s stored) At(i int) tensorfs.Tensor { return s[i] }

// derived are tensors that are each computed from one stored tensor.
type derived struct {
	from   []tensorfs.Tensor
	index  []int32 // of from, in the order of the names
	opts   Options
	suffix string // of the names
	show   func(t *tensorfs.Tensor, opts Options) (tensorfs.Tensor, string)
}

func (d *derived) Len() int { return len(d.index) }

func (d *derived) Name(i int) string { return d.from[d.index[i]].Weight() + d.suffix }

func (d *derived) At(i int) tensorfs.Tensor {
	t, _ := d.show(&d.from[d.index[i]], d.opts) // only tensors that can be shown are listed
	return t
}

// derive makes a view of tensors that are shown one by one: show returns the
// tensor as shown, or why that is not possible.
func derive(ts []tensorfs.Tensor, opts Options, show func(*tensorfs.Tensor, Options) (tensorfs.Tensor, string)) (*derived, []Absent) {
	d := &derived{from: ts, opts: opts, show: show}
	var absent []Absent
	for i := range ts {
		if _, reason := show(&ts[i], opts); reason != "" {
			a := Absent{Name: ts[i].Weight(), Lost: ts[i].Owner == "", reason: reason}
			if owner := ts[i].Owner; owner != "" && reason == companionOf(owner) {
				a.reason, a.owner = "", owner
			}
			absent = append(absent, a)
			continue
		}
		d.index = append(d.index, int32(i))
	}
	d.sort()
	sortAbsent(absent)
	return d, slices.Clone(absent) // without what append kept for more
}

// as shows the tensors of d another way, under names with a suffix, and leaves out tensors
// for which without gives a reason. absent lists the tensors that d leaves out.
func (d *derived) as(suffix string, absent []Absent, show func(*tensorfs.Tensor, Options) (tensorfs.Tensor, string), without func(*tensorfs.Tensor) string) (*derived, []Absent) {
	v := &derived{from: d.from, index: make([]int32, 0, len(d.index)), opts: d.opts, suffix: suffix, show: show}
	all := slices.Clone(absent)
	for i := range all {
		all[i].Name += suffix
	}
	for _, i := range d.index {
		if reason := without(&d.from[i]); reason != "" {
			all = append(all, Absent{Name: d.from[i].Weight() + suffix, Lost: true, reason: reason})
			continue
		}
		v.index = append(v.index, i)
	}
	if suffix == d.suffix && len(all) == len(absent) { // the lists are equal to d's
		v.index = d.index
		return v, absent
	}
	if suffix != d.suffix { // otherwise the order is d's
		v.sort()
	}
	sortAbsent(all)
	return v, all
}

// sort orders by name with suffix. Names are only joined if one begins with the other.
func (d *derived) sort() {
	slices.SortFunc(d.index, func(a, b int32) int {
		x, y := d.from[a].Weight(), d.from[b].Weight()
		n := min(len(x), len(y))
		if c := strings.Compare(x[:n], y[:n]); c != 0 {
			return c
		}
		return strings.Compare(x[n:]+d.suffix, y[n:]+d.suffix)
	})
}

func sortAbsent(absent []Absent) {
	slices.SortFunc(absent, func(a, b Absent) int { return strings.Compare(a.Name, b.Name) })
}
