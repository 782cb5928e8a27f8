package web

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/source/readahead"
)

// flight is a range that is being fetched, or did not come of late.
//
//	await -> ask -> start -> fetch -> finish
//	  ^                               |
//	  +------------ wake -------------+
type flight struct {
	r     cache.Range
	hurry bool      // a reader waits for it
	err   error     // once it has ended
	at    time.Time // when it failed
}

// await waits until a range is in the cache. It requests the parts that are not being
// fetched yet, as far as the reader wants them.
func (f *File) await(ctx context.Context, need cache.Range, wants func(cache.Range) cache.Range) error {
	ctx, cancel := context.WithTimeout(ctx, f.c.opts.Timeout)
	defer cancel()
	var mine []*flight
	for first := true; ; first = false {
		f.mu.Lock()
		missing := f.entry.Missing(need.Off, need.N)
		if err := f.failed(missing); err != nil && first {
			f.mu.Unlock()
			return err
		}
		for _, x := range mine {
			if len(missing) > 0 && x.err != nil {
				f.mu.Unlock()
				return x.err
			}
		}
		if len(missing) == 0 || f.changed != nil && !f.coming(missing) {
			defer f.mu.Unlock()
			if len(missing) > 0 {
				return f.changed
			}
			return nil
		}
		if !f.coming(missing) { // else its reader asks for more when it has come
			f.ask(clip(wants(need), f.entry.Size()), true)
		}
		mine = mine[:0]
		for _, x := range f.flights {
			if overlap(x.r, need) {
				mine = append(mine, x)
			}
		}
		arrived := f.arrived
		f.mu.Unlock()
		select {
		case <-arrived:
		case <-ctx.Done():
			return f.gaveUp(ctx, ctx.Err())
		}
	}
}

const (
	// failedFor is how long what did not come is not asked for again. The kernel asks
	// twice for what it reads ahead, and then for each page: a reader that waited
	// until the deadline would wait once more.
	failedFor = 100 * time.Millisecond
	// maxFailures bounds the failures that are remembered.
	maxFailures = 16
)

// failed returns the error of a range that did not come a moment ago. The caller
// holds the lock.
func (f *File) failed(missing []cache.Range) error {
	for _, x := range f.failures {
		for _, m := range missing {
			if overlap(x.r, m) && time.Since(x.at) < failedFor {
				return x.err
			}
		}
	}
	return nil
}

// ask begins to fetch the parts of a range that are not being fetched. Parts without a
// waiting reader are limited in number. The caller holds the lock.
func (f *File) ask(want cache.Range, hurry bool) {
	most := int64(part)
	if f.entry.VerifiedFirst() {
		most = f.entry.Size()
	}
	room := 2 * f.pace.Parts
	for _, x := range f.flights {
		if !x.hurry {
			room--
		}
	}
	for _, m := range f.entry.Missing(want.Off, want.N) {
		for _, r := range f.unclaimed(m) {
			for ; r.N > 0 && (hurry || room > 0); room-- {
				f.start(cache.Range{Off: r.Off, N: min(r.N, most)}, hurry)
				r.Off, r.N = r.Off+most, r.N-most
			}
		}
	}
}

// readAhead asks for what the reader of [off, off+n) of a section probably reads
// next, without waiting.
func (f *File) readAhead(off, n, start, end int64) {
	var room [4]readahead.Span
	spans := f.ahead.Read(room[:0], off, n, start, end)
	if len(spans) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed != nil {
		return
	}
	for _, s := range spans {
		f.ask(clip(cache.Range{Off: s.From, N: s.To - s.From}, f.entry.Size()), false)
	}
}

// start begins to fetch a range. The caller holds the lock.
func (f *File) start(r cache.Range, hurry bool) {
	if f.closed {
		return
	}
	x := &flight{r: r, hurry: hurry}
	f.flights = append(f.flights, x)
	f.running.Go(func() {
		ctx, cancel := context.WithTimeout(f.all, f.c.opts.Timeout)
		defer cancel()
		err := f.fetch(ctx, r, hurry)
		f.finish(x, err)
	})
}

// finish ends a flight.
func (f *File) finish(x *flight, err error) {
	f.mapWhole()
	f.mu.Lock()
	defer f.mu.Unlock()
	x.err, x.at = err, time.Now()
	f.flights = slices.DeleteFunc(f.flights, func(y *flight) bool { return x == y })
	switch {
	case errors.Is(err, tensorfs.ErrChanged):
		f.changed = cmp.Or(f.changed, err)
	case err != nil && !errors.Is(err, context.Canceled):
		f.failures = append(f.failures[max(0, len(f.failures)+1-maxFailures):], x)
	}
	f.wake()
}

// came tells the waiting readers that n bytes more are there.
func (f *File) came(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pace.Came(n, int64(len(f.flights)), time.Now()) {
		f.ahead.Widen(f.pace.Parts * part)
	}
	f.wake()
}

func (f *File) wake() {
	close(f.arrived)
	f.arrived = make(chan struct{})
}

// coming reports whether all of the ranges are being fetched.
func (f *File) coming(ranges []cache.Range) bool {
	for _, r := range ranges {
		if len(f.unclaimed(r)) > 0 {
			return false
		}
	}
	return true
}

// unclaimed returns the parts of a range that are not being fetched.
func (f *File) unclaimed(r cache.Range) []cache.Range {
	rest := []cache.Range{r}
	for _, x := range f.flights {
		var next []cache.Range
		for _, r := range rest {
			next = append(next, without(r, x.r)...)
		}
		rest = next
	}
	return rest
}

// without returns what of a is not in b.
func without(a, b cache.Range) (rest []cache.Range) {
	if !overlap(a, b) {
		return []cache.Range{a}
	}
	if b.Off > a.Off {
		rest = append(rest, cache.Range{Off: a.Off, N: b.Off - a.Off})
	}
	if end, bend := a.Off+a.N, b.Off+b.N; bend < end {
		rest = append(rest, cache.Range{Off: bend, N: end - bend})
	}
	return rest
}

func overlap(a, b cache.Range) bool { return a.Off < b.Off+b.N && b.Off < a.Off+a.N }

// clip cuts off what lies after the end of the file.
func clip(r cache.Range, size int64) cache.Range {
	return cache.Range{Off: r.Off, N: min(r.N, size-r.Off)}
}

// landed waits until what is being fetched is on the disk: to readers it came before.
func (f *File) landed(ctx context.Context) {
	for {
		f.mu.Lock()
		arrived, n := f.arrived, len(f.flights)
		f.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return
		}
	}
}
