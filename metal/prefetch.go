package metal

import (
	"context"
	"errors"
	"fmt"
)

// Prefetch reads tensors into the page cache, many parts at once, so that the first use
// does not wait for them. progress, if not nil, runs after each part, never in two
// goroutines concurrently; the same bytes under two names count once. Tensors without a
// file are left to Load: Prefetch takes no memory that the system cannot take back.
func (l *Loader) Prefetch(ctx context.Context, refs []Ref, progress func(done, total int64)) (err error) {
	j, err := l.job(refs, CacheRead, true)
	if err != nil {
		return err
	}
	defer func() {
		for _, r := range j.held {
			err = errors.Join(err, l.release(r))
		}
	}()
	for _, w := range j.windows {
		m, err := l.mapPart(w)
		if err != nil {
			return fmt.Errorf("metal: %w", err)
		}
		w.mapping = m
		defer m.unmap() // of a mapping of our own: it cannot fail
	}
	pieces := j.pieces()
	n := 0
	for n < len(pieces) && pieces[n].live.file != nil {
		n++
	}
	o := LoadOptions{}
	if progress != nil {
		o.Progress = func(done, total int64) error { progress(done, total); return nil }
	}
	if err := l.run(ctx, pieces[:n], o); err != nil {
		return fmt.Errorf("metal: %w", err)
	}
	return nil
}
