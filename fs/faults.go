package fs

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Faults logs what goes wrong while a tree is served, each cause once, and remembers
// it for the Health. Readers get no more than an error number.
type Faults struct {
	log     *slog.Logger
	health  health
	reports reports
	panics  atomic.Int32
}

// NewFaults returns Faults that go to a logger; nil discards them.
func NewFaults(logger *slog.Logger) *Faults {
	f := new(Faults)
	f.init(logger)
	return f
}

func (f *Faults) init(logger *slog.Logger) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	f.health.mounted = time.Now()
	f.log = slog.New(remembering{Handler: logger.Handler(), health: &f.health})
}

// Logger returns the logger with a memory: what it logs as a warning or error is
// part of the Health.
func (f *Faults) Logger() *slog.Logger { return f.log }

// Failed logs a read that failed once for each cause: a file of the model that
// changed is one cause, whatever was read, and everything else is one for each file
// of the tree.
func (f *Faults) Failed(node uint64, path string, off int64, err error) {
	if !f.noteChanged(err, path) {
		f.complain(node, path, off, "read failed", err)
	}
}

// maxPanics is how many panics are logged: they are bugs, and a few lines with
// stacks are enough.
const maxPanics = 3

// Panicked logs what recover returned in a handler, a bug of this program.
func (f *Faults) Panicked(v any) {
	if f.panics.Add(1) <= maxPanics {
		f.log.Error("internal error while serving a request", "panic", v, "stack", string(debug.Stack()))
	}
}

const (
	// maxReported bounds the memory that reports take when every file fails.
	maxReported = 1000
	// reportBurst is how many files are reported in reportPeriod.
	reportBurst  = 20
	reportPeriod = time.Minute
)

// reports remembers which files were reported, because errno drops the text and a
// reader repeats a failing read many times. A file that fails while too many
// others do is reported when it fails later.
type reports struct {
	mu      sync.Mutex
	seen    map[uint64]struct{}
	since   time.Time
	n       int // in the period that began then
	omitted int // complaints left out since the last one
}

// first reports whether to complain about a node, which is true once, and how many
// complaints about others were left out before. last says that it is the last
// complaint that will be made.
func (r *reports) first(id uint64, now time.Time) (first, last bool, omitted int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.seen[id]; ok || len(r.seen) >= maxReported {
		return false, false, 0
	}
	if now.Sub(r.since) >= reportPeriod {
		r.since, r.n = now, 0
	}
	if r.n == reportBurst {
		r.omitted++
		return false, false, 0
	}
	r.n++
	omitted, r.omitted = r.omitted, 0
	if r.seen == nil {
		r.seen = make(map[uint64]struct{})
	}
	r.seen[id] = struct{}{}
	return true, len(r.seen) == maxReported, omitted
}

// quiet reports whether first would return false, for whatever reason.
func (r *reports) quiet(id uint64, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.seen[id]
	return ok || len(r.seen) >= maxReported || r.n == reportBurst && now.Sub(r.since) < reportPeriod
}

// complain logs what is wrong with a file of the tree.
func (f *Faults) complain(node uint64, path string, off int64, problem string, err error) {
	first, last, omitted := f.reports.first(node, time.Now())
	if !first {
		return
	}
	attrs := []any{"file", path, "offset", off}
	if err != nil {
		attrs = append(attrs, "error", err)
	}
	if omitted > 0 {
		attrs = append(attrs, "not_logged", omitted)
	}
	f.log.Error(problem, attrs...)
	if last {
		f.log.Error("too many files failed: further ones are not logged")
	}
}
