package cache

import (
	"context"
	"time"
)

// Claim waits until no one else fetches cells of r, in this process or (on Linux) another,
// and keeps others from it until release runs. It also returns when all of r has
// arrived, so call Missing again. If ctx ends first, the claim is still held elsewhere: its
// holder may be stopped, and fetching the same bytes is harmless.
func (e *Entry) Claim(ctx context.Context, r Range) (release func(), err error) {
	none := func() {}
	first, end := e.clip(r.Off, r.N)
	d := e.disk.Load()
	if d == nil || first == end {
		return none, nil
	}
	// Every claim has the file open for itself: the locks of one do not exclude each other.
	f, err := openPart(d.place(), stateName)
	if err != nil { // it was removed: the next one opened by its name is another
		return none, nil
	}
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for {
		ok, err := lockBytes(f, headerSize+4*first, 4*(end-first))
		if ok || err != nil { // no such locks here: both fetch, which is harmless
			return func() { f.Close() }, nil
		}
		select {
		case <-ctx.Done():
			f.Close()
			return none, ctx.Err()
		case <-poll.C:
		}
		if len(e.Missing(r.Off, r.N)) == 0 {
			f.Close()
			return none, nil
		}
	}
}
