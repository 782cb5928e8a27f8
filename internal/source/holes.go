package source

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// Holes returns where the file has holes of at least so many bytes, in order: what
// was never written, and reads as zeros. An error means that the file system does not
// say, or that ctx has ended.
func (m *Mapped) Holes(ctx context.Context, least int64) (holes [][2]int64, err error) {
	for at := int64(0); at < m.Size(); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		from, err := unix.Seek(m.fd, at, unix.SEEK_HOLE)
		if err != nil || from >= m.Size() {
			return holes, err
		}
		to, err := unix.Seek(m.fd, from, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // no more data
			to, err = m.Size(), nil
		}
		if err != nil {
			return nil, err
		}
		to = min(to, m.Size())
		if to-from >= least {
			holes = append(holes, [2]int64{from, to})
		}
		at = to
	}
	return holes, nil
}
