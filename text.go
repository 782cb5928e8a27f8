package tensorfs

import (
	"io"
	"sort"
	"sync"
	"weak"
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
		if len(b) != size { // the model has changed meanwhile
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
