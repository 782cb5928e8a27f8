package tensorfs

import (
	"context"
	"sort"
)

// joined presents several Data as one: it repeats, rounds times, a period that
// takes the next chunk of every part in turn. Concatenation is the case of one
// round.
type joined struct {
	parts  []Data
	ends   []int64 // ends[i] is where the chunk of part i ends inside a period
	rounds int64
}

// Concat returns parts back to back:
//
//	Concat(q, k, v)   |---q---|--k--|--v--|
//
// It can do what all of its parts can: it has extents where all of them are in
// the model's files. It is a [PartSlicer] that has the memory of its parts.
func Concat(parts ...Data) Data {
	if len(parts) == 1 {
		return parts[0]
	}
	return Interleave(1, parts...)
}

// Interleave returns parts in turn, a chunk of each in every round:
//
//	Interleave(3, gate, up)   |gate 0|up 0|gate 1|up 1|gate 2|up 2|
//
// A part consists of rounds chunks of equal size, so its size is a multiple of
// rounds; parts may differ in size. It can do what all of its parts can, as with
// [Concat].
func Interleave(rounds int64, parts ...Data) Data {
	if len(parts) == 0 {
		return Bytes(nil)
	}
	j := &joined{parts: parts, rounds: rounds, ends: make([]int64, len(parts))}
	end := int64(0)
	for i, p := range parts {
		if rounds > 0 {
			end += p.Size() / rounds
		}
		j.ends[i] = end
	}
	return j
}

func (j *joined) period() int64 { return j.ends[len(j.ends)-1] }

func (j *joined) Size() int64 { return j.period() * j.rounds }

// each calls fn for the pieces of parts that make up [off, off+n), in order.
func (j *joined) each(off, n int64, fn func(part Data, off, n int64) error) error {
	period := j.period()
	for n > 0 {
		round, within := off/period, off%period
		i := sort.Search(len(j.ends), func(i int) bool { return j.ends[i] > within })
		start := int64(0)
		if i > 0 {
			start = j.ends[i-1]
		}
		take := min(n, j.ends[i]-within)
		if err := fn(j.parts[i], round*(j.ends[i]-start)+within-start, take); err != nil {
			return err
		}
		off, n = off+take, n-take
	}
	return nil
}

func (j *joined) ReadAt(p []byte, off int64) (int, error) {
	return j.ReadAtContext(context.Background(), p, off)
}

func (j *joined) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	n, eof := ClipRange(j.Size(), p, off)
	if n == 0 {
		return 0, eof
	}
	done := 0
	err := j.each(off, int64(n), func(part Data, off, n int64) error {
		if err := ReadFullContext(ctx, part, p[done:done+int(n)], off); err != nil {
			return err
		}
		done += int(n)
		return nil
	})
	if err != nil {
		return done, err
	}
	return n, eof
}

func (j *joined) Check() error {
	for _, p := range j.parts {
		if err := Check(p); err != nil {
			return err
		}
	}
	return nil
}

// CheckPart asks the parts that [off, off+n) is of, each once.
func (j *joined) CheckPart(off, n int64) error {
	if n >= j.period() {
		return j.Check()
	}
	return j.each(off, n, CheckPart)
}

// maxExtents bounds what Extents lists: data in more pieces than this is easier
// to read through the mount.
const maxExtents = 4096

func (j *joined) Extents() []Extent {
	all := make([][]Extent, len(j.parts))
	for i, p := range j.parts {
		if all[i] = Extents(p); all[i] == nil && p.Size() > 0 {
			return nil
		}
	}
	if j.Size() == 0 || j.rounds > maxExtents {
		return nil
	}
	var out []Extent
	for round := range j.rounds {
		start := int64(0)
		for i, end := range j.ends {
			chunk := end - start
			out = appendExtents(out, cutExtents(all[i], round*chunk, chunk))
			start = end
		}
	}
	if len(out) > maxExtents {
		return nil
	}
	return out
}

// appendExtents appends more to out, merging extents that are adjacent in a file.
func appendExtents(out, more []Extent) []Extent {
	for _, e := range more {
		if last := len(out) - 1; last >= 0 && out[last].File == e.File && out[last].Offset+out[last].Bytes == e.Offset {
			out[last].Bytes += e.Bytes
			continue
		}
		out = append(out, e)
	}
	return out
}

func (j *joined) SlicesIf(dst [][]byte, off, n int64) (_ [][]byte, all bool, err error) {
	if err := CheckRange(j, off, n); err != nil {
		return dst, false, err
	}
	kept := len(dst)
	all = true
	err = j.each(off, n, func(part Data, off, n int64) (err error) {
		if all {
			dst, all, err = Slices(part, dst, off, n)
		}
		return err
	})
	if err != nil || !all {
		return dst[:kept], false, err
	}
	return dst, true, nil
}

var (
	_ Extenter        = (*joined)(nil)
	_ ContextReaderAt = (*joined)(nil)
	_ PartSlicer      = (*joined)(nil)
	_ PartChecker     = (*joined)(nil)
)
