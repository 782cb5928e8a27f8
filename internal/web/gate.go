package web

import (
	"context"
	"slices"
	"sync"
)

// gates bound concurrent operations, of the process and of each host.
type gates struct {
	ofHost  int
	mu      sync.Mutex
	hosts   map[string]*gate
	process *gate
}

func (g *gates) init(ofHost int) {
	g.ofHost, g.hosts, g.process = ofHost, map[string]*gate{}, &gate{room: MaxConnections}
}

// enter waits for room, first at the host: a request that waits for a slow host takes no
// room of others. Requests in a hurry go first.
func (g *gates) enter(ctx context.Context, host string, hurry bool) (leave func(), err error) {
	g.mu.Lock()
	h := g.hosts[host]
	if h == nil {
		h = &gate{room: g.ofHost}
		g.hosts[host] = h
	}
	g.mu.Unlock()
	if err := h.enter(ctx, hurry); err != nil {
		return nil, err
	}
	if err := g.process.enter(ctx, hurry); err != nil {
		h.leave()
		return nil, err
	}
	return func() { g.process.leave(); h.leave() }, nil
}

// gate lets a number in at a time.
type gate struct {
	mu      sync.Mutex
	room    int
	hurried []chan struct{} // waiting, first come first served
	others  []chan struct{}
}

func (g *gate) enter(ctx context.Context, hurry bool) error {
	g.mu.Lock()
	if g.room > 0 {
		g.room--
		g.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	queue := &g.others
	if hurry {
		queue = &g.hurried
	}
	*queue = append(*queue, turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(*queue, turn); i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
	} else { // it was let in at the same moment
		g.next()
	}
	return ctx.Err()
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next()
}

// next admits the first waiter.
func (g *gate) next() {
	for _, queue := range []*[]chan struct{}{&g.hurried, &g.others} {
		if len(*queue) > 0 {
			close((*queue)[0])
			*queue = (*queue)[1:]
			return
		}
	}
	g.room++
}
