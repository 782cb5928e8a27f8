package metal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// namedFile is a file of a plan, which is never opened.
type namedFile struct {
	name string
	size int64
}

func (f *namedFile) Name() string            { return f.name }
func (f *namedFile) Size() int64             { return f.size }
func (f *namedFile) Open() (*os.File, error) { return nil, fmt.Errorf("%s was opened", f.name) }

// planner is a loader that can only plan windows.
func planner(limit, page, pad int64) *Loader {
	return &Loader{info: DeviceInfo{PageSize: page, MaxBufferLength: limit}, limit: limit / page * page, opts: Options{TailPad: pad}}
}

// Every place lies whole in the window that it is told, whatever offsets, sizes
// and overlaps; windows fit the device, begin on pages, end with a place and have
// no gap that is too long.
func TestWindowsHoldTheirPlaces(t *testing.T) {
	const page = 4096
	rng := rand.New(rand.NewPCG(3, 4))
	files := []*namedFile{{"b", 0}, {"a", 0}, {"a", 0}}
	for round := range 5000 {
		pad := []int64{0, 0, 100}[rng.IntN(3)]
		limit := page * (1 + rng.Int64N(1<<16))
		l := planner(limit, page, pad)
		places := make([]*place, 1+rng.IntN(12))
		for i := range places {
			off := rng.Int64N(1 << 30)
			places[i] = &place{bytes: 1 + rng.Int64N(max(1, l.limit-off%page-pad)), extent: extent{File: files[rng.IntN(len(files))], Offset: off}}
			if p := places[i]; off%page+p.bytes+pad > l.limit {
				p.Offset = off / page * page
				p.bytes = max(1, l.limit-pad)
			}
		}
		given := slices.Clone(places)
		all := l.windows(places)
		for _, p := range given {
			w := p.live
			if w == nil || w.file != p.File || p.Offset < w.start || p.Offset+p.bytes+pad > w.end || !slices.Contains(all, w) {
				t.Fatalf("round %d: place %+v is not in its window %+v", round, p, w)
			}
		}
		for _, w := range all {
			var mine []*place
			for _, p := range given {
				if p.live == w {
					mine = append(mine, p)
				}
			}
			slices.SortFunc(mine, func(a, b *place) int { return int(a.Offset - b.Offset) })
			end := mine[0].Offset
			if w.start != end/page*page || w.end-w.start > l.limit {
				t.Fatalf("round %d: window %+v of %d, the first place is at %d", round, w, l.limit, end)
			}
			for _, p := range mine {
				if p.Offset-end > maxGap {
					t.Fatalf("round %d: a gap of %d", round, p.Offset-end)
				}
				end = max(end, p.Offset+p.bytes+pad)
			}
			if w.end != end {
				t.Fatalf("round %d: the window ends at %d, and its last place at %d", round, w.end, end)
			}
		}
	}
}

func TestWindows(t *testing.T) {
	const page = 4096
	type span [2]int64 // offset and bytes
	for _, c := range []struct {
		name  string
		limit int64
		pad   int64
		spans []span
		want  []span // start and end
	}{
		{"one page of a large file", 1 << 40, 0, []span{{5000, 10}}, []span{{4096, 5010}}},
		{"all of a file", 1 << 40, 0, []span{{9000, 10}, {100, 50}}, []span{{0, 9010}}},
		{"a gap that is just short enough", 1 << 40, 0, []span{{0, 4096}, {4096 + maxGap, 8}}, []span{{0, 4096 + maxGap + 8}}},
		{"a gap that is too long", 1 << 40, 0, []span{{0, 4096}, {4096 + maxGap + 1, 8}}, []span{{0, 4096}, {4096 + maxGap, 4096 + maxGap + 9}}},
		{"cut at the longest buffer", 2 * page, 0, []span{{0, page}, {page, page}, {2 * page, page}}, []span{{0, 2 * page}, {2 * page, 3 * page}}},
		{"a page that two share", 2 * page, 0, []span{{0, page + 1}, {page + 1, page}}, []span{{0, page + 1}, {page, 2*page + 1}}},
		{"one inside another", 8 * page, 0, []span{{0, 5 * page}, {page, 10}, {5 * page, 10}}, []span{{0, 5*page + 10}}},
		{"the same twice", 8 * page, 0, []span{{10, 10}, {10, 10}}, []span{{0, 20}}},
		{"space after the last", 8 * page, 512, []span{{0, 10}, {100, 10}}, []span{{0, 622}}},
	} {
		var places []*place
		file := &namedFile{"m", 1 << 40}
		for _, s := range c.spans {
			places = append(places, &place{bytes: s[1], extent: extent{File: file, Offset: s[0], Origin: OriginModel}})
		}
		var got []span
		for _, w := range planner(c.limit, page, c.pad).windows(places) {
			got = append(got, span{w.start, w.end})
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Tensors in memory share buffers, each at a multiple of 256 or of OffsetAlign.
func TestArenas(t *testing.T) {
	for _, c := range []struct {
		name   string
		limit  int64
		align  int64
		pad    int64
		sizes  []int64
		want   []int64 // lengths
		starts []int64
	}{
		{"one", 1 << 40, 0, 0, []int64{5}, []int64{5}, []int64{0}},
		{"an empty one", 1 << 40, 0, 0, []int64{0}, []int64{1}, []int64{0}},
		{"several", 1 << 40, 0, 0, []int64{5, 256, 0, 1}, []int64{769}, []int64{0, 256, 512, 768}},
		{"aligned to more", 1 << 40, 4096, 0, []int64{5, 5}, []int64{4101}, []int64{0, 4096}},
		{"with space after each", 1 << 40, 0, 100, []int64{200, 5}, []int64{617}, []int64{0, 512}},
		{"as much as an arena takes", 1 << 40, 0, 0, []int64{maxArena - 256, 256, 1}, []int64{maxArena, 1}, []int64{0, maxArena - 256, 0}},
		{"more than an arena takes", 1 << 40, 0, 0, []int64{1, 2 * maxArena, 1}, []int64{1, 2 * maxArena, 1}, []int64{0, 0, 0}},
		{"more than a buffer takes", 8192, 0, 0, []int64{8000, 8000, 100}, []int64{8000, 8000, 100}, []int64{0, 0, 0}},
	} {
		l := planner(c.limit, 4096, c.pad)
		l.opts.OffsetAlign = c.align
		var places []*place
		for i, n := range c.sizes {
			places = append(places, &place{ref: Ref{"v", fmt.Sprint(i)}, bytes: n})
		}
		var lengths, starts []int64
		for _, r := range l.arenas(places) {
			lengths = append(lengths, r.end)
		}
		for _, p := range places {
			starts = append(starts, p.live.at[p.ref])
		}
		if !slices.Equal(lengths, c.want) || !slices.Equal(starts, c.starts) {
			t.Errorf("%s: lengths %v, starts %v; want %v and %v", c.name, lengths, starts, c.want, c.starts)
		}
	}
}
