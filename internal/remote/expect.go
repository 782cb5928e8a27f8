package remote

import (
	"context"
	"io"
	"sync"

	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/web"
)

// maxBegun is how many expected files begin to come at the same time.
const maxBegun = 16

// expected are files that were opened before somebody asked for them, because a
// parser opens and reads one after the other, and each takes a round trip or more.
type expected struct {
	mu    sync.Mutex
	files map[string]source.File // nil: not open yet
	kept  []io.Closer

	all     context.Context
	end     context.CancelFunc
	running sync.WaitGroup
}

// take returns an expected file that is open, and forgets that it is expected.
func (e *expected) take(name string) source.File {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.files[name]
	delete(e.files, name)
	return f
}

// Expect opens files that will be asked for, and lets their beginnings come, many at
// the same time.
func (l *Listing) Expect(names []string) {
	e := &l.expected
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all, e.end = context.WithCancel(context.Background())
		e.files = map[string]source.File{}
	}
	for _, name := range names {
		e.files[name] = nil
	}
	next := make(chan string, len(names))
	for _, name := range names {
		next <- name
	}
	close(next)
	for range min(maxBegun, len(names)) {
		e.running.Go(func() {
			for name := range next {
				l.begin(name)
			}
		})
	}
}

// begin opens a file, unless nobody expects it any more, and waits until its
// beginning has come.
func (l *Listing) begin(name string) {
	e := &l.expected
	wanted := func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		_, ok := e.files[name]
		return ok && e.all.Err() == nil
	}
	if !wanted() {
		return
	}
	f, err := l.open(name)
	if err != nil {
		return // whoever opens it gets the error
	}
	e.mu.Lock()
	if _, ok := e.files[name]; !ok {
		e.mu.Unlock()
		f.Close()
		return
	}
	e.files[name] = f
	e.mu.Unlock()
	if f, ok := f.(*web.File); ok {
		_ = f.Begin(e.all) // whoever reads it gets the error
	}
}

// Keep makes the listing close c when it is closed.
func (l *Listing) Keep(c io.Closer) {
	l.expected.mu.Lock()
	defer l.expected.mu.Unlock()
	l.expected.kept = append(l.expected.kept, c)
}

// Close closes what the listing has open itself. Files that were opened stay open,
// and more can be.
func (l *Listing) Close() error {
	e := &l.expected
	e.mu.Lock()
	files, kept := e.files, e.kept
	e.files, e.kept = nil, nil
	end := e.end
	e.mu.Unlock()
	if end != nil {
		end()
		e.running.Wait()
	}
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
	for _, c := range kept {
		c.Close()
	}
	return nil
}

var _ source.Waiting = (*Listing)(nil)
