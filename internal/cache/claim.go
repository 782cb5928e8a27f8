package cache

import (
	"context"
	"slices"
	"sync"
	"time"
)

// claims are the cells that this process is fetching.
type claims struct {
	mu   sync.Mutex
	list []*claim
}

type claim struct {
	first, end int64
	done       chan struct{}
}

// take adds a claim, or returns one that overlaps it.
func (c *claims) take(mine *claim) (other *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.list {
		if o.first < mine.end && mine.first < o.end {
			return o
		}
	}
	c.list = append(c.list, mine)
	return nil
}

func (c *claims) give(mine *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.DeleteFunc(c.list, func(o *claim) bool { return o == mine })
	close(mine.done)
}

// Claim waits until nobody else fetches cells of r, in this process or (on Linux)
// another, and keeps others from it until release is called. It also returns when
// all of r came meanwhile, so ask Missing again. Where ctx ends first, another has
// the claim still: it may be stopped, and to fetch the same bytes is harmless.
func (e *Entry) Claim(ctx context.Context, r Range) (release func(), err error) {
	none := func() {}
	first, end := e.clip(r.Off, r.N)
	if first == end {
		return none, nil
	}
	mine := &claim{first, end, make(chan struct{})}
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	// wait returns early where the bytes came.
	wait := func(done <-chan struct{}) (came bool, err error) {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-done:
		case <-poll.C:
		}
		return len(e.Missing(r.Off, r.N)) == 0, nil
	}
	for {
		other := e.claims.take(mine)
		if other == nil {
			break
		}
		if came, err := wait(other.done); came || err != nil {
			return none, err
		}
	}
	d := e.disk.Load()
	if d == nil {
		return func() { e.claims.give(mine) }, nil
	}
	for {
		ok, err := lockBytes(d.state, headerSize+first, end-first, true)
		if ok {
			return func() {
				_, _ = lockBytes(d.state, headerSize+first, end-first, false) // closing the file does it too
				e.claims.give(mine)
			}, nil
		}
		if err != nil { // no such locks here: both fetch, which is harmless
			return func() { e.claims.give(mine) }, nil
		}
		if came, err := wait(nil); came || err != nil {
			e.claims.give(mine)
			return none, err
		}
	}
}
