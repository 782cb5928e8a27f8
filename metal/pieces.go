package metal

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/parallel"
)

// maxPiece is how much one worker takes at a time: little enough that many share
// a large tensor, and that a load ends soon when it is to end.
const maxPiece = 4 << 20

// piece is a part of a tensor that is brought in, or read into memory.
type piece struct {
	*place
	origin Origin
	off, n int64 // in the tensor
}

// pieces cuts what a job reads: parts of files in the order of the files, then
// tensors that are read into memory. What is in memory already is left out.
func (j *job) pieces() []piece {
	var files []*place
	for i := range j.places {
		if p := &j.places[i]; p.live.file != nil {
			files = append(files, p)
		}
	}
	sortByFile(files)
	var all []piece
	cut := func(p *place, from int64) {
		for off := from; off < p.bytes; off += maxPiece {
			all = append(all, piece{p, p.live.origin, off, min(maxPiece, p.bytes-off)})
		}
	}
	var done int64 // bytes of the file that pieces have
	for i, p := range files {
		if i == 0 || p.File != files[i-1].File {
			done = 0
		}
		cut(p, max(0, done-p.Offset))
		done = max(done, p.Offset+p.bytes)
	}
	for i := range j.places {
		if p := &j.places[i]; p.live.file == nil && !p.live.ready {
			cut(p, 0)
		}
	}
	return all
}

// run does all pieces, with many workers. It ends when ctx does, on an error of progress,
// or with the first error.
func (l *Loader) run(ctx context.Context, pieces []piece, o LoadOptions) error {
	var mu sync.Mutex
	var done, total int64
	for _, p := range pieces {
		total += p.n
	}
	n := o.Workers
	if n <= 0 {
		n = max(4, runtime.GOMAXPROCS(0)) // reads wait too
	}
	return parallel.Each(ctx, n, len(pieces), func(ctx context.Context, i int) error {
		p := &pieces[i]
		if err := l.do(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.ref, err)
		}
		mu.Lock()
		defer mu.Unlock()
		done += p.n
		if o.Progress == nil || ctx.Err() != nil {
			return nil
		}
		return o.Progress(done, total)
	})
}

// do brings in a piece, or reads it.
func (l *Loader) do(ctx context.Context, p *piece) error {
	if p.live.file != nil {
		readAhead(p.live.file, p.Offset+p.off, p.n)
		return p.live.mapping.bringIn(p.Offset-p.live.start+p.off, p.n)
	}
	at := p.live.at[p.ref] + p.off
	return tensorfs.ReadFullContext(ctx, p.data, p.live.buffer.Bytes()[at:at+p.n], p.off)
}
