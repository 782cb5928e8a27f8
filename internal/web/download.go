package web

import (
	"context"
	"time"

	"github.com/tensorfs/tensorfs/internal/cache"
)

// fetchAll is Fetch for a range of the server's file. Its order does not matter to the caller,
// so all connections have a part from the beginning on.
func (f *File) fetchAll(ctx context.Context, off, n int64, came func(n int64)) error {
	exactly := func(need cache.Range) cache.Range { return need }
	began, end, asked := time.Now(), off+n, off
	var parts []cache.Range // that were asked for, and are not known to have come
	for off < end {
		f.mu.Lock()
		// More than there are connections, because a part may come before the one that is
		// awaited.
		for asked < end && int64(len(parts)) < f.connections()*3/2 {
			r := cache.Range{Off: asked, N: f.partOf(asked, end, off-(end-n), time.Since(began))}
			if parts, asked = append(parts, r), asked+r.N; f.changed == nil {
				f.ask(r, true)
			}
		}
		f.mu.Unlock()
		need := parts[0]
		if err := f.await(ctx, need, exactly); err != nil {
			return err
		}
		if parts, off = parts[1:], off+need.N; came != nil {
			came(need.N)
		}
	}
	return nil
}

// busy is how often a server had too many requests of this program. Answers to requests that
// were under way together count once.
type busy struct {
	times int
	last  time.Time
}

// tooMany notes that the server has too many requests.
func (f *File) tooMany() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.busy.last) > firstWait {
		f.busy.times, f.busy.last = f.busy.times+1, now
	}
}

// connections returns how many parts of a file to fetch at a time: half as many each time that
// the server has too many requests. The caller holds the lock.
func (f *File) connections() int64 {
	return max(int64(f.c.opts.Connections)>>min(f.busy.times, 8), 1)
}

const (
	// underWay is how many bytes may be under way before the rate is known, and for how long
	// afterwards: far less than a part may take.
	underWay    = 64 << 20
	underWayFor = 20 * time.Second
)

// partOf returns the length of a part from off on, of a range that ends at end: so long that
// all connections end together, and that a slow one is not too late. n bytes have come in a time.
func (f *File) partOf(off, end, n int64, took time.Duration) int64 {
	most := int64(underWay)
	if n > 0 {
		most = max(most, int64(float64(n)/max(took.Seconds(), 1e-3)*underWayFor.Seconds()))
	}
	length := min(max(min(end-off, most)/f.connections(), block), part)
	next := (off + length + cache.CellSize - 1) / cache.CellSize * cache.CellSize
	return min(next, end) - off
}
