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

// listed are some of a model's tensors, sorted by the names that a view gives them.
type listed struct {
	from   []tensorfs.Tensor
	index  []int32 // of from, in the order of the names
	suffix string  // of the names
}

func (l *listed) Len() int { return len(l.index) }

func (l *listed) Name(i int) string { return l.from[l.index[i]].Weight() + l.suffix }

// sort orders by name with suffix. Names are only joined if one begins with the other.
func (l *listed) sort() {
	slices.SortFunc(l.index, func(a, b int32) int {
		x, y := l.from[a].Weight(), l.from[b].Weight()
		n := min(len(x), len(y))
		if c := strings.Compare(x[:n], y[:n]); c != 0 {
			return c
		}
		return strings.Compare(x[n:]+l.suffix, y[n:]+l.suffix)
	})
}

// derived are tensors that are each computed from one stored tensor.
type derived struct {
	listed
	opts   Options
	show   func(t *tensorfs.Tensor, opts Options) (tensorfs.Tensor, string)
	absent *hidden
}

func (d *derived) At(i int) tensorfs.Tensor {
	t, _ := d.show(&d.from[d.index[i]], d.opts) // only tensors that can be shown are listed
	return t
}

// all are the tensors and what is left out of them.
func (d *derived) all() (Tensors, Absent) { return d, Absent{d.absent} }

// hidden are stored tensors from which a view computes none.
type hidden struct {
	listed
	why func(t *tensorfs.Tensor) (reason string, lost bool)
}

func (h *hidden) Lost(i int) bool {
	_, lost := h.why(&h.from[h.index[i]])
	return lost
}

func (h *hidden) Reason(i int) string {
	reason, _ := h.why(&h.from[h.index[i]])
	return reason
}

// derive makes a view of tensors that are shown one by one: show returns the
// tensor as shown, or why that is not possible.
func derive(ts []tensorfs.Tensor, opts Options, show func(*tensorfs.Tensor, Options) (tensorfs.Tensor, string)) *derived {
	left := &hidden{listed: listed{from: ts}, why: func(t *tensorfs.Tensor) (reason string, lost bool) {
		_, reason = show(t, opts)
		return reason, t.Owner == ""
	}}
	d := &derived{listed: listed{from: ts}, opts: opts, show: show, absent: left}
	for i := range ts {
		if _, reason := show(&ts[i], opts); reason != "" {
			left.index = append(left.index, int32(i))
			continue
		}
		d.index = append(d.index, int32(i))
	}
	d.sort()
	left.sort()
	return d
}

// as shows the tensors of d another way, under names with a suffix, and leaves out tensors
// for which without gives a reason.
func (d *derived) as(suffix string, show func(*tensorfs.Tensor, Options) (tensorfs.Tensor, string), without func(*tensorfs.Tensor) string) *derived {
	left := &hidden{listed: listed{from: d.from, index: slices.Clone(d.absent.index), suffix: suffix}, why: func(t *tensorfs.Tensor) (string, bool) {
		if reason, lost := d.absent.why(t); reason != "" {
			return reason, lost
		}
		return without(t), true
	}}
	v := &derived{listed: listed{from: d.from, index: make([]int32, 0, len(d.index)), suffix: suffix}, opts: d.opts, show: show, absent: left}
	for _, i := range d.index {
		if without(&d.from[i]) != "" {
			left.index = append(left.index, i)
			continue
		}
		v.index = append(v.index, i)
	}
	if suffix == d.suffix && len(v.index) == len(d.index) { // the lists are equal to d's
		v.index, v.absent = d.index, d.absent
		return v
	}
	if suffix != d.suffix { // otherwise the order is d's
		v.sort()
	}
	left.sort()
	return v
}
