package fs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tensorfs/tensorfs"
)

// Health is a server's record of what went wrong.
type Health struct {
	Changed  []string  `json:"changed"`  // files of the model that changed after it was mounted
	Errors   []Fault   `json:"errors"`   // the last errors that were logged, oldest first
	Warnings []Fault   `json:"warnings"` // and the last warnings, which do not mean that anything failed
	Mounted  time.Time `json:"mounted"`  // when the server started
	// Unwatched is what Options.Unwatched said.
	Unwatched string `json:"unwatched,omitempty"`
}

// Fault is something that went wrong: a line of the log.
type Fault struct {
	Time    time.Time `json:"time"` // of the first time
	Message string    `json:"message"`
	// Count is how often it happened, and 0 if that is not counted. Failed reads are
	// counted for each file.
	Count int `json:"count,omitempty"`
}

const (
	// maxFaults is how many errors, and how many warnings, are kept for the Health.
	maxFaults       = 16
	maxMessageBytes = 500
	// maxChanged is how many changed files are kept: few models have more shards, and
	// one file is enough to know.
	maxChanged = 64
	// maxCauses bounds the memory that causes take when every file fails.
	maxCauses = 1000
	// burst is how many files are logged in burstPeriod.
	burst       = 20
	burstPeriod = time.Minute
	// maxPanics is how many panics are logged: they are bugs, and a few lines with
	// stacks are enough.
	maxPanics = 3
)

// Faults is the record of what goes wrong while a tree is served. Readers get no more than
// an error number, and repeat a failing read many times: so each cause is logged once, and
// is counted. A cause is a file of the model that changed, whatever was read of it, or else
// the file of the tree that cannot be read. The record is the Health.
type Faults struct {
	log     *slog.Logger
	mounted time.Time

	mu      sync.Mutex
	causes  map[any]*Fault // by the path of a file of the model, or by the number of a node
	changed []string
	errors  []*Fault // oldest first
	warning []*Fault
	text    bytes.Buffer // of the message that is being formatted
	panics  int

	since   time.Time // when the present burst of nodes began
	burst   int       // nodes that were logged since
	omitted int       // nodes that were not logged, since the last one that was
}

// NewFaults returns Faults that go to a logger; nil discards them.
func NewFaults(logger *slog.Logger) *Faults {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	f := &Faults{mounted: time.Now(), causes: map[any]*Fault{}}
	text := slog.NewTextHandler(&f.text, &slog.HandlerOptions{ReplaceAttr: onlyAttrs})
	f.log = slog.New(recorder{logger.Handler(), text, f})
	return f
}

// Logger returns a logger whose warnings and errors are part of the Health.
func (f *Faults) Logger() *slog.Logger { return f.log }

// Failed logs a read that failed, once for each cause. node and path name the file of the
// tree, and off is where the read began.
func (f *Faults) Failed(node uint64, path string, off int64, err error) {
	if !f.noteChanged(err, path) {
		f.complain(node, "read failed", "file", path, "offset", off, "error", err)
	}
}

// complain logs what is wrong with a file of the tree, unless that is known. A file that
// fails while too many other files do is logged when it fails later.
func (f *Faults) complain(node uint64, problem string, attrs ...any) {
	fault, omitted, last := f.first(node, time.Now())
	if fault == nil {
		return
	}
	if omitted > 0 {
		attrs = append(attrs, "not_logged", omitted)
	}
	f.say(fault, problem, attrs...)
	if last {
		f.log.Error("too many files failed: further ones are not logged")
	}
}

// first returns a new fault of a node that is to be logged, and how many nodes were left
// out before, or nil. last reports that no other node will be logged.
func (f *Faults) first(node uint64, now time.Time) (fault *Fault, omitted int, last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.quiet(node, now) {
		if known := f.causes[node]; known != nil {
			known.Count++
		} else if len(f.causes) < maxCauses {
			f.omitted++
		}
		return nil, 0, false
	}
	if now.Sub(f.since) >= burstPeriod {
		f.since, f.burst = now, 0
	}
	f.burst++
	omitted, f.omitted = f.omitted, 0
	fault = &Fault{Count: 1}
	f.causes[node] = fault
	return fault, omitted, len(f.causes) == maxCauses
}

// known reports whether complain would log nothing about a node.
func (f *Faults) known(node uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.quiet(node, time.Now())
}

// quiet reports whether a failure of a node is not to be logged. mu is held.
func (f *Faults) quiet(node uint64, now time.Time) bool {
	return f.causes[node] != nil || len(f.causes) >= maxCauses || f.burst == burst && now.Sub(f.since) < burstPeriod
}

// noteChanged logs the changed files of the model that err names, or other if it names
// none. It reports whether anything changed.
func (f *Faults) noteChanged(err error, other string) bool {
	if !errors.Is(err, tensorfs.ErrChanged) {
		return false
	}
	files := changedFiles(nil, err)
	if len(files) == 0 {
		files = []string{other}
	}
	for _, file := range files {
		if fault := f.firstChange(file); fault != nil {
			f.say(fault, "a file of the model changed after it was mounted: tensors that need it cannot be read; unmount and mount again", "file", file)
		}
	}
	return true
}

// firstChange returns a new fault of a file that changed, nil if the change is known.
func (f *Faults) firstChange(file string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.causes[file]; known != nil {
		known.Count++
		return nil
	}
	if len(f.changed) == maxChanged {
		return nil
	}
	f.changed = append(f.changed, file)
	f.causes[file] = &Fault{Count: 1}
	return f.causes[file]
}

// changedFiles appends the files that the ChangedErrors in err name.
func changedFiles(dst []string, err error) []string {
	switch e := err.(type) {
	case *tensorfs.ChangedError:
		return append(dst, e.File)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			dst = changedFiles(dst, err)
		}
	case interface{ Unwrap() error }:
		return changedFiles(dst, e.Unwrap())
	}
	return dst
}

// Panicked logs what recover returned in a handler, a bug of this program.
func (f *Faults) Panicked(v any) {
	f.mu.Lock()
	f.panics++
	tell := f.panics <= maxPanics
	f.mu.Unlock()
	if tell {
		f.log.Error("internal error while serving a request", "panic", v, "stack", string(debug.Stack()))
	}
}

// Health checks the model's files with an [Options.Check] and an [Options.Unwatched],
// which may be nil, and returns the record. name is said of a change where check names no
// file. Pages that the kernel keeps hide a change from readers; they do not hide it here.
func (f *Faults) Health(check func() error, unwatched func() string, name string) Health {
	if check != nil {
		f.noteChanged(check(), name)
	}
	h := Health{Mounted: f.mounted}
	if unwatched != nil {
		h.Unwatched = unwatched()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	h.Changed, h.Errors, h.Warnings = append([]string{}, f.changed...), values(f.errors), values(f.warning)
	return h
}

func values(faults []*Fault) []Fault {
	all := make([]Fault, len(faults))
	for i, f := range faults {
		all[i] = *f
	}
	return all
}

// say logs a fault that is counted.
func (f *Faults) say(fault *Fault, problem string, attrs ...any) {
	f.log.ErrorContext(context.WithValue(context.Background(), faultKey{}, fault), problem, attrs...)
}

type faultKey struct{}

// recorder is a handler of the log that also keeps warnings and errors for the Health.
type recorder struct {
	slog.Handler
	text   slog.Handler // formats the attributes of a message for the Health
	faults *Faults
}

// onlyAttrs leaves out what a Fault has as fields.
func onlyAttrs(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return a
}

// Enabled lets warnings through to Handle whatever the log takes.
func (h recorder) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.Handler.Enabled(ctx, level)
}

// Handle keeps a record and passes it on.
func (h recorder) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		if err := h.keep(ctx, r); err != nil {
			return err
		}
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// keep adds a fault and forgets the oldest one of its level.
func (h recorder) keep(ctx context.Context, r slog.Record) error {
	fault, _ := ctx.Value(faultKey{}).(*Fault)
	if fault == nil {
		fault = new(Fault)
	}
	f := h.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text.Reset()
	if err := h.text.Handle(ctx, r); err != nil {
		return err
	}
	text := strings.TrimSpace(r.Message + " " + f.text.String())
	if len(text) > maxMessageBytes {
		text = strings.ToValidUTF8(text[:maxMessageBytes], "") + "..."
	}
	fault.Time, fault.Message = r.Time, text
	faults := &f.errors
	if r.Level < slog.LevelError {
		faults = &f.warning
	}
	if len(*faults) == maxFaults {
		*faults = slices.Delete(*faults, 0, 1)
	}
	*faults = append(*faults, fault)
	return nil
}

// WithAttrs returns the handler with attributes in every record.
func (h recorder) WithAttrs(attrs []slog.Attr) slog.Handler {
	return recorder{h.Handler.WithAttrs(attrs), h.text.WithAttrs(attrs), h.faults}
}

// WithGroup returns the handler with a group around the attributes.
func (h recorder) WithGroup(name string) slog.Handler {
	return recorder{h.Handler.WithGroup(name), h.text.WithGroup(name), h.faults}
}
