// Package parallel runs functions concurrently.
package parallel

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/tensorfs/tensorfs/internal/rescue"
)

// Each calls do with every number below n, in order and with up to most calls running,
// until a call fails or ctx ends. It returns when all calls have returned, with the first
// error or the cause of ctx's end. The context of the calls ends with either. A call that
// panics fails: the caller adds which model that was about.
func Each(ctx context.Context, most, n int, do func(ctx context.Context, i int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var calls sync.WaitGroup
	for range min(most, n) {
		calls.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := rescued(ctx, i, do); err != nil {
					stop(err)
				}
			}
		})
	}
	calls.Wait()
	return context.Cause(ctx)
}

func rescued(ctx context.Context, i int, do func(context.Context, int) error) (err error) {
	defer rescue.To(&err, "")
	return do(ctx, i)
}
