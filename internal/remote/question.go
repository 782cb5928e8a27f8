package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/web"
)

// Question resolves a name to a commit, a manifest or the version of a file. The answer is
// kept for times without a network.
type Question[T any] struct {
	Name    string // for people, as it was asked
	Who     string // may answer, for people: "the Hub"
	Offline string // what forbids asking, "" if nothing does
	Known   bool   // the last answer is taken, if there is one
	Ask     func(ctx context.Context) (T, error)
	Kept    func() (v T, at time.Time, ok bool) // the last answer
	Keep    func(v T)                           // nil: Ask keeps it
}

// Kept returns a Question's Kept and Keep for what a store keeps under a name.
func Kept[T any](store *cache.Store, name string) (kept func() (T, time.Time, bool), keep func(T)) {
	kept = func() (v T, at time.Time, ok bool) {
		at, ok = store.Pinned(name, &v)
		return v, at, ok
	}
	return kept, func(v T) { _ = store.Pin(name, v) } // what cannot be kept is asked for again, and that is all
}

// Answer is the meaning of a name, with its source.
type Answer[T any] struct {
	Value T
	// Offline is what forbids to ask for the files of the answer, "" if nothing does.
	Offline string
	// Silence is the error of a server that did not answer, so that this is the last known
	// answer. It is nil if the answer is fresh.
	Silence error
	// Note explains Silence to users, "" if the answer is fresh.
	Note string
}

// Origin returns an Origin for a file of the answer, which waits with requests if the
// server is silent.
func (a *Answer[T]) Origin(o web.Origin) web.Origin {
	switch {
	case a.Offline != "":
		return web.Offline(a.Offline)
	case a.Silence != nil:
		return web.Silent(o, a.Silence)
	}
	return o
}

// Answer asks, unless that is forbidden. If the server does not answer, it returns the last
// answer. A refusal is an error even if an earlier answer exists: what was removed or made
// private is not shown as if it were still public. ctx covers all requests together.
func (q *Question[T]) Answer(ctx context.Context) (a Answer[T], err error) {
	v, at, ok := q.Kept()
	if q.Offline != "" {
		if !ok {
			return a, web.ErrOffline(q.Name, q.Offline)
		}
		return Answer[T]{Value: v, Offline: q.Offline}, nil
	}
	if ok && q.Known {
		return Answer[T]{Value: v}, nil
	}
	if ok {
		ctx = web.Briefly(ctx)
	}
	now, err := q.Ask(ctx)
	switch {
	case err == nil:
		if q.Keep != nil {
			q.Keep(now)
		}
		return Answer[T]{Value: now}, nil
	case !web.Unanswered(err):
		return a, err
	}
	why := q.reason(err)
	if !ok {
		return a, q.silent("", err)
	}
	return Answer[T]{
		Value:   v,
		Silence: q.silent(", and not all of it is in the cache", err),
		Note:    fmt.Sprintf("%s did not answer (%s): this is %s as it was on %s", q.Who, why, tensorfs.Printable(q.Name), at.Local().Format(time.DateTime)),
	}, nil
}

// silent is the error that the server did not answer for a name. It contains the name and
// no address.
func (q *Question[T]) silent(more string, err error) error {
	e := &tensorfs.FormatError{File: q.Name, Offset: -1, Problem: fmt.Sprintf("%s did not answer: %s", q.Who, q.reason(err)), Advice: "try again later", Kind: err}
	if own, ok := errors.AsType[*tensorfs.FormatError](err); ok {
		e.Advice = own.Advice
		if own.File == q.Name && strings.HasPrefix(own.Problem, q.Who+" ") { // which explains why
			e.Problem = own.Problem
		}
	}
	e.Problem += more
	return e
}

// reason is why the server did not answer, without its address.
func (q *Question[T]) reason(err error) string {
	e, ok := errors.AsType[*tensorfs.FormatError](err)
	if !ok || strings.HasSuffix(e.Problem, " does not answer") {
		return "it took too long"
	}
	for _, who := range []string{q.Who, "the server"} {
		if what, ok := strings.CutPrefix(e.Problem, who+" "); ok {
			if status, ok := strings.CutPrefix(what, "answers "); ok {
				return "it answers " + status
			}
			return "it " + what
		}
	}
	return e.Problem
}
