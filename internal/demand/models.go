package demand

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/views/tree"
)

// Models opens models that were looked up, and opens them again when they are needed.
type Models struct {
	// OpenTree opens a model by its name, until ctx ends. again means that it was on a server before.
	OpenTree func(ctx context.Context, name string, again bool) (*tree.Tree, error)
	Idle     time.Duration // after which a model is closed that was looked up and not used
	Logger   *slog.Logger  // nil drops messages
}

// Open opens a model: see [Options].
func (s *Models) Open(ctx context.Context, at, call string) (Opened, error) {
	t, err := s.OpenTree(ctx, call, false)
	if err != nil {
		return Opened{}, adviseSingle(err, at, call)
	}
	if err := cmp.Or(makeWhole(t), ctx.Err()); err != nil {
		return Opened{}, errors.Join(err, t.Model.Close())
	}
	m := &model{open: s.OpenTree, call: call, remote: describe.IsRemote(t.Model)}
	if m.remote && strings.HasPrefix(t.Model.Name, call[:strings.Index(call, ":")+1]) {
		m.call = t.Model.Name // the commit stays the same for this mount
	}
	m.set(t)
	m.spare = t
	time.AfterFunc(s.Idle, func() {
		if err := m.drop(); err != nil && s.Logger != nil {
			s.Logger.Warn("a model could not be closed", "model", at, slog.Any("error", err))
		}
	})
	return Opened{Name: m.call, Lazy: &tensorfs.Lazy{Identity: m.identity, Open: m.tree}}, nil
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
		if IsSilence(files.Err) {
			return files.Err
		}
		for _, f := range files.List {
			f.Data.Size()
		}
	}
	return nil
}

// model is a model that was looked up, and is opened again when it is needed.
type model struct {
	open   func(ctx context.Context, name string, again bool) (*tree.Tree, error)
	call   string // its name, with the commit if it has one
	remote bool   // it was not on this machine

	mu       sync.Mutex
	id       string
	modified time.Time
	spare    *tree.Tree // opened by the look-up, until it is used
}

func (m *model) identity() (id string, modified time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id, m.modified, nil
}

// set notes what was opened.
func (m *model) set(t *tree.Tree) {
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

// tree returns the tree that the look-up opened, or opens it again.
func (m *model) tree() (tensorfs.Dir, io.Closer, error) {
	if t := m.takeSpare(); t != nil {
		return t.Root, t.Model, nil
	}
	t, err := m.open(context.Background(), m.call, m.remote)
	if err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	m.set(t)
	m.mu.Unlock()
	return t.Root, t.Model, nil
}

// takeSpare returns what the look-up opened, nil if it was taken.
func (m *model) takeSpare() *tree.Tree {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.spare
	m.spare = nil
	return t
}

// drop closes what the look-up opened, unless it was used.
func (m *model) drop() error {
	if t := m.takeSpare(); t != nil {
		return t.Model.Close()
	}
	return nil
}
