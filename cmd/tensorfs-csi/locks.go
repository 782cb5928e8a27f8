package main

import (
	"context"
	"sync"

	"google.golang.org/grpc/status"
)

// Locks are locks by name. The zero value has all of them unlocked.
type locks struct {
	mu  sync.Mutex
	all map[string]*lock
}

type lock struct {
	held  chan struct{} // has room for one
	users int
}

// lock takes a lock, or gives up with the call that needs it. The returned function lets it go.
func (l *locks) lock(ctx context.Context, name string) (unlock func(), err error) {
	l.mu.Lock()
	if l.all == nil {
		l.all = map[string]*lock{}
	}
	k := l.all[name]
	if k == nil {
		k = &lock{held: make(chan struct{}, 1)}
		l.all[name] = k
	}
	k.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.all, name)
		}
	}
	select {
	case k.held <- struct{}{}:
		return func() { <-k.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}
