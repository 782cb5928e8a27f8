package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// Options say with what the Hub is asked.
type Options = remote.Options

// hub is the Hub as it is asked for one name.
type hub struct {
	Settings
	o       Options
	silence error // the Hub did not answer: it is not asked again
}

// snapshot is what is known of a commit, and kept.
type snapshot struct {
	Repository string    `json:"repository"` // as the Hub calls it now
	Commit     string    `json:"commit"`
	Time       time.Time `json:"time"` // when it was asked for
	Files      []file    `json:"files"`
}

// branch is what is kept for a revision that may move.
type branch struct {
	Commit string `json:"commit"`
}

// errRevision is the error that a repository has no such revision.
var errRevision = fmt.Errorf("no such revision: %w", fs.ErrNotExist)

// Open finds the files of a repository's revision: a branch, a tag, refs/pr/N or a
// commit; "" is main. Of a revision with slashes it takes as much as names one:
// rest is what follows, a path in the repository, "" if all of it is the revision.
//
// The listing's name is hf:ORG/NAME@COMMIT. Its files may be opened for as long as the
// client and the store are open. An error is one line without secrets; it is fs.ErrNotExist
// if the name does not exist, and fs.ErrPermission if it may not be read, as far as the Hub
// tells the two apart.
func Open(ctx context.Context, repository, revision string, o Options) (l *remote.Listing, rest string, err error) {
	if err := check(repository, revision); err != nil {
		return nil, "", err
	}
	h := &hub{o: o}
	if h.Settings, err = SettingsOf(o.Getenv); err != nil {
		return nil, "", err
	}
	name := prefix + repository
	if revision != "" {
		name += "@" + revision
	} else {
		revision = mainBranch
	}
	for rev := revision; rev != "."; rev = path.Dir(rev) {
		if _, _, ok := h.answered(repository, rev); ok {
			ctx = web.Briefly(ctx) // all of what follows, which may name nothing
		}
	}
	var first error
	for rev := revision; ; {
		found, err := h.findSnapshot(ctx, name, repository, rev)
		if err == nil {
			l, err := h.listing(repository, found)
			return l, strings.TrimPrefix(revision[len(rev):], "/"), err
		}
		if first == nil {
			first = err
		}
		i := strings.LastIndexByte(rev, '/')
		if i < 0 || h.o.Offline == "" && !errors.Is(err, errRevision) && !web.Unanswered(err) {
			return nil, "", first
		}
		rev = rev[:i]
	}
}

// findSnapshot returns the commit of a revision, with its files. name is what was asked for,
// for messages.
func (h *hub) findSnapshot(ctx context.Context, name, repository, revision string) (remote.Answer[*snapshot], error) {
	if isHex(revision, commitSize) {
		if s, _, ok := h.kept(repository, revision); ok {
			return remote.Answer[*snapshot]{Value: s, Offline: h.o.Offline}, nil
		}
	}
	q := remote.Question[*snapshot]{Name: name, Who: "the Hub", Offline: h.o.Offline, Known: h.o.Known,
		Ask:  func(ctx context.Context) (*snapshot, error) { return h.ask(ctx, name, repository, revision) },
		Kept: func() (*snapshot, time.Time, bool) { return h.answered(repository, revision) },
	}
	a, err := q.Answer(ctx)
	if web.Unanswered(err) {
		h.silence = err
	}
	return a, err
}

// ask asks which commit a revision is, and for its files if they are not known, and
// keeps both.
func (h *hub) ask(ctx context.Context, name, repository, revision string) (*snapshot, error) {
	if h.silence != nil {
		return nil, h.silence
	}
	ctx, cancel := h.o.Client.Within(ctx)
	defer cancel()
	s, err := h.commit(ctx, name, repository, revision)
	if err != nil {
		return nil, err
	}
	if known, _, ok := h.kept(repository, s.Commit); ok {
		s = known
	} else {
		if s.Files, err = h.tree(ctx, name, s); err != nil {
			return nil, err
		}
		// A name that cannot be kept is asked for again, and that is all.
		_ = h.o.Store.Pin(h.pin(repository, s.Commit), s)
	}
	if revision != s.Commit {
		_ = h.o.Store.Pin(h.pin(repository, revision), branch{s.Commit})
	}
	return s, nil
}

// pin is what a revision is kept as: of one Hub, as it was asked for.
func (h *hub) pin(repository, revision string) string {
	return prefix + h.Endpoint.String() + "/" + repository + "@" + revision
}

// answered returns the commit that a revision was the last time, and when.
func (h *hub) answered(repository, revision string) (*snapshot, time.Time, bool) {
	var b branch
	at, ok := h.o.Store.Pinned(h.pin(repository, revision), &b)
	if !ok {
		return nil, at, false
	}
	s, _, ok := h.kept(repository, b.Commit)
	return s, at, ok
}

// kept returns a commit that was asked for before, and when.
func (h *hub) kept(repository, commit string) (s *snapshot, at time.Time, ok bool) {
	at, ok = h.o.Store.Pinned(h.pin(repository, commit), &s)
	if !ok || s == nil || s.Commit != commit || !isHex(commit, commitSize) || check(s.Repository, "") != nil {
		return nil, at, false
	}
	for i := range s.Files {
		if s.Files[i].check() != "" {
			return nil, at, false
		}
	}
	return s, at, true
}

// commit asks which commit a revision is.
func (h *hub) commit(ctx context.Context, name, repository, revision string) (*snapshot, error) {
	body, _, err := h.get(ctx, name, h.api(repository, "revision", revision), maxListing)
	if err != nil {
		return nil, err
	}
	var is struct {
		ID  string `json:"id"`
		SHA string `json:"sha"`
	}
	bad := func(problem string) error {
		return &tensorfs.FormatError{File: name, Offset: -1, Problem: "the Hub's answer " + problem, Advice: "check HF_ENDPOINT, or try again later"}
	}
	switch err := json.Unmarshal(body, &is); {
	case err != nil:
		return nil, bad("is not a description of a model")
	case !isHex(is.SHA, commitSize):
		return nil, bad("names no commit")
	case isHex(revision, commitSize) && is.SHA != revision:
		return nil, bad("is of another commit")
	}
	s := &snapshot{Repository: repository, Commit: is.SHA, Time: time.Now().Truncate(time.Second)}
	if check(is.ID, "") == nil { // it was renamed: its files need no redirects then
		s.Repository = is.ID
	}
	return s, nil
}

// tree asks for the files of a commit.
func (h *hub) tree(ctx context.Context, name string, s *snapshot) ([]file, error) {
	var t tree
	bad := func(problem string) error {
		return &tensorfs.FormatError{File: name, Offset: -1, Problem: "the Hub's list of files " + problem, Advice: "try again later"}
	}
	address := h.api(s.Repository, "tree", s.Commit)
	left := int64(maxListing)
	err := remote.Pages("recursive=true&expand=false", func(query string) (string, error) {
		body, header, err := h.get(ctx, name, address+"?"+query, left)
		if err != nil {
			return "", err
		}
		left -= int64(len(body))
		if err := t.add(body); err != nil {
			if e, ok := errors.AsType[*tensorfs.FormatError](err); ok {
				e.File = name
			}
			return "", err
		}
		next, more := nextPage(header.Get("Link"))
		if more && (next == "" || next == query) {
			return "", bad("has a next page without an address")
		}
		return next, nil
	})
	if errors.Is(err, remote.ErrEndless) {
		err = bad("does not end")
	}
	return t.files, err
}

// request returns a GET of an address of the Hub.
func (h *hub) request(ctx context.Context, address string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err == nil {
		err = h.Authorize(req)
	}
	return req, err
}

// get asks the Hub for something small.
func (h *hub) get(ctx context.Context, name, address string, limit int64) ([]byte, http.Header, error) {
	resp, body, err := h.o.Client.Do(ctx, limit, func(ctx context.Context) (*http.Request, error) { return h.request(ctx, address) })
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, nil, h.refusal(name, resp)
	}
	return body, resp.Header, nil
}

// listing makes the files of a commit ones that can be opened.
func (h *hub) listing(repository string, found remote.Answer[*snapshot]) (*remote.Listing, error) {
	s := found.Value
	name := prefix + repository + "@" + s.Commit
	items := make([]remote.Item, len(s.Files))
	for i := range s.Files {
		f := &s.Files[i]
		at := name + "/" + f.Path
		items[i] = remote.Item{
			Name:   f.Path,
			ID:     cache.ID{Key: f.digest(), Digest: f.digest(), Server: h.Endpoint.String(), Size: f.Size, Source: at, ModTime: s.Time},
			Host:   h.Endpoint.Host,
			Origin: found.Origin(h.origin(s, f, at)),
		}
	}
	lookBeside(h.o.HubCache, []string{repository, s.Repository}, items)
	return h.o.Listing(name, items, s.Time, found.Note)
}
