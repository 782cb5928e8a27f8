package metal

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// place is where a tensor is to be had: from a part of a file, or, where File is
// nil, from memory that it is read or converted into.
type place struct {
	extent
	ref   Ref
	bytes int64
	data  tensorfs.Data
	path  string  // of a file that has the bytes
	live  *region // that has it, or will have it
}

// locate decides where a tensor comes from: the first of its extents that a buffer
// can begin in, else memory.
func (l *Loader) locate(ref Ref, mode CacheMode) (place, error) {
	t, err := l.Info(ref.View, ref.Name)
	if err != nil {
		return place{}, err
	}
	p := place{ref: ref, bytes: t.Data.Size(), data: t.Data}
	if p.bytes < 0 || p.bytes > l.info.MaxBufferLength-l.opts.TailPad {
		return p, fmt.Errorf("metal: %s: %d bytes, and %s takes buffers of at most %d", ref, p.bytes, l.info.Name, l.info.MaxBufferLength-l.opts.TailPad)
	}
	align := l.opts.OffsetAlign
	if elems, bytes := t.DType.Block(); align == 0 && elems == 1 {
		align = max(4, bytes)
	} else if align == 0 {
		align = 4 // block types hold nothing wider
	}
	for _, x := range l.tree.Extents(ref, &t) {
		p.path = x.File.Name()
		allowed := x.Origin == OriginModel && !l.opts.TreeOnly || x.Origin == OriginCache && mode != CacheOff
		// There is nothing to map of an empty tensor, and no buffer is empty.
		inside := p.bytes > 0 && x.Offset <= x.File.Size()-p.bytes-l.opts.TailPad
		if allowed && inside && x.Offset%align == 0 && p.bytes+l.opts.TailPad+x.Offset%l.info.PageSize <= l.limit {
			p.extent = x
			break
		}
	}
	return p, nil
}

// end is where the part of the file that a buffer must have ends.
func (l *Loader) end(p *place) int64 { return p.Offset + p.bytes + l.opts.TailPad }

// window is the region that contains only one place of a file: whole pages from its first
// one on.
func (l *Loader) window(p *place) *region {
	return &region{file: p.File, start: p.Offset / l.info.PageSize * l.info.PageSize, end: l.end(p), origin: p.Origin}
}

// counted is what of a region counts against the limit.
func (l *Loader) counted(r *region) int64 {
	switch {
	case r.file == nil:
		return r.end
	case l.info.Pageable:
		return 0
	}
	return roundUp(r.end-r.start, l.info.PageSize)
}

// sortByFile sorts places in files in the order in which disks like to read them.
func sortByFile(places []*place) {
	order := map[file]int{} // for files of one name
	for _, p := range places {
		if _, ok := order[p.File]; !ok {
			order[p.File] = len(order)
		}
	}
	slices.SortStableFunc(places, func(a, b *place) int {
		if a.File != b.File {
			return cmp.Or(cmp.Compare(a.File.Name(), b.File.Name()), cmp.Compare(order[a.File], order[b.File]))
		}
		return cmp.Compare(a.Offset, b.Offset)
	})
}

// maxGap is how much of a file may be in a buffer without being needed. A buffer of Metal
// is in memory as a whole.
const maxGap = 64 << 20

// windows returns the regions for places in files, and tells each place its own.
//
//	places    |--a--|---b---|   |--c--|            gap       |--d--|
//	regions  [=======================]                      [======]
//
// A region goes on while the gap is at most maxGap and the device takes its
// length. It begins on a page, and ends with its last place.
func (l *Loader) windows(places []*place) []*region {
	sortByFile(places)
	var all []*region
	for _, p := range places {
		w := l.window(p)
		if n := len(all); n > 0 {
			last := all[n-1]
			if last.file == w.file && p.Offset-last.end <= maxGap && max(last.end, w.end)-last.start <= l.limit {
				last.end = max(last.end, w.end)
				p.live = last
				continue
			}
		}
		all = append(all, w)
		p.live = w
	}
	return all
}

// maxArena is how long the buffers are that tensors in memory share. Few buffers
// are cheaper for Metal than many.
const maxArena = 1 << 30

// arenas returns the regions for places in memory, and tells each place its own.
func (l *Loader) arenas(places []*place) []*region {
	align := max(256, l.opts.OffsetAlign)
	var all []*region
	for _, p := range places {
		n := max(1, p.bytes+l.opts.TailPad)
		var r *region
		at := int64(0)
		if len(all) > 0 {
			r = all[len(all)-1]
			at = roundUp(r.end, align)
		}
		if r == nil || at+n > min(maxArena, l.info.MaxBufferLength) {
			r, at = &region{at: map[Ref]int64{}, origin: OriginMemory}, 0
			all = append(all, r)
		}
		r.at[p.ref], r.end = at, at+n
		p.live = r
	}
	return all
}

// job is what a load does.
type job struct {
	places  []place // one for each tensor, in the order in which they were asked for
	windows []*region
	arenas  []*region
	held    []*region // to be released when the job is done
}

// job plans a load. It holds what is there already if hold is set.
func (l *Loader) job(refs []Ref, mode CacheMode, hold bool) (*job, error) {
	j := &job{}
	seen := map[Ref]bool{}
	for _, ref := range refs {
		if seen[ref] {
			continue
		}
		seen[ref] = true
		p, err := l.locate(ref, mode)
		if err != nil {
			return nil, err
		}
		j.places = append(j.places, p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("metal: %w", ErrClosed)
	}
	var mapped, memory []*place
	for i := range j.places {
		p := &j.places[i]
		r := l.memory[p.ref]
		if p.File != nil && r == nil {
			r = l.regionLike(l.window(p))
		}
		switch {
		case r != nil && r.ready:
			p.live = r
			if hold {
				r.holders++
				j.held = append(j.held, r)
			}
		case p.File != nil:
			mapped = append(mapped, p)
		default:
			memory = append(memory, p)
		}
	}
	j.windows, j.arenas = l.windows(mapped), l.arenas(memory)
	return j, nil
}

// Plan is what a Load would do.
type Plan struct {
	Model, Cache, Memory int64    // bytes to read by origin; the same bytes under two names count once
	Windows              []Window // buffers over parts of files, without existing ones
	Arenas               []int64  // lengths of the device's own buffers, likewise
	Need                 int64    // bytes of both that count against the limit
	Limit                int64    // what may still be taken; 0 if unknown
}

// Window is a part of a file that becomes one buffer of the device.
type Window struct {
	File   string
	Offset int64
	Bytes  int64
	Origin Origin
}

// Plan describes what Load would do with default options. It reads no tensor.
func (l *Loader) Plan(refs []Ref) (Plan, error) {
	j, err := l.job(refs, CacheRead, false)
	if err != nil {
		return Plan{}, err
	}
	return l.summary(j), nil
}

func (l *Loader) summary(j *job) Plan {
	p := Plan{Limit: l.free()}
	for _, x := range j.pieces() {
		switch x.origin {
		case OriginModel:
			p.Model += x.n
		case OriginCache:
			p.Cache += x.n
		default:
			p.Memory += x.n
		}
	}
	for _, r := range j.windows {
		p.Windows = append(p.Windows, Window{r.file.Name(), r.start, r.end - r.start, r.origin})
		p.Need += l.counted(r)
	}
	for _, r := range j.arenas {
		p.Arenas = append(p.Arenas, r.end)
		p.Need += l.counted(r)
	}
	return p
}

// free is how much the loader may still take, 0 if unknown.
func (l *Loader) free() int64 {
	if l.opts.MaxMemory == 0 {
		if d, ok := l.device.(MemoryReporter); ok {
			return d.FreeMemory()
		}
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	free := l.opts.MaxMemory
	for r := range l.regions {
		free -= l.counted(r)
	}
	return max(free, 1) // 0 would be another thing
}

// affordable returns an error where a plan needs more than may be taken.
func (l *Loader) affordable(p Plan) error {
	if p.Limit == 0 || p.Need <= p.Limit {
		return nil
	}
	const mib = 1 << 20
	advice := "load fewer tensors, or raise Options.MaxMemory"
	if runtime.GOOS == "darwin" && l.opts.MaxMemory == 0 {
		advice = fmt.Sprintf("load fewer tensors, or give the GPU more of the memory: sudo sysctl iogpu.wired_limit_mb=%d", (l.info.RecommendedMemory-p.Limit+p.Need)/mib+1)
	}
	return fmt.Errorf("metal: %w: %.1f MiB are needed and %.1f MiB of %s may be taken: %s", ErrMemory, float64(p.Need)/mib, float64(p.Limit)/mib, l.info.Name, advice)
}
