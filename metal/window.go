package metal

import (
	"cmp"
	"slices"
)

// span is a tensor in a file of the model.
type span struct {
	off, bytes int64
	view       int32 // place in index.views
	entry      int32 // place in the view's entries
}

// plan cuts a file into windows of at most limit bytes, so that every span that
// fits into any window lies whole in one. limit is whole pages.
//
//	spans     |--a--|---b---|------c------|--d--|
//	windows  [=============]                         starts on the page of a
//	                        [===================]    starts on the page of c
//
// It returns the windows' starts, ascending. A window reaches limit bytes from
// its start, or to the end of the mapping.
func plan(spans []span, limit, page int64) []int64 {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.bytes, b.bytes)) })
	var starts []int64
	for _, s := range spans {
		start := s.off / page * page
		if s.bytes > limit-(s.off-start) {
			continue // fits in no window: it is served from a file of its own
		}
		if len(starts) == 0 || s.off-starts[len(starts)-1] > limit-s.bytes {
			starts = append(starts, start)
		}
	}
	return starts
}

// windowOf returns the start of the window that holds bytes at off; false where
// they fit in none.
//
// It is the last window that starts at or before off. If s is a span that a plan
// was made for, that window holds s: when s had its turn it either fitted into
// the last window so far or began a new one, and a window added after s starts,
// when at or before off, on the page of off, which s could have begun as well.
func windowOf(starts []int64, limit, off, bytes int64) (int64, bool) {
	i, found := slices.BinarySearch(starts, off)
	if !found {
		i--
	}
	if i < 0 || off-starts[i] > limit-bytes {
		return 0, false
	}
	return starts[i], true
}
