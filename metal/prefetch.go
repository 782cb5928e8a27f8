package metal

import (
	"context"
	"errors"
	"fmt"
)

// Prefetch reads tensors into the page cache, many parts at once, so that the
// first use does not wait for them. progress, where it is not nil, is called
// after each part, never at the same time by two goroutines; the same bytes under
// two names count once. Tensors that are in no file are left to Load: Prefetch
// takes no memory that the system cannot take back.
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
