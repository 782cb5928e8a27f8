package remote

import (
	"context"
	"errors"
	"sync"
)

// atOnce is how many files are asked for at the same time.
const atOnce = 16

// Each calls do with all numbers below n, several at the same time, until one call
// fails. It returns the first error.
func Each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	room := make(chan struct{}, atOnce)
	var calls sync.WaitGroup
	for i := range n {
		room <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		calls.Go(func() {
			defer func() { <-room }()
			if err := do(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	calls.Wait()
	return context.Cause(ctx)
}

// MaxPages bounds the pages of a list.
const MaxPages = 1000

// ErrEndless marks a list of pages that does not end.
var ErrEndless = errors.New("it does not end")

// Pages asks for the pages of a list, from the one called first on. ask returns what the
// page after this one is called, "" after the last.
func Pages(first string, ask func(page string) (next string, err error)) error {
	for page, n := first, 0; n < MaxPages; n++ {
		next, err := ask(page)
		if err != nil || next == "" {
			return err
		}
		if next == page {
			break
		}
		page = next
	}
	return ErrEndless
}
