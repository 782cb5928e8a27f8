package remote

import (
	"context"
	"fmt"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/parallel"
	"github.com/tensorfs/tensorfs/internal/source"
)

// few is a number of files that arrives too fast to show progress.
const few = 8

// Prepare brings in the first cell of each of the files that are on the server: the
// header of most. See source.Preparer.
func (l *Listing) Prepare(names []string) (done func()) {
	add, end := l.progress(names)
	defer end()
	var mu sync.Mutex
	var files []source.File
	// The parser asks again for a file that failed, and reports the reason.
	_ = parallel.Each(l.parsing(), AtOnce, len(names), func(ctx context.Context, i int) error {
		f, err := l.OpenFile(names[i])
		if err != nil {
			return err
		}
		mu.Lock()
		files = append(files, f)
		mu.Unlock()
		first := min(cache.CellSize, f.Size())
		if far, ok := f.(tensorfs.Fetcher); ok {
			err = far.Fetch(ctx, 0, first)
		}
		if err == nil {
			add(first)
		}
		return err
	})
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
		if i, ok := l.indexOf(name); ok {
			total += min(cache.CellSize, l.items[i].Size())
		}
	}
	return l.Progress(fmt.Sprintf("open %d files", len(names)), total)
}

var _ source.Preparer = (*Listing)(nil)
