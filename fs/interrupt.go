package fs

import (
	"context"
	"sync"
	"time"
)

// request is the context of a request that may have to wait. It ends when its reader
// was sent a signal that is not routine, such as Ctrl-C:
// then the reader gets EINTR and its handler runs.
//
// An interrupt from the kernel is not enough to know that. It sends none for its own
// read-ahead, which a reader waits for as well; and it sends one for any signal, such as
// the ones by which Go stops goroutines. A program that waits for a page of a mapped file
// inside of write(2) would get EFAULT for these. So the reader's pending signals are
// checked; if they cannot be seen, an interrupt counts after patience.
type request struct {
	cancel <-chan struct{} // go-fuse's, closed by an interrupt
	pid    uint32          // of the thread that reads, 0 if unknown
	began  time.Time

	once sync.Once
	done chan struct{} // nil before Done
	over chan struct{} // closed by end
}

const (
	// lookAgain is how often the signals of a waiting reader are looked at.
	lookAgain = 250 * time.Millisecond
	// patience is how long a request goes on that was interrupted by an unknown signal.
	patience = time.Second
)

// newRequest returns the context of a request that begins now.
func newRequest(cancel <-chan struct{}, pid uint32) *request {
	return &request{cancel: cancel, pid: pid, began: time.Now()}
}

// end ends what Done began.
func (r *request) end() {
	if r.over != nil {
		close(r.over)
	}
}

// Deadline returns none: the kernel waits as long as it takes.
func (r *request) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done returns a channel that is closed when the request was given up. The code that
// answers the request calls it, and never after end.
func (r *request) Done() <-chan struct{} {
	r.once.Do(func() {
		r.done, r.over = make(chan struct{}), make(chan struct{})
		go r.watch()
	})
	return r.done
}

// watch closes done once the request was given up.
func (r *request) watch() {
	t := time.NewTicker(lookAgain)
	defer t.Stop()
	for {
		select {
		case <-r.over:
			return
		case <-t.C:
			if r.givenUp() {
				close(r.done)
				return
			}
		}
	}
}

func (r *request) givenUp() bool {
	if pending, known := pendingSignals(r.pid); known {
		return pending&^routine != 0
	}
	select {
	case <-r.cancel:
		return time.Since(r.began) >= patience
	default:
		return false
	}
}

// Err returns context.Canceled once the request was given up, if Done was called.
func (r *request) Err() error {
	select {
	case <-r.done: // blocks forever before Done
		return context.Canceled
	default:
		return nil
	}
}

// Value returns nothing.
func (r *request) Value(any) any { return nil }

var _ context.Context = (*request)(nil)
