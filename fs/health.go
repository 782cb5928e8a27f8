package fs

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
)

// Health is a server's record of what went wrong.
type Health struct {
	Changed  []string  `json:"changed"`  // files of the model that changed after it was mounted
	Errors   []Message `json:"errors"`   // the last errors that were logged, oldest first
	Warnings []Message `json:"warnings"` // and the last warnings, which do not mean that anything failed
	Mounted  time.Time `json:"mounted"`  // when the server started
	// Unwatched is what Options.Unwatched said.
	Unwatched string `json:"unwatched,omitempty"`
}

// Message is a line of the log.
type Message struct {
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
}

const (
	maxMessages     = 16
	maxMessageBytes = 500
	// maxChanged is how many changed files are remembered: few models have more
	// shards, and one file is enough to know.
	maxChanged = 64
)

// health collects a Health.
type health struct {
	mounted          time.Time
	mu               sync.Mutex
	changed          []string
	errors, warnings []Message
}

// remember adds a message of a level and forgets the oldest of its kind.
func (h *health) remember(level slog.Level, t time.Time, text string) {
	if len(text) > maxMessageBytes {
		text = strings.ToValidUTF8(text[:maxMessageBytes], "") + "..."
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := &h.errors
	if level < slog.LevelError {
		kept = &h.warnings
	}
	if len(*kept) == maxMessages {
		*kept = slices.Delete(*kept, 0, 1)
	}
	*kept = append(*kept, Message{t, text})
}

// isNews adds a changed file and reports whether it is a new one.
func (h *health) isNews(file string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.changed) == maxChanged || slices.Contains(h.changed, file) {
		return false
	}
	h.changed = append(h.changed, file)
	return true
}

func (h *health) status() Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Health{
		Changed: append([]string{}, h.changed...), Mounted: h.mounted,
		Errors: append([]Message{}, h.errors...), Warnings: append([]Message{}, h.warnings...),
	}
}

// value is the Health as JSON, as much of it as fits in an attribute.
func (s Health) value() []byte {
	for {
		b, err := json.Marshal(s)
		switch {
		case err != nil:
			return nil // text and times always marshal
		case len(b) <= maxAttr:
			return b
		case len(s.Warnings) > 0:
			s.Warnings = s.Warnings[1:]
		case len(s.Errors) > 0:
			s.Errors = s.Errors[1:]
		default:
			s.Changed = s.Changed[:len(s.Changed)-1]
		}
	}
}

// noteChanged remembers and logs the files of the model that err says have
// changed, each once. other names what is known where err does not name one. It
// reports whether there is any.
func (f *Faults) noteChanged(err error, other string) bool {
	if !errors.Is(err, tensorfs.ErrChanged) {
		return false
	}
	files := changedFiles(nil, err)
	if len(files) == 0 {
		files = []string{other}
	}
	for _, file := range files {
		if f.health.isNews(file) {
			f.log.Error("a file of the model changed after it was mounted: tensors that need it cannot be read; unmount and mount again", "file", file)
		}
	}
	return true
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

// Health checks the model's files with an [Options.Check] and an [Options.Unwatched],
// which may be nil, and returns the Health. name is said of a change where check names
// no file. Pages that the kernel keeps hide a change from readers; they do not hide it
// here.
func (f *Faults) Health(check func() error, unwatched func() string, name string) Health {
	if check != nil {
		f.noteChanged(check(), name)
	}
	h := f.health.status()
	if unwatched != nil {
		h.Unwatched = unwatched()
	}
	return h
}

func (f *rawFS) checkHealth() Health {
	return f.Health(f.opts.Check, f.opts.Unwatched, f.opts.FsName)
}

// remembering is a handler that also keeps warnings and errors for the Health.
type remembering struct {
	slog.Handler
	health *health
	attrs  string // of every message, formatted
}

// Enabled lets warnings through to Handle whatever the log takes.
func (h remembering) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.Handler.Enabled(ctx, level)
}

// Handle remembers a record and passes it on.
func (h remembering) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		var text strings.Builder
		text.WriteString(r.Message)
		text.WriteString(h.attrs)
		r.Attrs(func(a slog.Attr) bool {
			text.WriteString(attrText(a))
			return text.Len() <= maxMessageBytes
		})
		h.health.remember(r.Level, r.Time, text.String())
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns the handler with attributes in every record.
func (h remembering) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.attrs += attrText(a)
	}
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

// WithGroup returns the handler with a group around the attributes.
func (h remembering) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}

// attrText is an attribute as it follows a message.
func attrText(a slog.Attr) string {
	v := a.Value.Resolve().String()
	if v == "" || strings.ContainsAny(v, " =\"") || !utf8.ValidString(v) {
		v = tensorfs.Quote(v)
	} else {
		v = tensorfs.Printable(v)
	}
	return " " + a.Key + "=" + v
}
