package web

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Resolved is the Origin of a file whose server redirects to where its bytes are,
// with an address that is good for a while. It is resolved once for all ranges, and
// again after it was refused. What is at another server gets no credentials.
//
// A server that redirects nowhere is asked for all ranges itself.
type Resolved struct {
	Client *Client
	// Ask returns a GET for the file, signed, without a range.
	Ask func(ctx context.Context) (*http.Request, error)
	// Check looks at the server's answer: a redirect to another server, or a status
	// from 200 on. body is what an error says. An error of Check ends the attempts;
	// one that wraps tensorfs.ErrChanged says that the file is not the pinned one.
	Check func(resp *http.Response, body []byte) error

	once sync.Once
	turn chan struct{} // taken by the request that resolves
	to   atomic.Pointer[http.Request]
}

// Request returns a request for the file at its address.
func (r *Resolved) Request(ctx context.Context, _, _ int64, _ bool) (*http.Request, error) {
	r.once.Do(func() { r.turn = make(chan struct{}, 1) })
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-r.turn }()
	to := r.to.Load()
	if to == nil {
		var err error
		if to, err = r.resolve(ctx); err != nil {
			return nil, err
		}
		r.to.Store(to)
	}
	if to.Context().Value(outsideKey{}) != nil {
		ctx = context.WithValue(ctx, outsideKey{}, true)
	}
	return to.Clone(ctx), nil
}

// resolve asks where the file is, until the deadline of ctx.
func (r *Resolved) resolve(ctx context.Context) (to *http.Request, err error) {
	resp, body, err := r.Client.persist(ctx, func() (*http.Response, []byte, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		req, err := r.Ask(ctx)
		if err != nil {
			return nil, nil, marked{err, errPermanent}
		}
		req.Header.Set("Range", "bytes=0-0") // a server that has the file itself sends no more
		resp, next, err := r.Client.follow(ctx, req, true)
		if err != nil {
			return nil, nil, err
		}
		if to = next; to == nil {
			to = resp.Request
		}
		if resp.StatusCode < 400 {
			return resp, nil, resp.Body.Close()
		}
		body, err := readAll(resp, maxError, end)
		return resp, body, err
	})
	if err != nil {
		return nil, err
	}
	if err := r.Check(resp, body); err != nil {
		return nil, marked{err, errPermanent}
	}
	return to, nil
}

// Accept takes every answer: what is at the address was checked when it was
// resolved, and the size is compared for each range.
func (r *Resolved) Accept(*http.Response) error { return nil }

// Refused forgets the address that was refused, unless another one was found
// meanwhile.
func (r *Resolved) Refused(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusGone:
		if to := r.to.Load(); to != nil && to.URL.String() == resp.Request.URL.String() {
			r.to.CompareAndSwap(to, nil)
		}
	}
	return nil
}

// silence is how long a server is not asked that did not answer.
const silence = 10 * time.Second

// Silent returns an Origin whose server did not answer, as err says: for a while it is
// not asked for what is not here, so that nobody waits once more, and then it is.
func Silent(o Origin, err error) Origin { return silent{o, err, time.Now().Add(silence)} }

type silent struct {
	Origin
	err   error
	until time.Time
}

// Request is refused until then.
func (s silent) Request(ctx context.Context, off, n int64, fresh bool) (*http.Request, error) {
	if time.Now().Before(s.until) {
		return nil, marked{s.err, errPermanent}
	}
	return s.Origin.Request(ctx, off, n, fresh)
}

// Offline is the Origin of a file whose server may not be asked. Its text is what
// forbids it.
type Offline string

// Request is refused.
func (o Offline) Request(context.Context, int64, int64, bool) (*http.Request, error) {
	return nil, marked{ErrOffline("", string(o)), errPermanent}
}

// Accept is never called.
func (o Offline) Accept(*http.Response) error { return nil }

// Refused is never called.
func (o Offline) Refused(*http.Response) error { return nil }

var (
	_ Origin = (*Resolved)(nil)
	_ Origin = silent{}
	_ Origin = Offline("")
)
