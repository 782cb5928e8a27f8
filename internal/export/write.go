package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/parallel"
)

// job is a stretch of a file.
type job struct {
	f *output
	n int64
}

// write writes files with all workers, and stops at the first error.
func (x *exporter) write(ctx context.Context, files []*output, done func(int64)) error {
	var jobs []job
	for _, f := range files {
		if f.pending == 0 { // only its name is missing
			jobs = append(jobs, job{f, -1})
		}
		for i := range max((f.size+x.stretch-1)/x.stretch, 1) {
			if !f.cloned && !f.linked && !f.have[i] {
				jobs = append(jobs, job{f, i})
			}
		}
	}
	idle := sync.Pool{New: func() any { return &worker{x: x, buf: make([]byte, piece), done: done} }}
	return parallel.Each(ctx, x.Jobs, len(jobs), func(ctx context.Context, i int) error {
		w := idle.Get().(*worker)
		defer idle.Put(w)
		return w.do(ctx, jobs[i])
	})
}

// worker writes one stretch at a time.
type worker struct {
	x      *exporter
	buf    []byte
	slices [][]byte
	done   func(int64)
}

func (w *worker) do(ctx context.Context, j job) error {
	f, x := j.f, w.x
	if f.linked {
		return x.finish(f)
	}
	out, err := x.begun(f)
	if err != nil {
		return x.failed(f.Path, err)
	}
	if j.n >= 0 {
		off := j.n * x.stretch
		if err := w.copy(ctx, f, out, off, min(x.stretch, f.size-off)); err != nil {
			return err
		}
		if f.size > x.stretch {
			if err := x.keep(f, out, j.n); err != nil {
				return err
			}
		}
		f.mu.Lock()
		f.pending--
		rest := f.pending
		f.mu.Unlock()
		if rest > 0 {
			return nil
		}
	}
	return x.finish(f)
}

// begun returns the open file that holds f until it is complete.
func (x *exporter) begun(f *output) (*os.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out != nil {
		return f.out, nil
	}
	flags := os.O_RDWR
	if f.have == nil {
		flags |= os.O_CREATE | os.O_TRUNC
		if f.size > x.stretch { // before the file: what the log has of it holds no longer
			err := x.state.add(record{Kind: recordStart, Path: tensorfs.Printable(f.Path)})
			if err := errors.Join(err, x.state.log.Sync()); err != nil {
				return nil, err
			}
		}
	}
	out, err := x.own.OpenFile(f.partial, flags, 0o666)
	if err == nil && f.have == nil {
		err = out.Truncate(f.size)
	}
	f.out = out
	return out, err
}

// keep records a stretch that is on the disk and was the model's when it was
// read, so that it need not be written again.
func (x *exporter) keep(f *output, out *os.File, n int64) error {
	if err := out.Sync(); err != nil {
		return x.failed(f.Path, err)
	}
	if err := x.check(f.Data); err != nil {
		return err
	}
	return x.state.add(record{Kind: recordStretch, Path: tensorfs.Printable(f.Path), Number: n})
}

// check asks whether what was read was what should have been.
func (x *exporter) check(d tensorfs.Data) error {
	if _, ok := d.(tensorfs.Checker); ok {
		return tensorfs.Check(d)
	}
	return x.Check()
}

// finish gives a file that is whole its name.
func (x *exporter) finish(f *output) error {
	if err := x.check(f.Data); err != nil {
		return err
	}
	if err := x.complement(f); err != nil {
		return x.failed(f.Path, err)
	}
	st, err := x.own.Lstat(f.partial)
	if err != nil {
		return x.failed(f.Path, err)
	}
	d, base, err := x.parent(f.Path, true)
	if err != nil {
		return err
	}
	appeared := fmt.Errorf("%s %w: it appeared during the export", x.shown(f.Path), ErrExists)
	switch old, err := d.Lstat(base); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return x.failed(f.Path, err)
	case !x.Force || x.never(old):
		return appeared
	default: // before the record, which must not be taken for this file's
		if err := d.Remove(base); err != nil {
			return x.failed(f.Path, err)
		}
	}
	if err := x.state.add(doneRecord(f.Path, st)); err != nil {
		return x.failed(stateDir+"/"+logName, err)
	}
	switch err := x.own.RenameNew(f.partial, d, base); {
	case errors.Is(err, os.ErrExist):
		return appeared
	case err != nil:
		return x.failed(f.Path, err)
	}
	return nil
}

// complement makes a file that was written durable and gives it its time. One of the model keeps its own.
func (x *exporter) complement(f *output) error {
	if f.linked {
		return nil
	}
	out := f.out
	f.out = nil
	if x.Whole != nil {
		if err := x.Whole(f.Path, out); err != nil {
			out.Close()
			return err
		}
	}
	if err := errors.Join(out.Sync(), out.Close()); err != nil || x.ModTime.IsZero() {
		return err
	}
	return x.own.Chtimes(f.partial, x.ModTime)
}
