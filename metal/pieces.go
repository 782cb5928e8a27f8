package metal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
)

// maxPiece is how much one worker takes at a time: little enough that many share
// a large tensor, and that a load ends soon when it is to end.
const maxPiece = 4 << 20

// piece is a part of a tensor that is brought in, or read into memory.
type piece struct {
	*place
	origin Origin
	off, n int64 // in the tensor
	from   *opened
}

// opened is a tensor that is read, from its first piece on until its last.
type opened struct {
	once  sync.Once
	bytes Bytes
	err   error
	mu    sync.Mutex
	left  int // pieces
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
	cut := func(p *place, from int64, o *opened) {
		for off := from; off < p.bytes; off += maxPiece {
			all = append(all, piece{p, p.live.origin, off, min(maxPiece, p.bytes-off), o})
		}
	}
	var done int64 // bytes of the file that pieces have
	for i, p := range files {
		if i == 0 || p.File != files[i-1].File {
			done = 0
		}
		cut(p, max(0, done-p.Offset), nil)
		done = max(done, p.Offset+p.bytes)
	}
	for i := range j.places {
		if p := &j.places[i]; p.live.file == nil && !p.live.ready {
			cut(p, 0, &opened{left: int((p.bytes + maxPiece - 1) / maxPiece)})
		}
	}
	return all
}

// run does all pieces, with many workers. It ends when ctx does, when the progress
// says so, or with the first error.
func (l *Loader) run(ctx context.Context, pieces []piece, o LoadOptions) error {
	var (
		mu          sync.Mutex
		next        int
		done, total int64
		workers     sync.WaitGroup
	)
	for _, p := range pieces {
		total += p.n
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	take := func() *piece {
		mu.Lock()
		defer mu.Unlock()
		if next == len(pieces) || ctx.Err() != nil {
			return nil
		}
		next++
		return &pieces[next-1]
	}
	report := func(n int64) error {
		mu.Lock()
		defer mu.Unlock()
		done += n
		if o.Progress == nil || ctx.Err() != nil {
			return nil
		}
		return o.Progress(done, total)
	}
	n := o.Workers
	if n <= 0 {
		n = max(4, runtime.GOMAXPROCS(0)) // reads wait too
	}
	for range min(len(pieces), n) {
		workers.Go(func() {
			for p := take(); p != nil; p = take() {
				err := l.do(p)
				if err != nil {
					err = fmt.Errorf("%s: %w", p.ref, err)
				} else {
					err = report(p.n)
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	err := context.Cause(ctx)
	if err != nil && next > 0 {
		// Those of which not all pieces were taken are still open.
		for _, p := range pieces {
			if p.from != nil {
				err = errors.Join(err, p.from.close(true))
			}
		}
	}
	return err
}

// do brings in a piece, or reads it.
func (l *Loader) do(p *piece) (err error) {
	if p.from == nil {
		readAhead(p.live.file, p.Offset+p.off, p.n)
		return p.live.mapping.bringIn(p.Offset-p.live.start+p.off, p.n)
	}
	p.from.once.Do(func() {
		p.from.err = errors.New("opening it panicked")
		p.from.bytes, p.from.err = l.tree.Open(p.ref.View, p.ref.Name)
	})
	if p.from.err != nil {
		return p.from.err
	}
	defer func() { err = errors.Join(err, p.from.close(false)) }()
	if n := p.from.bytes.Size(); n != p.bytes {
		return fmt.Errorf("%d bytes where %d were expected", n, p.bytes)
	}
	at := p.live.at[p.ref] + p.off
	if n, err := p.from.bytes.ReadAt(p.live.buffer.Bytes()[at:at+p.n], p.off); int64(n) < p.n {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return nil
}

// close closes a tensor after its last piece, or at once.
func (o *opened) close(now bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left--
	if o.bytes == nil || !now && o.left > 0 {
		return nil
	}
	b := o.bytes
	o.bytes = nil
	if c, ok := b.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
