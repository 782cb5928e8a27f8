package demand

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
)

const (
	// atOnce is how many models are looked up at a time.
	atOnce = 4
	// rememberRefused is how long a name is not looked up again that the server refused.
	rememberRefused = time.Minute
	// rememberSilence is how long a name is not looked up again that could not be opened for
	// another reason, such as a server that does not answer. Programs try a path several
	// times, and would wait each time.
	rememberSilence = 5 * time.Second
	// maxOpened bounds the models that were opened, and maxFailed the remembered failures:
	// there are more names than memory.
	maxOpened = 10_000
	maxFailed = 10_000
)

// Options configure [Lookups].
type Options struct {
	Names *Names
	// Open opens the model of a path, whose name is call as [Names.Model] returns it. ctx ends
	// when no program waits any more; after Open succeeded it does not end.
	Open func(ctx context.Context, at, call string) (Opened, error)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Opened is a model that was found.
type Opened struct {
	Name string // with what pins it, such as hf:ORG/NAME@COMMIT
	Lazy *tensorfs.Lazy
}

// Lookups are the names that were looked up in a mount. It is safe for concurrent use.
type Lookups struct {
	o       Options
	log     *slog.Logger
	tickets chan struct{}

	mu      sync.Mutex
	flights map[string]*flight
	opened  map[string]bool
	list    []Found // of opened, in the order of time
	failed  map[string]*failure
	version int
}

// Found is a model that was opened.
type Found struct {
	At string // its path
	Opened
}

// flight is a look-up under way.
type flight struct {
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // once done
	waiting int   // programs; without one it is cancelled
}

// failure is why a name could not be opened.
type failure struct {
	err  *Error
	hold time.Duration // how long it holds
	at   time.Time
}

// Error is why a look-up failed.
type Error struct {
	Errno  syscall.Errno // what the program gets
	Reason string        // one line without secrets
}

func (e *Error) Error() string { return e.Reason }
func (e *Error) Unwrap() error { return e.Errno }

// New returns Lookups without any.
func New(o Options) *Lookups {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Lookups{o: o, log: slog.New(slog.DiscardHandler), tickets: make(chan struct{}, atOnce), flights: map[string]*flight{}, opened: map[string]bool{}, failed: map[string]*failure{}}
}

// LogTo sets who receives the reasons that programs do not get. It must be called before Open.
func (l *Lookups) LogTo(logger *slog.Logger) { l.log = logger }

// Dir reports whether a path that is not listed is a directory. It sends no request.
func (l *Lookups) Dir(at string) bool { return l.o.Names.Dir(at) }

// Open looks up the model of a path, unless it was opened before. If the path is not the name
// of a model, it fails without a request. ctx ends when the program was interrupted; then the
// look-up ends, too, if no other program waits for it. The error is an [Error].
func (l *Lookups) Open(ctx context.Context, at string) error {
	call, ok := l.o.Names.Model(at)
	if !ok {
		return &Error{syscall.ENOENT, at + " is not the name of a model"}
	}
	f, err := l.join(at, call)
	if f == nil {
		return err
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		l.leave(at, f)
		return &Error{syscall.EINTR, "interrupted"}
	}
}

// join returns the look-up of a path, which it starts if necessary, or nil and the result that
// is known.
func (l *Lookups) join(at, call string) (*flight, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened[at] {
		return nil, nil
	}
	if x := l.failed[at]; x != nil && l.o.Now().Sub(x.at) < x.hold {
		return nil, x.err
	}
	f := l.flights[at]
	switch {
	case f != nil:
	case len(l.list)+len(l.flights) >= maxOpened:
		return nil, &Error{syscall.ENFILE, "this mount shows its maximum number of models; mount it again"}
	default:
		ctx, cancel := context.WithCancel(context.Background())
		f = &flight{cancel: cancel, done: make(chan struct{})}
		l.flights[at] = f
		go l.run(ctx, f, at, call)
	}
	f.waiting++
	return f, nil
}

// leave ends the wait of a program for a look-up.
func (l *Lookups) leave(at string, f *flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.waiting--; f.waiting > 0 {
		return
	}
	f.cancel()
	if l.flights[at] == f { // the next program starts another
		delete(l.flights, at)
	}
}

// run looks up a path. It does not cancel ctx after success, because the open model's files may
// still be read by it.
func (l *Lookups) run(ctx context.Context, f *flight, at, call string) {
	defer close(f.done)
	var o Opened
	err := ctx.Err()
	select {
	case l.tickets <- struct{}{}:
		if err == nil {
			o, err = l.o.Open(ctx, at, call)
		}
		<-l.tickets
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flights[at] == f {
		delete(l.flights, at)
	}
	switch {
	case err == nil:
		l.opened[at], l.list = true, append(l.list, Found{at, o})
		delete(l.failed, at)
		l.version++
	case ctx.Err() != nil: // no program waits, and nothing is known of the name
		f.err = &Error{syscall.EINTR, "interrupted"}
	default:
		f.err = l.fail(at, err)
	}
}

// fail remembers why a path cannot be opened. mu is held.
func (l *Lookups) fail(at string, err error) error {
	x := &failure{&Error{errnoOf(err), tensorfs.OneLine(err.Error())}, rememberRefused, l.o.Now()}
	if IsSilence(err) {
		x.hold = rememberSilence
	}
	known := l.failed[at]
	if known == nil && len(l.failed) >= maxFailed {
		oldest := ""
		for name, y := range l.failed {
			if oldest == "" || y.at.Before(l.failed[oldest].at) {
				oldest = name
			}
		}
		delete(l.failed, oldest)
	}
	l.failed[at] = x
	l.version++
	if known != nil && known.err.Reason == x.err.Reason { // which was logged
		return x.err
	}
	level := slog.LevelWarn
	if x.err.Errno == syscall.EIO {
		level = slog.LevelError
	}
	l.log.Log(context.Background(), level, "a name cannot be opened", "model", at, "error", x.err)
	return x.err
}

// Opened returns the models that were opened, without the first ones.
func (l *Lookups) Opened(without int) []Found {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list[without:len(l.list):len(l.list)]
}

// Version changes when [Lookups.About] does.
func (l *Lookups) Version() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version
}

// About returns a JSON object that has, for the path of each name that was looked up, the model
// that was opened, or the reason why none was.
func (l *Lookups) About() []byte {
	type model struct {
		Model     string `json:"model"` // as other commands take it
		Available bool   `json:"available"`
		Reason    string `json:"reason,omitempty"`
	}
	all := map[string]model{}
	l.mu.Lock()
	for _, x := range l.list {
		all[x.At] = model{Model: x.Name, Available: true}
	}
	for at, x := range l.failed {
		call, _ := l.o.Names.Model(at)
		all[at] = model{Model: call, Reason: x.err.Reason}
	}
	l.mu.Unlock()
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil { // strings and bools cannot fail
		panic(err)
	}
	return append(text, '\n')
}

// IsSilence reports whether a server gave no answer, or was too busy for one: an error of the
// system or of the network.
func IsSilence(err error) bool {
	var e interface{ Timeout() bool }
	return errnoOf(err) == syscall.EIO && errors.As(err, &e)
}

// errnoOf returns what a program gets for an error. Asked without a token, the Hub does not tell
// a name that is wrong from one that is private: that is ENOENT, as most such names are wrong.
func errnoOf(err error) syscall.Errno {
	var either interface{ MayNotExist() bool }
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &either):
		return syscall.ENOENT
	case errors.Is(err, fs.ErrPermission):
		return syscall.EACCES
	}
	return syscall.EIO
}
