package fs

import (
	"context"
	"time"
)

// request is the context of a request. It is go-fuse's channel, which is closed
// when the kernel says that nobody waits for the answer any more.
type request <-chan struct{}

// Deadline returns none: the kernel waits as long as it takes.
func (request) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done returns the channel.
func (r request) Done() <-chan struct{} { return r }

// Err returns context.Canceled once the request was given up.
func (r request) Err() error {
	select {
	case <-r:
		return context.Canceled
	default:
		return nil
	}
}

// Value returns nothing.
func (request) Value(any) any { return nil }

var _ context.Context = request(nil)
