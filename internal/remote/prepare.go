package remote

import (
	"context"
	"sync"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/source"
)

// preparing is how many beginnings come at a time.
const preparing = 16

// Prepare brings in the first cell of each of the files that are on the server: the
// header of most. See source.Preparer.
func (l *Listing) Prepare(names []string) (done func()) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var files []source.File
	room := make(chan struct{}, preparing)
	for _, name := range names {
		room <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-room }()
			f, err := l.Open(name)
			if err != nil {
				cancel()
				return
			}
			mu.Lock()
			files = append(files, f)
			mu.Unlock()
			if far, ok := f.(interface {
				Fetch(ctx context.Context, off, n int64) error
			}); ok && far.Fetch(ctx, 0, min(cache.CellSize, f.Size())) != nil {
				cancel() // the parser asks for it itself, and says why it cannot be had
			}
		})
	}
	wg.Wait()
	return func() {
		for _, f := range files {
			f.Close()
		}
	}
}

var _ source.Preparer = (*Listing)(nil)
