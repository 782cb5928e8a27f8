package cache

import (
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// writeSize is how much is written to the disk at a time.
const writeSize = 1 << 20

// writeBuffers are of writeSize.
var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, writeSize); return &b }}

// Writer takes the bytes of a file as they come, front to back. Each cell can be read
// as soon as it came; the disk gets it with its neighbours, writeSize at a time.
//
//	body -> buf -> readers        at once
//	         \---> disk, memory   when buf is full, and by Close
//
// Of a file that is verified first, nothing is local before all of it came.
type Writer struct {
	e   *Entry
	off int64   // of buf in the file; what came up to it is stored
	buf *[]byte // under e.coming.mu: its length is what came
	max int
}

// coming are the writers of an entry.
type coming struct {
	n    atomic.Int32
	mu   sync.RWMutex
	list []*Writer
}

// Writer returns a Writer of the bytes from off on, the beginning of a cell. Its user
// closes it.
func (e *Entry) Writer(off int64) *Writer {
	w := &Writer{e: e, off: off, max: writeSize}
	if e.first {
		b := make([]byte, 0, e.id.Size)
		w.buf, w.max = &b, int(e.id.Size)
		return w
	}
	w.buf = writeBuffers.Get().(*[]byte)
	e.coming.mu.Lock()
	defer e.coming.mu.Unlock()
	e.coming.list = append(e.coming.list, w)
	e.coming.n.Add(1)
	return w
}

// Fill reads n bytes more of the file from body. It returns how many arrived in whole
// cells; the rest has to be fetched again. came, which may be nil, runs for each cell.
func (w *Writer) Fill(body io.Reader, n int64, came func(n int64)) (got int64, err error) {
	for got < n {
		have := len(*w.buf)
		cell := (*w.buf)[have : have+int(min(CellSize, n-got))]
		if _, err := io.ReadFull(body, cell); err != nil {
			return got, err
		}
		w.e.coming.mu.Lock()
		*w.buf = (*w.buf)[:have+len(cell)]
		w.e.coming.mu.Unlock()
		if len(*w.buf) == w.max {
			if err := w.flush(); err != nil {
				return got, err
			}
		}
		got += int64(len(cell))
		if came != nil {
			came(int64(len(cell)))
		}
	}
	return got, nil
}

// flush stores what came.
func (w *Writer) flush() error {
	b := *w.buf
	_, err := w.e.WriteAt(b, w.off)
	w.e.coming.mu.Lock()
	defer w.e.coming.mu.Unlock()
	w.off += int64(len(b))
	*w.buf = b[:0]
	return err
}

// Close stores what came and is not stored yet.
func (w *Writer) Close() (err error) {
	if w.e.first {
		return nil // it came as a whole, or is not kept
	}
	if len(*w.buf) > 0 {
		err = w.flush()
	}
	w.e.coming.mu.Lock()
	defer w.e.coming.mu.Unlock()
	w.e.coming.list = slices.DeleteFunc(w.e.coming.list, func(o *Writer) bool { return o == w })
	w.e.coming.n.Add(-1)
	writeBuffers.Put(w.buf)
	w.buf = nil
	return err
}

// read copies what came of the bytes from off on, and returns how many that are.
func (c *coming) read(p []byte, off int64) int {
	if c.n.Load() == 0 {
		return 0
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, w := range c.list {
		if at := off - w.off; at >= 0 && at < int64(len(*w.buf)) {
			return copy(p, (*w.buf)[at:])
		}
	}
	return 0
}

// ranges returns what came.
func (c *coming) ranges() (list []Range) {
	if c.n.Load() == 0 {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, w := range c.list {
		list = append(list, Range{w.off, int64(len(*w.buf))})
	}
	return list
}
