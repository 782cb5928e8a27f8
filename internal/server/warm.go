package server

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/memlimit"
	"github.com/tensorfs/tensorfs/views/tree"
)

// warmer reads a mounted model ahead of everybody who will read it.
type warmer struct {
	view  string
	what  *tree.Warming
	done  atomic.Int64
	ended atomic.Pointer[string] // why, before all was done
}

// newWarmer returns the warmer of a model, nil if nothing is read ahead.
func newWarmer(c *Content) *warmer {
	if c.Warming == nil {
		return nil
	}
	return &warmer{view: c.View, what: c.Warming}
}

// status returns a function that reports the progress, nil if the mount is not warmed.
func (w *warmer) status() func() fs.WarmStatus {
	if w == nil {
		return nil
	}
	return func() fs.WarmStatus {
		s := fs.WarmStatus{View: w.view, Done: w.done.Load(), Total: w.what.Bytes}
		if why := w.ended.Load(); why != nil {
			s.Ended = *why
		}
		return s
	}
}

// NotReadAhead begins the warning about a view that is not read ahead to its end. The reason is in the Ended of [fs.WarmStatus], too.
const NotReadAhead = "not all of the model was read ahead"

var errNoRoom = errors.New("no memory is left for more")

// start begins to read and returns how to end it.
func (w *warmer) start(logger *slog.Logger) (stop func()) {
	if w == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		// What is read later must not push out what was read first.
		room := memlimit.Left()
		err := w.what.Run(ctx, func(n int64) {
			if w.done.Add(n) > room {
				cancel(errNoRoom)
			}
		})
		if err != nil {
			why := tensorfs.OneLine(err.Error())
			w.ended.Store(&why)
			logger.Warn(NotReadAhead, "view", w.view, "bytes", w.done.Load(), "of", w.what.Bytes, "why", why)
		}
	}()
	return func() {
		cancel(context.Canceled)
		<-over
	}
}
