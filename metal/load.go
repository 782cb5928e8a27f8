package metal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// CacheMode selects how a Load uses converted tensors on disk, which are also the files of
// a mounted or exported tree.
type CacheMode uint8

const (
	// CacheRead maps existing files.
	CacheRead CacheMode = iota
	// CacheOff maps no files but the model's own.
	CacheOff
	// CacheReadWrite also writes missing files, to a directory of the cache.
	CacheReadWrite
)

// LoadOptions choose how tensors are loaded. The zero value is the default.
type LoadOptions struct {
	// Progress runs after each piece, never in two goroutines concurrently. An error ends
	// the load and is returned.
	Progress func(done, total int64) error
	Workers  int // that read and convert; 0 for one per processor, and 4 at least
	Cache    CacheMode
	// Resident keeps the buffers of the set resident, where the device can.
	Resident bool
}

// Set is the buffers of several tensors, which are released together. Its methods
// are safe for concurrent use.
type Set struct {
	refs      []Ref
	buffers   map[Ref]Buffer
	residency ResidencySet // nil without
	mu        sync.Mutex
	released  bool
}

// Load reads, converts or maps tensors, many parts at once, and returns their
// buffers when all bytes are there. What it needs is compared with what is free
// before it does anything; when it fails, or ctx ends, nothing is left.
//
// Tensors in memory share buffers of up to 1 GiB, and tensors of a file share windows of
// it, so a Set takes few objects of the device.
func (l *Loader) Load(ctx context.Context, refs []Ref, o LoadOptions) (_ *Set, err error) {
	if o.Cache == CacheReadWrite {
		if o.Progress, err = l.prepare(ctx, refs, o); err != nil {
			return nil, err
		}
	}
	j, err := l.job(refs, o.Cache, true)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, r := range j.held {
			err = errors.Join(err, l.release(r))
		}
	}()
	if err := l.affordable(l.summary(j)); err != nil {
		return nil, err
	}
	if err := l.makeWindows(j); err != nil {
		return nil, err
	}
	if err := l.makeArenas(j); err != nil {
		return nil, err
	}
	if err := l.run(ctx, j.pieces(), o); err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	residency, err := l.reside(j, o.Resident)
	if err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	for _, r := range j.arenas {
		l.publish(r)
	}
	s := &Set{buffers: map[Ref]Buffer{}, residency: residency}
	for i := range j.places {
		p := &j.places[i]
		s.refs = append(s.refs, p.ref)
		s.buffers[p.ref] = l.lease(p, p.live, true)
	}
	return s, nil
}

// prepare has the tree write tensors to its cache that would be in memory
// otherwise. It returns the progress of what comes after.
func (l *Loader) prepare(ctx context.Context, refs []Ref, o LoadOptions) (func(done, total int64) error, error) {
	t, ok := l.tree.(preparer)
	if !ok {
		return o.Progress, nil
	}
	busy := &region{holders: 1} // Close is refused until then
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, fmt.Errorf("metal: %w", ErrClosed)
	}
	l.regions[busy] = struct{}{}
	l.mu.Unlock()
	defer func() { _ = l.release(busy) }() // which has no buffer
	j, err := l.job(refs, o.Cache, false)
	if err != nil {
		return nil, err
	}
	var missing []Ref
	var bytes int64
	for _, p := range j.places {
		if p.live.file == nil && !p.live.ready && p.bytes > 0 {
			missing = append(missing, p.ref)
			bytes += p.bytes
		}
	}
	if len(missing) == 0 {
		return o.Progress, nil
	}
	// Mapping instead of reading takes about as much.
	plan := l.summary(j)
	if !l.info.Pageable {
		if err := l.affordable(plan); err != nil {
			return nil, err
		}
	}
	progress := o.Progress
	if progress == nil {
		progress = func(int64, int64) error { return nil }
	}
	all := bytes + plan.Model + plan.Cache + plan.Memory
	if err := t.Prepare(ctx, missing, o.Workers, func(done, _ int64) error { return progress(min(done, bytes), all) }); err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	return func(done, total int64) error { return progress(bytes+done, bytes+total) }, nil
}

// makeWindows maps the windows of a job. Where the device declines one, its
// tensors go to memory.
func (l *Loader) makeWindows(j *job) error {
	made := map[*region]*region{}
	for _, w := range j.windows {
		r, err := l.acquire(w, l.mapWindow)
		if errors.Is(err, ErrDeclined) {
			continue
		}
		if err != nil {
			return fmt.Errorf("metal: %w", err)
		}
		j.held = append(j.held, r)
		made[w] = r
	}
	var memory []*place
	for i := range j.places {
		p := &j.places[i]
		if r := made[p.live]; r != nil {
			p.live = r
		} else if !p.live.ready {
			memory = append(memory, p)
		}
	}
	if len(made) == len(j.windows) {
		return nil
	}
	j.windows, j.arenas = nil, l.arenas(memory)
	return l.affordable(l.summary(j))
}

// makeArenas makes the buffers in memory. They are not shared yet.
func (l *Loader) makeArenas(j *job) error {
	for _, r := range j.arenas {
		r.once.Do(func() {}) // it is made here
		l.mu.Lock()
		closed := l.closed
		if !closed {
			r.holders++
			l.regions[r] = struct{}{} // it counts from now on
			j.held = append(j.held, r)
		}
		l.mu.Unlock()
		if closed {
			return fmt.Errorf("metal: %w", ErrClosed)
		}
		var err error
		if r.buffer, err = l.device.Alloc(r.end); err != nil {
			return err
		}
	}
	return nil
}

// reside makes the buffers of a job resident; nil if the device cannot.
func (l *Loader) reside(j *job, wanted bool) (ResidencySet, error) {
	d, ok := l.device.(ResidencySetter)
	if !wanted || !ok || len(j.held) == 0 {
		return nil, nil
	}
	seen := map[*region]bool{}
	var buffers []DeviceBuffer
	for _, r := range j.held {
		if !seen[r] {
			seen[r] = true
			buffers = append(buffers, r.buffer)
		}
	}
	s, err := d.NewResidencySet(buffers)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	return s, err
}

// Buffer returns the buffer of a tensor of the set, which is valid until the set
// is released.
func (s *Set) Buffer(ref Ref) (Buffer, bool) {
	b, ok := s.buffers[ref]
	return b, ok
}

// Refs returns the tensors of the set, each once, in the order in which they were
// asked for.
func (s *Set) Refs() []Ref { return slices.Clone(s.refs) }

// Residency returns the handle of the set's id<MTLResidencySet>, which the engine
// adds to its command queues; 0 without one.
func (s *Set) Residency() uintptr {
	if s.residency == nil {
		return 0
	}
	return s.residency.Handle()
}

// Release ends the use of all buffers of the set. A second call is an error.
func (s *Set) Release() error {
	s.mu.Lock()
	released := s.released
	s.released = true
	s.mu.Unlock()
	if released {
		return fmt.Errorf("metal: a set of %d tensors: %w", len(s.refs), errReleased)
	}
	var errs []error
	if s.residency != nil {
		errs = append(errs, s.residency.Release())
	}
	for _, ref := range s.refs {
		errs = append(errs, s.buffers[ref].lease.end())
	}
	return errors.Join(errs...)
}
