package library

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

const (
	// maxModels is how many models a library has; of more, the first are listed.
	maxModels = 10_000
	// maxDepth is how many parts a name below a folder has.
	maxDepth = 8
)

// Options configure how a library is searched. The zero value is the default.
type Options struct {
	// Skip reports whether to ignore a device, as the table of mounts shows it. May be nil.
	// It decides about devices that are not the library's own: mounts of tensorfs show
	// models a second time, and may be served by the very process that looks.
	Skip func(device string) bool
	// Missing opens a store that does not exist as an empty library with a warning. Its models
	// are there when the store is.
	Missing bool
	// Every is how long a look at the library counts as fresh; 0 for half a second.
	Every time.Duration
}

// List is what a library has at a time.
type List struct {
	Models   []*Model // sorted by Name
	Warnings []string // what is left out, and why
	Modified time.Time
}

// Library finds models. It may be used concurrently.
type Library struct {
	Name   string   // as users name it: "ollama:", "hf:" or the absolute path of a folder
	Places []string // the directories that are looked through

	kind   *kind
	absent error // why it is empty while no place exists; nil if one did
	every  time.Duration
	list   atomic.Pointer[List]
	last   atomic.Int64 // when it was looked through last

	mu     sync.Mutex
	places []*watch // by Places
}

// kind is a way to keep models.
type kind struct {
	find   func(s *search, place string)
	deeper bool // if one name begins with the other, the longer one yields
}

// open looks through a library for the first time.
func open(name string, k *kind, places []string, o Options) (*Library, error) {
	for _, p := range places {
		if _, err := os.Stat(p); err != nil {
			return nil, tensorfs.PathError(p, err)
		}
	}
	return openMissing(name, k, places, nil, o)
}

// openMissing is open for places that need not exist. absent explains why the library is empty.
func openMissing(name string, k *kind, places []string, absent error, o Options) (*Library, error) {
	l := &Library{Name: name, Places: places, kind: k, absent: absent, every: o.Every}
	if l.every == 0 {
		l.every = time.Second / 2
	}
	for _, p := range places {
		dev, _ := device(p) // without it, only names say what is on another file system
		l.places = append(l.places, &watch{skip: o.Skip, device: dev, now: map[string]*seen{}})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look()
	return l, nil
}

// Now returns what the library has. Where others are looking through it, it does
// not wait for them but returns what was found before.
func (l *Library) Now() *List {
	if time.Now().UnixNano()-l.last.Load() < int64(l.every) || !l.mu.TryLock() {
		return l.list.Load()
	}
	defer l.mu.Unlock()
	moved := false
	for _, w := range l.places {
		moved = w.moved() || moved
	}
	if moved {
		l.look()
	}
	l.last.Store(time.Now().UnixNano())
	return l.list.Load()
}

// look looks through all places, as far as they have changed.
func (l *Library) look() {
	s := &search{}
	list := &List{}
	for i, w := range l.places {
		w.begin()
		s.watch = w
		l.kind.find(s, l.Places[i])
		for _, d := range w.now {
			if d.stamp.modified.After(list.Modified) {
				list.Modified = d.stamp.modified
			}
		}
		if w.full {
			s.warn("%s has more than %d directories or %d names; what comes after them is left out", tensorfs.Printable(l.Places[i]), maxDirs, maxNames)
		}
		w.before = nil
	}
	for _, dropped := range chooseNames(s.found, l.kind.deeper) {
		s.warn("%s is left out: another model, or a directory with models, has its name", tensorfs.Printable(dropped.Call))
	}
	for _, c := range s.found {
		if c.model != nil {
			c.model.Name = c.name()
			if !slices.Contains(Stores, l.Name) { // a store elsewhere, whose names lead to the usual one
				c.model.Call = c.model.Path()
			}
			list.Models = append(list.Models, c.model)
		}
	}
	slices.SortFunc(list.Models, func(a, b *Model) int { return strings.Compare(a.Name, b.Name) })
	if s.truncated {
		s.warn("%s has more than %d models; the rest is left out", tensorfs.Printable(l.Name), maxModels)
	}
	if l.absent != nil && !slices.ContainsFunc(l.Places, source.HasDir) {
		s.warn("%s", tensorfs.OneLine(l.absent.Error()))
	}
	list.Warnings = s.warnings
	l.list.Store(list)
	l.last.Store(time.Now().UnixNano())
}

// search collects the models of a library.
type search struct {
	*watch
	found     []*candidate
	truncated bool
	warnings  []string
}

func (s *search) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}

// add adds a model under the first of its names that no other one takes.
func (s *search) add(m *Model, names ...string) {
	if len(s.found) == maxModels {
		s.truncated = true
		return
	}
	s.found = append(s.found, &candidate{model: m, names: names})
}
