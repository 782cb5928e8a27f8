package tensorfs

import (
	"context"
	"errors"
	"io"
	"sort"
	"sync"
	"weak"
)

// Bytes is Data in memory.
type Bytes []byte

// Size returns the length.
func (b Bytes) Size() int64 { return int64(len(b)) }

// ReadAt implements io.ReaderAt.
func (b Bytes) ReadAt(p []byte, off int64) (int, error) {
	n, eof := ClipRange(b.Size(), p, off)
	if n > 0 {
		copy(p, b[off:])
	}
	return n, eof
}

// View returns the bytes [off, off+n). See [Viewer].
func (b Bytes) View(off, n int64) ([]byte, Memory, error) {
	if err := checkRange(b.Size(), off, n); err != nil {
		return nil, nil, err
	}
	return b[off : off+n], nil, nil
}

// Slices appends the memory of [off, off+n). See [Slicer].
func (b Bytes) Slices(dst [][]byte, off, n int64) ([][]byte, error) {
	if err := checkRange(b.Size(), off, n); err != nil {
		return dst, err
	}
	return append(dst, b[off:off+n]), nil
}

var (
	_ Viewer = Bytes(nil)
	_ Slicer = Bytes(nil)
)

// Section returns the bytes [off, off+n) of d:
//
//	d                       |·····|=========|······|
//	Section(d, off, n)      off → |=========| n bytes
//
// It can do whatever d can. A read beyond d is an error.
func Section(d Data, off, n int64) Data {
	return &section{d, off, n}
}

// Whole returns all of d. For a file it returns a section of the file's own kind, because
// remote files read ahead only for readers of their sections.
func Whole(d Data) Data {
	if f, ok := d.(interface{ Section(off, n int64) Data }); ok {
		return f.Section(0, d.Size())
	}
	return d
}

// section is a part of d.
type section struct {
	d      Data
	off, n int64
}

func (s *section) Size() int64 { return s.n }

func (s *section) ReadAt(p []byte, off int64) (int, error) {
	return s.ReadAtContext(context.Background(), p, off)
}

func (s *section) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	n, eof := ClipRange(s.n, p, off)
	if n == 0 {
		return 0, eof
	}
	if err := ReadFullContext(ctx, s.d, p[:n], s.off+off); err != nil {
		return 0, err
	}
	return n, eof
}

// unwrap returns the Data that a section, or a section of one, is a part of, and where
// in it the byte at off is.
func unwrap(d Data, off int64) (Data, int64) {
	for {
		s, ok := d.(*section)
		if !ok {
			return d, off
		}
		d, off = s.d, s.off+off
	}
}

func (s *section) Extents() []Extent { return cutExtents(Extents(s.d), s.off, s.n) }

func (s *section) Check() error { return Check(s.d) }

func (s *section) CheckPart(off, n int64) error { return CheckPart(s.d, s.off+off, n) }

func (s *section) SlicesIf(dst [][]byte, off, n int64) ([][]byte, bool, error) {
	if err := CheckRange(s, off, n); err != nil {
		return dst, false, err
	}
	return Slices(s.d, dst, s.off+off, n)
}

// Hold holds the bytes in d. See [Holder].
func (s *section) Hold(off, n int64) (release func(), ok bool) { return Hold(s.d, s.off+off, n) }

// cutExtents returns the part [off, off+n) of extents.
func cutExtents(extents []Extent, off, n int64) []Extent {
	var out []Extent
	for _, e := range extents {
		if off >= e.Bytes {
			off -= e.Bytes
			continue
		}
		take := min(n, e.Bytes-off)
		if take <= 0 {
			break
		}
		out = append(out, Extent{File: e.File, Offset: e.Offset + off, Bytes: take})
		off, n = 0, n-take
	}
	return out
}

var (
	_ Extenter        = (*section)(nil)
	_ Checker         = (*section)(nil)
	_ ContextReaderAt = (*section)(nil)
	_ PartSlicer      = (*section)(nil)
	_ PartChecker     = (*section)(nil)
	_ Holder          = (*section)(nil)
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

// errNotHeld ends Hold at a part that cannot be held.
var errNotHeld = errors.New("not held")

// Hold holds the parts that [off, off+n) is of. See [Holder].
func (j *joined) Hold(off, n int64) (release func(), ok bool) {
	var held []func()
	release = func() {
		for _, r := range held {
			r()
		}
	}
	err := j.each(off, n, func(part Data, off, n int64) error {
		r, ok := Hold(part, off, n)
		if !ok {
			return errNotHeld
		}
		held = append(held, r)
		return nil
	})
	if err != nil {
		release()
		return nil, false
	}
	return release, true
}

var (
	_ Extenter        = (*joined)(nil)
	_ ContextReaderAt = (*joined)(nil)
	_ PartSlicer      = (*joined)(nil)
	_ PartChecker     = (*joined)(nil)
	_ Holder          = (*joined)(nil)
)

// Text is Data that is rendered when it is read: n pieces, each rendered
// separately and always to the same bytes.
//
//	NewText(4, render)   |render 0|render 1|·|render 3|
//
// It keeps the offsets of the pieces and, as long as the garbage collector
// permits, the piece that was read last.
type Text struct {
	n      int
	render func(dst []byte, piece int) []byte
	once   sync.Once
	starts []int64 // of piece i; starts[n] is the size
	mu     sync.Mutex
	last   int
	text   weak.Pointer[[]byte]
}

// NewText returns Data of n pieces. render appends piece i to dst.
func NewText(n int, render func(dst []byte, piece int) []byte) *Text {
	return &Text{n: n, render: render}
}

// Size renders everything once, on the first call.
func (t *Text) Size() int64 {
	t.once.Do(func() {
		t.starts = make([]int64, t.n+1)
		var b []byte
		for i := range t.n {
			b = t.render(b[:0], i)
			t.starts[i+1] = t.starts[i] + int64(len(b))
		}
		if t.n == 1 {
			t.text = weak.Make(&b)
		}
	})
	return t.starts[t.n]
}

// ReadAt renders the pieces that p needs.
func (t *Text) ReadAt(p []byte, off int64) (int, error) {
	n, eof := ClipRange(t.Size(), p, off)
	for done := 0; done < n; {
		at := off + int64(done)
		i := sort.Search(t.n, func(i int) bool { return t.starts[i+1] > at })
		size := int(t.starts[i+1] - t.starts[i])
		whole := at == t.starts[i] && size <= n-done && t.n > 1
		var b []byte
		if whole { // it is rendered to its place
			b = t.render(p[done:done:done+size], i)
		} else {
			b = t.piece(i)
		}
		if len(b) != size { // the model changed after its size was taken
			return done, io.ErrUnexpectedEOF
		}
		done += copy(p[done:n], b[at-t.starts[i]:])
	}
	return n, eof
}

func (t *Text) piece(i int) []byte {
	t.mu.Lock()
	p := t.text.Value()
	hit := t.last == i
	t.mu.Unlock()
	if hit && p != nil {
		return *p
	}
	b := t.render(nil, i)
	t.mu.Lock()
	t.last, t.text = i, weak.Make(&b)
	t.mu.Unlock()
	return b
}

var _ Data = (*Text)(nil)
