package metal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// region is a buffer of the device and its content: a part of a file, or tensors in memory.
// It lives as long as it has holders.
type region struct {
	file       file          // nil in memory
	start, end int64         // of the file; in memory the length is end
	at         map[Ref]int64 // in memory: where tensors begin
	origin     Origin
	private    bool         // it may be written to, so no other holder finds it
	buffer     DeviceBuffer // once made
	mapping    *mapping     // nil in memory
	ready      bool         // the bytes are there; set under Loader.mu
	once       sync.Once    // makes buffer
	err        error        // of that
	holders    int          // guarded by Loader.mu
}

// lease is one use of a tensor in a region.
type lease struct {
	loader *Loader
	ref    Ref
	region *region
	set    bool // it is a Set's
	ended  bool // guarded by Loader.mu
}

var errReleased = errors.New("it was released before")

// regionLike returns the region that has what want is for, nil if no region has it.
// The caller holds l.mu.
func (l *Loader) regionLike(want *region) *region {
	if want.private {
		return nil
	}
	if want.file == nil {
		for ref := range want.at {
			return l.memory[ref]
		}
	}
	for _, r := range l.files[want.file] {
		if r.start <= want.start && want.end <= r.end {
			return r
		}
	}
	return nil
}

// add puts a region where others find it, unless it is private. The caller holds l.mu.
func (l *Loader) add(r *region) {
	l.regions[r] = struct{}{}
	if r.private {
		return
	}
	if r.file != nil && !slices.Contains(l.files[r.file], r) {
		l.files[r.file] = append(l.files[r.file], r)
	}
	for ref := range r.at {
		if l.memory[ref] == nil {
			l.memory[ref] = r
		}
	}
}

// publish makes a region known whose buffer is there and has its bytes.
func (l *Loader) publish(r *region) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(r)
	r.ready = true
}

// acquire returns a region with the content of want, held once more: an existing one, or
// want, after make has made it. All callers that wait for the same one share its error, and
// making one blocks no other caller.
func (l *Loader) acquire(want *region, make func(*region) error) (*region, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	r := l.regionLike(want)
	if r == nil {
		r = want
		l.add(r)
	}
	r.holders++
	l.mu.Unlock()
	r.once.Do(func() {
		r.err = errors.New("making it panicked")
		if r.err = make(r); r.err == nil {
			l.publish(r)
		}
	})
	if r.err != nil {
		return nil, errors.Join(r.err, l.release(r))
	}
	return r, nil
}

// release ends one holder's use; with the last one the region goes.
func (l *Loader) release(r *region) error {
	l.mu.Lock()
	r.holders--
	last := r.holders == 0
	if last {
		delete(l.regions, r)
		if l.files[r.file] = slices.DeleteFunc(l.files[r.file], func(o *region) bool { return o == r }); len(l.files[r.file]) == 0 {
			delete(l.files, r.file)
		}
		for ref := range r.at {
			if l.memory[ref] == r {
				delete(l.memory, ref)
			}
		}
		l.ending.Add(1) // Close waits for unused regions that still exist
		defer l.ending.Done()
	}
	l.mu.Unlock()
	if !last || r.buffer == nil {
		return nil
	}
	return r.buffer.Release()
}

// mapPart maps the part of the file that a region is of.
func (l *Loader) mapPart(r *region) (*mapping, error) {
	f, err := r.file.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close() // a mapping needs no descriptor
	return mapFile(f, r.file.Name(), r.start, r.end-r.start, l.info.PageSize, r.private)
}

// mapWindow makes the buffer of a region of a file.
func (l *Loader) mapWindow(r *region) error {
	m, err := l.mapPart(r)
	if err != nil {
		return err
	}
	// The mapping lives as long as the device's buffer. Unmapping whole mappings
	// of our own cannot fail.
	b, err := l.device.Wrap(m.mem, func() { _ = m.unmap() })
	if err != nil {
		return errors.Join(err, m.unmap())
	}
	r.buffer, r.mapping = b, m
	return nil
}

// fill returns what makes the buffer of a tensor in memory.
func (l *Loader) fill(p *place) func(*region) error {
	return func(r *region) (err error) {
		p.live = r
		if r.buffer, err = l.device.Alloc(r.end); err != nil {
			return err
		}
		j := job{places: []place{*p}}
		return l.run(context.Background(), j.pieces(), LoadOptions{})
	}
}

// lease returns a Buffer of a tensor in a region. The region stays in memory until the Buffer is
// released.
func (l *Loader) lease(p *place, r *region, set bool) Buffer {
	e := &lease{loader: l, ref: p.ref, region: r, set: set}
	l.mu.Lock()
	l.leases[e] = struct{}{}
	r.holders++
	l.mu.Unlock()
	b := Buffer{Handle: r.buffer.Handle(), Offset: p.Offset - r.start, Size: p.bytes, Origin: r.origin, File: p.path, lease: e}
	if r.file == nil {
		b.Offset, b.Copied = r.at[p.ref], p.File != nil
	}
	b.Contents = r.buffer.Bytes()[b.Offset : b.Offset+b.Size : b.Offset+b.Size]
	return b
}

// end ends a lease.
func (e *lease) end() error {
	l := e.loader
	l.mu.Lock()
	ended := e.ended
	e.ended = true
	delete(l.leases, e)
	l.mu.Unlock()
	if ended {
		return fmt.Errorf("metal: %s: %w", e.ref, errReleased)
	}
	if err := l.release(e.region); err != nil {
		return fmt.Errorf("metal: %s: %w", e.ref, err)
	}
	return nil
}

// hold keeps the region of a lease while its bytes are read.
func (e *lease) hold() error {
	e.loader.mu.Lock()
	defer e.loader.mu.Unlock()
	if e.ended {
		return fmt.Errorf("metal: %s: %w", e.ref, errReleased)
	}
	e.region.holders++
	return nil
}

// inUse names some of the tensors whose buffers were not released. The caller
// holds l.mu.
func (l *Loader) inUse() string {
	var names []string
	for e := range l.leases {
		names = append(names, e.ref.String())
	}
	slices.Sort(names)
	names = slices.Compact(names)
	const shown = 5
	more := ""
	if n := len(names) - shown; n > 0 {
		names, more = names[:shown], fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ") + more
}
