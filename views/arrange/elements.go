package arrange

import (
	"sync"

	"github.com/tensorfs/tensorfs"
)

// maker makes elements of a Data that is computed: n elements from the first on,
// into dst.
type maker interface {
	make(dst []byte, first int64) error
}

// readElements is ReadAt for size bytes in elements of width bytes: elements that p covers
// only in part are computed in a buffer.
func readElements(m maker, width, size int64, p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(size, p, off)
	done := 0
	part := func() error { // a part of one element
		var whole [8]byte
		at := off + int64(done)
		err := m.make(whole[:width], at/width)
		if err == nil {
			done += copy(p[done:n], whole[at%width:width])
		}
		return err
	}
	if n > 0 && off%width != 0 {
		if err := part(); err != nil {
			return done, err
		}
	}
	for done < n {
		take := min(n-done, maxRun) / int(width) * int(width)
		if take == 0 {
			if err := part(); err != nil {
				return done, err
			}
			continue
		}
		if err := m.make(p[done:done+take], (off+int64(done))/width); err != nil {
			return done, err
		}
		done += take
	}
	return n, eof
}

// scratch holds buffers for Data that cannot be viewed.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// viewed calls fn with the bytes [off, off+n) of d, under [tensorfs.Guard].
func viewed(d tensorfs.Data, off, n int64, fn func(src []byte) error) error {
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	src, memory, err := tensorfs.View(d, off, n, buf)
	if err != nil {
		return err
	}
	return tensorfs.Guard(func() error { return fn(src) }, memory)
}
