package arrange

import (
	"sync"

	"github.com/tensorfs/tensorfs"
)

// A small read of a transposed matrix costs as much as a large one: every row of
// the source has a few of its bytes, and most of the cost is to reach them. So
// columns are made by bands, and the last few bands of all tensors are kept.
const (
	bandBytes = 4 << 20
	maxBands  = 8
	// Matrices up to this size are quickly reached.
	smallMatrix = 1 << 20
)

// band is some columns of a matrix, as rows.
type band struct {
	t             *transposed
	matrix, index int64
	made          chan struct{} // closed when b and err are set
	b             []byte
	err           error
}

// bands are the most recently used ones, the latest first.
var bands struct {
	sync.Mutex
	list []*band
}

// perBand is how many columns a band has, 0 if bands are not used.
func (t *transposed) perBand() int64 {
	if t.rows*t.cols*t.width <= smallMatrix {
		return 0
	}
	return bandBytes / (t.rows * t.width)
}

// fromBand writes elements of a matrix from one on, as many as its band has, and
// returns how many bytes these are.
func (t *transposed) fromBand(dst []byte, matrix, col, row int64) (int, error) {
	per := t.perBand()
	b, err := t.band(matrix, col/per)
	if err == nil {
		err = tensorfs.Check(t.d) // a kept band may come from a file that has changed
	}
	if err != nil {
		return 0, err
	}
	return copy(dst, b[(col%per*t.rows+row)*t.width:]), nil
}

// band returns a band of a matrix. One that several readers want is made once.
func (t *transposed) band(matrix, index int64) ([]byte, error) {
	bands.Lock()
	b, isNew := t.kept(matrix, index)
	bands.Unlock()
	if !isNew {
		<-b.made
		return b.b, b.err
	}
	first := index * t.perBand()
	cols := min(t.perBand(), t.cols-first)
	b.b = make([]byte, cols*t.rows*t.width)
	b.err = t.columns(b.b, matrix, 0, first, t.rows, cols)
	if b.err != nil {
		bands.Lock()
		for i, o := range bands.list {
			if o == b {
				bands.list = append(bands.list[:i], bands.list[i+1:]...)
				break
			}
		}
		bands.Unlock()
	}
	close(b.made)
	return b.b, b.err
}

// kept returns a band from the list, or a new one, which it puts there. The list
// is locked.
func (t *transposed) kept(matrix, index int64) (b *band, isNew bool) {
	at := -1
	for i, o := range bands.list {
		if o.t == t && o.matrix == matrix && o.index == index {
			b, at = o, i
		}
	}
	switch {
	case at >= 0:
	case len(bands.list) < maxBands:
		bands.list = append(bands.list, nil)
		at = len(bands.list) - 1
	default:
		at = maxBands - 1
	}
	if b == nil {
		b, isNew = &band{t: t, matrix: matrix, index: index, made: make(chan struct{})}, true
	}
	copy(bands.list[1:at+1], bands.list[:at])
	bands.list[0] = b
	return b, isNew
}
