package remote

import (
	"context"
	"fmt"
	"sync"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/source"
)

const (
	// preparing is how many beginnings come at a time.
	preparing = 16
	// few is how many files come so soon that nobody is told of it.
	few = 8
)

// Prepare brings in the first cell of each of the files that are on the server: the
// header of most. See source.Preparer.
func (l *Listing) Prepare(names []string) (done func()) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	add, end := l.progress(names)
	defer end()
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
			f, err := l.OpenFile(name)
			if err != nil {
				cancel()
				return
			}
			mu.Lock()
			files = append(files, f)
			mu.Unlock()
			first := min(cache.CellSize, f.Size())
			if far, ok := f.(interface {
				Fetch(ctx context.Context, off, n int64) error
			}); ok && far.Fetch(ctx, 0, first) != nil {
				cancel() // the parser asks for it itself, and says why it cannot be had
				return
			}
			add(first)
		})
	}
	wg.Wait()
	return func() {
		for _, f := range files {
			f.Close()
		}
	}
}

// progress begins to tell of the beginnings of many files.
func (l *Listing) progress(names []string) (add func(n int64), end func()) {
	if l.Progress == nil || len(names) <= few {
		return func(int64) {}, func() {}
	}
	total := int64(0)
	for _, name := range names {
		if i, ok := l.find(name); ok {
			total += min(cache.CellSize, l.items[i].Size())
		}
	}
	return l.Progress(fmt.Sprintf("open %d files", len(names)), total)
}

var _ source.Preparer = (*Listing)(nil)
