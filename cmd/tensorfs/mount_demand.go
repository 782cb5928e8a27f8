package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/demand"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/views/tree"
)

// openOnDemand looks through a store, whose server is asked for further models when programs look up
// their names.
func (o *mountOptions) openOnDemand(name, mountpoint string) (*server.Content, error) {
	usage := func(format string, args ...any) error { return cli.UsageError{Err: fmt.Errorf(format, args...)} }
	var orgs []string
	for _, list := range o.library.orgs {
		orgs = append(orgs, strings.FieldsFunc(list, func(c rune) bool { return c == ',' })...)
	}
	switch {
	case !o.library.demand:
		return nil, usage("--allow-orgs restricts --on-demand; give that flag too")
	case len(orgs) == 0 && len(o.library.orgs) > 0:
		return nil, usage("--allow-orgs: name an organisation, such as Qwen")
	case o.library.as != "":
		return nil, usage("--on-demand shows ORG/NAME directories, and --as %s other ones; leave one of the two out", o.library.as)
	case o.inside != "":
		return nil, usage("--inside is for one model, and --on-demand shows many")
	case !slices.Contains(demand.Stores(), name):
		return nil, usage("--on-demand is for a store with a server: name %s instead of %s", near.Either(demand.Stores()), conceal.Printable(name))
	case o.remote.cacheSize.Given && o.remote.cacheSize.ByteSize == 0:
		return nil, usage("--on-demand opens models again from the cache, and --cache-size 0 keeps nothing there; leave it out")
	}
	names, err := demand.NewNames(name, orgs)
	if err != nil {
		return nil, usage("--allow-orgs: %w", err)
	}
	l, err := library.Open(name, library.Options{Skip: isOurs, Missing: true})
	if err != nil {
		return nil, err
	}
	if err := o.checkLibrary(l, mountpoint); err != nil {
		return nil, err
	}
	client := o.remote.open()
	if client.Formats(context.Background()).Offline == "" {
		if err := o.remote.checkCache(); err != nil {
			return nil, err
		}
	}
	s := &demandShelves{shelves: shelves{library: l, flags: &o.modelFlags, text: "on-demand"}, idle: o.library.idle, began: time.Now()}
	s.lookups = demand.New(demand.Options{Names: names, Open: s.open})
	c := o.libraryContent(l, name, s.root)
	c.Library.OnDemand = s.lookups
	c.Options.Waits, c.Options.Traffic = true, client.Traffic
	if library.Absent(name) != nil { // such a mount needs no models on this machine
		c.Warnings = func() []string { return nil }
	}
	return c, nil
}

// checkCache returns an error if the cache cannot be kept on a disk.
func (f *remoteFlags) checkCache() error {
	store, err := cache.Open(cache.Options{Dir: f.cache, Budget: int64(f.cacheSize.ByteSize), Scope: f.scope, OnDisk: true})
	if err != nil {
		return fmt.Errorf("--on-demand opens models again from the cache: %w", err)
	}
	return store.Close()
}

// demandShelves are shelves with the models that were looked up.
type demandShelves struct {
	shelves
	lookups *demand.Lookups
	idle    time.Duration
	began   time.Time

	mu      sync.Mutex
	list    *library.List // that dir begins with
	count   int           // of the models that were looked up and that dir shows
	version int           // of tensorfs.json
	dir     tensorfs.Dir
}

// root returns the top directory as it is now.
func (s *demandShelves) root() tensorfs.Dir {
	list, dir := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if list != s.list {
		s.list, s.count, s.version, s.dir = list, 0, -1, dir
	}
	for _, x := range s.lookups.Opened(s.count) {
		s.dir = withEntry(s.dir, x.At, tensorfs.Entry{Lazy: x.Lazy}, time.Now())
		s.count++
	}
	if v := s.lookups.Version(); v != s.version {
		s.version = v
		s.dir = withEntry(s.dir, aboutName, tensorfs.Entry{Data: lateText(sync.OnceValue(func() tensorfs.Data { return tensorfs.Bytes(s.lookups.About()) }))}, s.began)
	}
	return s.dir
}

// withEntry returns a directory, which may be nil, with an entry at a path in it. The directories
// that change get a time.
func withEntry(d tensorfs.Dir, at string, e tensorfs.Entry, modified time.Time) tensorfs.Dir {
	old, _ := d.(shelf)
	name, rest, nested := strings.Cut(at, "/")
	i, found := tensorfs.Lookup(old.Entries, name)
	if nested {
		var below tensorfs.Dir
		if found {
			below = old.Entries[i].Dir
		}
		e = tensorfs.Entry{Dir: withEntry(below, rest, e, modified)}
	}
	e.Name = name
	if old.modified.After(modified) {
		modified = old.modified
	}
	if found {
		list := slices.Clone(old.Entries)
		list[i] = e
		return shelf{list, modified}
	}
	return shelf{slices.Insert(slices.Clone(old.Entries), i, e), modified}
}

// lateText is a text that is made when it is first read.
type lateText func() tensorfs.Data

func (t lateText) Size() int64                             { return t().Size() }
func (t lateText) ReadAt(p []byte, off int64) (int, error) { return t().ReadAt(p, off) }

// open opens a model that was looked up.
func (s *demandShelves) open(ctx context.Context, at, call string) (demand.Opened, error) {
	t, err := s.flags.openAmong(ctx, call, false)
	if err != nil {
		return demand.Opened{}, adviseSingle(err, at, call)
	}
	if err := cmp.Or(makeWhole(t), ctx.Err()); err != nil {
		return demand.Opened{}, errors.Join(err, t.Model.Close())
	}
	m := &demandModel{flags: s.flags, call: call, remote: describe.IsRemote(t.Model)}
	if m.remote && strings.HasPrefix(t.Model.Name, call[:strings.Index(call, ":")+1]) {
		m.call = t.Model.Name // the commit stays the same for this mount
	}
	m.set(t)
	m.spare = t
	time.AfterFunc(s.idle, func() {
		if err := m.drop(); err != nil && s.flags.remote.logger != nil {
			s.flags.remote.logger.Warn("a model could not be closed", "model", at, slog.Any("error", err))
		}
	})
	return demand.Opened{Name: m.call, Lazy: &tensorfs.Lazy{Identity: m.identity, Open: m.open}}, nil
}

// adviseSingle changes the advice of the error that hf:NAME/gguf does not exist: the user may have
// meant the directory gguf of a model without an organisation.
func adviseSingle(err error, at, call string) error {
	name, dir, _ := strings.Cut(at, "/")
	_, whole := tree.WholeHelp[dir]
	e, ok := errors.AsType[*tensorfs.FormatError](err)
	if !whole || !ok || !strings.HasPrefix(call, hub.Prefix) || !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.EACCES) {
		return err
	}
	advised := *e
	advised.Advice += "; a model without an organisation is " + tensorfs.Printable(name) + "@main/" + dir
	return &advised
}

// makeWhole makes the directories of whole models in a tree, which takes the model's tokenizer: a
// listing of the tree asks the server for nothing then.
func makeWhole(t *tree.Tree) error {
	for _, w := range t.Whole {
		files := w.Files()
		if demand.IsSilence(files.Err) {
			return files.Err
		}
		for _, f := range files.List {
			f.Data.Size()
		}
	}
	return nil
}

// demandModel is a model that was looked up, and is opened again when it is needed.
type demandModel struct {
	flags  *modelFlags
	call   string // its name, with the commit if it has one
	remote bool   // it was not on this machine

	mu       sync.Mutex
	id       string
	modified time.Time
	spare    *tree.Tree // opened by the look-up, until it is used
}

func (m *demandModel) identity() (id string, modified time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id, m.modified, nil
}

// set notes what was opened.
func (m *demandModel) set(t *tree.Tree) {
	is := []any{t.Model.Name, t.Model.States()}
	for _, s := range t.Model.Sources {
		is = append(is, s.Name, s.Path)
	}
	text, err := json.Marshal(is)
	if err != nil { // strings and numbers cannot fail
		panic(err)
	}
	m.id, m.modified = string(text), t.Model.ModTime
}

// open returns the tree that the look-up opened, or opens it again.
func (m *demandModel) open() (tensorfs.Dir, io.Closer, error) {
	m.mu.Lock()
	t := m.spare
	m.spare = nil
	m.mu.Unlock()
	if t != nil {
		return t.Root, t.Model, nil
	}
	t, err := m.flags.openAmong(context.Background(), m.call, m.remote)
	if err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	m.set(t)
	m.mu.Unlock()
	return t.Root, t.Model, nil
}

// drop closes what the look-up opened, unless it was used.
func (m *demandModel) drop() error {
	m.mu.Lock()
	t := m.spare
	m.spare = nil
	m.mu.Unlock()
	if t == nil {
		return nil
	}
	return t.Model.Close()
}

var _ fs.OnDemand = (*demand.Lookups)(nil)
