package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"log/syslog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/near"
)

// logDevices are the values of --log that are not files.
var logDevices = map[string]func() (sink, error){
	"syslog":  openSyslog,
	"journal": openJournal,
}

// logger returns the log of the server's messages: --log, standard error in the
// foreground, else the system log if the system has one. close waits until they are
// written, but not for long.
func (s *Spec) logger(stderr io.Writer) (l *slog.Logger, close func(), err error) {
	var to sink
	open, isDevice := logDevices[s.Log]
	switch {
	case isDevice:
		to, err = open()
	case s.Log != "":
		to, err = openLogFile(s.Log)
	case !s.Background:
		to = func(_ slog.Level, line []byte) { _, _ = stderr.Write(line) } // the terminal may be gone
		return slog.New(s.handler(to, true)), func() {}, nil
	default:
		if to, err = openSyslog(); err != nil { // as in most containers: status --json has the last messages
			return slog.New(slog.DiscardHandler), func() {}, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	q := newLogQueue(to)
	return slog.New(s.handler(q.put, !isDevice && s.Log != "")), q.close, nil
}

// LogPath makes the file that --log names independent of the working directory.
func LogPath(name string) (string, error) {
	if _, isDevice := logDevices[name]; name == "" || isDevice {
		return name, nil
	}
	if meant := near.Names(name, LogNames(), 1); meant != nil && !strings.Contains(name, "/") {
		if _, err := os.Lstat(name); err != nil {
			return "", cli.UsageError{Err: fmt.Errorf("--log %s: did you mean %s? For a file of that name write ./%[1]s", conceal.Printable(name), meant[0])}
		}
	}
	return filepath.Abs(name)
}

// LogNames are the values of --log that are not files.
func LogNames() []string { return slices.Sorted(maps.Keys(logDevices)) }

// sink writes a line that ends with a newline. It does not retain the line.
type sink func(level slog.Level, line []byte)

// handler formats messages for a sink. The system's logs record time and level
// themselves.
func (s *Spec) handler(to sink, full bool) slog.Handler {
	level := slog.LevelInfo
	if s.Debug {
		level = slog.LevelDebug
	}
	options := &slog.HandlerOptions{Level: level}
	if !full {
		options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
				return slog.Attr{}
			}
			return a
		}
	}
	h := lineHandler{mu: &sync.Mutex{}, line: &bytes.Buffer{}, sink: to}
	h.Handler = slog.NewTextHandler(h.line, options)
	return h
}

// lineHandler gives each record to a sink as a line, with its level.
type lineHandler struct {
	slog.Handler // writes to line
	mu           *sync.Mutex
	line         *bytes.Buffer
	sink         sink
}

// Handle writes a record.
func (h lineHandler) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.line.Reset()
	err := h.Handler.Handle(ctx, r)
	h.sink(r.Level, h.line.Bytes())
	return err
}

// WithAttrs returns the handler with attributes in every record.
func (h lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

// WithGroup returns the handler with a group around the attributes.
func (h lineHandler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}

// priority is the number of a level in syslog and the journal.
func priority(level slog.Level) syslog.Priority {
	switch {
	case level >= slog.LevelError:
		return syslog.LOG_ERR
	case level >= slog.LevelWarn:
		return syslog.LOG_WARNING
	case level >= slog.LevelInfo:
		return syslog.LOG_INFO
	}
	return syslog.LOG_DEBUG
}

func openSyslog() (sink, error) {
	w, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_NOTICE, "tensorfs")
	if err != nil {
		return nil, errors.New("--log syslog: there is no system log here; name a file")
	}
	write := map[syslog.Priority]func(string) error{
		syslog.LOG_ERR: w.Err, syslog.LOG_WARNING: w.Warning, syslog.LOG_INFO: w.Info, syslog.LOG_DEBUG: w.Debug,
	}
	return func(level slog.Level, line []byte) { _ = write[priority(level)](string(line)) }, nil // there is nowhere to report a failure
}

// journalSocket is where systemd's journal listens.
const journalSocket = "/run/systemd/journal/socket"

// openJournal speaks the journal's own protocol: a datagram of NAME=value lines.
// Our lines contain no newline, which would take another form of the protocol.
func openJournal() (sink, error) {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: journalSocket, Net: "unixgram"})
	if err != nil {
		return nil, errors.New("--log journal: " + cli.Messages[runtime.GOOS].NoJournal)
	}
	return func(level slog.Level, line []byte) {
		// There is nowhere to report a failure.
		_, _ = fmt.Fprintf(c, "PRIORITY=%d\nSYSLOG_IDENTIFIER=tensorfs\nMESSAGE=%s\n", priority(level), strings.TrimRight(string(line), "\n"))
	}, nil
}

// openLogFile appends to a file. Opening a FIFO does not wait for a reader.
func openLogFile(path string) (sink, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o644)
	if errors.Is(err, syscall.ENXIO) {
		return nil, fmt.Errorf("cannot open the log %s: no program reads this FIFO; start its reader first or name a file", tensorfs.Printable(path))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the log %s: %w; name another file", tensorfs.Printable(path), cli.SystemError(err))
	}
	return func(_ slog.Level, line []byte) { _, _ = f.Write(line) }, nil // on a full disk there is nowhere to report it either
}

const (
	// logBacklog is how many lines may wait to be written.
	logBacklog = 256
	// logPatience is how long a request waits to log when the log's reader does
	// not read. When the server ends it waits ten times as long.
	logPatience = 100 * time.Millisecond
)

// logQueue writes lines in a goroutine of its own: a log that accepts no more, such
// as a FIFO or a stuck system log, must not stop the readers of the mount.
type logQueue struct {
	lines   chan logLine
	quit    chan struct{}
	done    chan struct{}
	stuck   atomic.Bool // the log has accepted nothing for a while
	dropped atomic.Int64
}

type logLine struct {
	level slog.Level
	text  []byte
}

func newLogQueue(s sink) *logQueue {
	q := &logQueue{lines: make(chan logLine, logBacklog), quit: make(chan struct{}), done: make(chan struct{})}
	write := func(l logLine) {
		s(l.level, l.text)
		q.stuck.Store(false)
		if n := q.dropped.Swap(0); n > 0 {
			s(slog.LevelWarn, fmt.Appendf(nil, "level=WARN msg=\"the log accepted nothing for a while\" lost=%d\n", n))
		}
	}
	go func() {
		defer close(q.done)
		for {
			select {
			case l := <-q.lines:
				write(l)
			case <-q.quit:
				for len(q.lines) > 0 {
					write(<-q.lines)
				}
				return
			}
		}
	}()
	return q
}

// put is the sink that queues.
func (q *logQueue) put(level slog.Level, line []byte) {
	l := logLine{level, append([]byte(nil), line...)}
	select {
	case q.lines <- l:
		return
	default:
	}
	if q.stuck.Load() {
		q.dropped.Add(1)
		return
	}
	late := time.NewTimer(logPatience)
	defer late.Stop()
	select {
	case q.lines <- l:
	case <-late.C:
		q.stuck.Store(true)
		q.dropped.Add(1)
	}
}

// close writes the lines that are waiting. Later lines are lost.
func (q *logQueue) close() {
	close(q.quit)
	select {
	case <-q.done:
	case <-time.After(10 * logPatience):
	}
}
