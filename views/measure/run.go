package measure

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/parallel"
)

const (
	// stretch is how many numbers are summed on their own: enough to be worth a
	// goroutine, and the same on every machine.
	stretch = 1 << 20
	// piece is how many of them are read in one go, little enough for the CPU's
	// caches.
	piece = 1 << 16
	// block is how many are summed before the sum is asked whether all were finite.
	block = 1 << 10
)

// run is one measurement on all cores.
type run struct {
	ctx     context.Context
	stop    context.CancelCauseFunc
	buffers chan *buffer // a worker has one
	add     func(n int64)
}

// buffer holds pieces of one or two tensors, and what is counted of them.
type buffer struct {
	a, b   []byte
	cols   [block]float64 // results that are not used
	counts *[halves]uint32
}

// newRun returns a run. add receives the number of bytes read; may be nil.
func newRun(ctx context.Context, add func(int64)) *run {
	r := &run{add: add}
	if add == nil {
		r.add = func(int64) {}
	}
	r.ctx, r.stop = context.WithCancelCause(ctx)
	n := runtime.GOMAXPROCS(0)
	r.buffers = make(chan *buffer, n)
	for range n {
		r.buffers <- new(buffer)
	}
	return r
}

// each calls do for 0 to n-1, several at a time, and returns the first error.
func (r *run) each(n int, do func(i int) error) error {
	defer r.stop(nil)
	return parallel.Each(r.ctx, cap(r.buffers), n, func(_ context.Context, i int) error { return do(i) })
}

// stretches calls do with each stretch of n numbers, on cores that are free, and
// returns what it gave in order. name is the tensor's, for errors.
func stretches[T any](r *run, name string, n int64, do func(b *buffer, first, n int64) (T, error)) ([]T, error) {
	parts := make([]T, (n+stretch-1)/stretch)
	var all sync.WaitGroup
	for i := range parts {
		b := <-r.buffers
		if r.ctx.Err() != nil {
			r.buffers <- b
			break
		}
		all.Go(func() {
			defer func() { r.buffers <- b }()
			first := int64(i) * stretch
			var err error
			if parts[i], err = do(b, first, min(stretch, n-first)); err != nil {
				r.stop(named(name, err))
			}
		})
	}
	all.Wait()
	return parts, context.Cause(r.ctx)
}

// read reads bytes into a buffer, which grows as needed.
func (r *run) read(d tensorfs.Data, buf *[]byte, off, n int64) ([]byte, error) {
	if int64(cap(*buf)) < n {
		*buf = make([]byte, n)
	}
	b := (*buf)[:n]
	if err := tensorfs.ReadFullContext(r.ctx, d, b, off); err != nil {
		return nil, err
	}
	r.add(n)
	return b, nil
}

// named adds the tensor's name to an error.
func named(name string, err error) error {
	if err == nil || name == "" || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s: %w", tensorfs.Printable(name), err)
}
