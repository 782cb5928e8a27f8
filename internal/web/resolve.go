package web

import (
	"context"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Resolved is the Origin of a file whose server redirects to where its bytes are,
// with an address that is good for a while. It is resolved once for all ranges, and
// again after it was refused. What is at another server gets no credentials.
//
// A server that redirects nowhere is asked for all ranges itself. The first request is for the
// range that is wanted, so that the answer of such a server is used, and a small file takes one
// request.
type Resolved struct {
	Client *Client
	// Ask returns a GET for the file, signed, without a range.
	Ask func(ctx context.Context) (*http.Request, error)
	// Check checks the server's answer: a redirect to another server, or a status from 200
	// on. body is an error's message. An error of Check ends the attempts; one that wraps
	// tensorfs.ErrChanged means that the file is not the pinned one.
	Check func(resp *http.Response, body []byte) error

	once sync.Once
	turn chan struct{} // taken by the request that resolves
	to   atomic.Pointer[http.Request]
}

// Request returns a request for the file at its address.
func (r *Resolved) Request(ctx context.Context, off, n int64, _ bool) (*http.Request, error) {
	r.once.Do(func() { r.turn = make(chan struct{}, 1) })
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-r.turn }()
	to := r.to.Load()
	if to == nil {
		var answer *http.Response
		var err error
		if to, answer, err = r.resolve(ctx, off, n); err != nil {
			return nil, err
		}
		r.to.Store(to)
		if answer != nil {
			ctx = context.WithValue(ctx, answerKey{}, answer)
		}
	}
	if to.Context().Value(outsideKey{}) != nil {
		ctx = context.WithValue(ctx, outsideKey{}, true)
	}
	return to.Clone(ctx), nil
}

// answerKey marks the context of a request whose answer is here already.
type answerKey struct{}

// answered returns that answer; it may be nil. The caller closes its body.
func answered(req *http.Request) *http.Response {
	resp, _ := req.Context().Value(answerKey{}).(*http.Response)
	return resp
}

// resolve asks for the location of the file, until the deadline of ctx. answer is the
// server's own with [off, off+n) of the file, nil if the file is on another server; it ends
// with ctx.
func (r *Resolved) resolve(ctx context.Context, off, n int64) (to *http.Request, answer *http.Response, err error) {
	resp, body, err := r.Client.persist(ctx, func() (*http.Response, []byte, error) {
		ctx, end := context.WithCancelCause(ctx)
		late := time.AfterFunc(requestTimeout, func() { end(os.ErrDeadlineExceeded) })
		defer late.Stop()
		resp, next, err := r.first(ctx, off, n)
		if err != nil {
			end(nil)
			return nil, nil, err
		}
		if to = next; to == nil {
			to = resp.Request
		}
		if next == nil && (resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent) {
			answer = resp
			return resp, nil, nil
		}
		defer end(nil)
		if resp.StatusCode < 400 {
			return resp, nil, resp.Body.Close()
		}
		body, err := readAll(resp, maxError, end)
		return resp, body, err
	})
	if err == nil {
		if err = r.Check(resp, body); err != nil {
			err = marked{err, errPermanent}
		}
	}
	if err != nil && answer != nil {
		answer.Body.Close()
	}
	if err != nil {
		return nil, nil, err
	}
	return to, answer, nil
}

// first asks for a range of the file at its server. next is where else it is.
func (r *Resolved) first(ctx context.Context, off, n int64) (resp *http.Response, next *http.Request, err error) {
	req, err := r.Ask(ctx)
	if err != nil {
		return nil, nil, marked{err, errPermanent}
	}
	req.Header.Set("Range", Range(off, n))
	return r.Client.follow(ctx, req, true)
}

// Accept takes every answer: what is at the address was checked when it was
// resolved, and the size is compared for each range.
func (r *Resolved) Accept(*http.Response) error { return nil }

// Refused forgets the address that was refused, unless it was already replaced.
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

// Silent returns an Origin whose server did not answer, with err. For a while, reads of
// absent bytes fail at once instead of waiting again; after that they ask the server.
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

// Offline returns the Origin of a file whose server may not be asked. why is what forbids
// it.
func Offline(why string) Origin { return Refuse(ErrOffline("", why)) }

// Refuse returns the Origin of a file whose bytes are never requested, with the error err.
func Refuse(err error) Origin { return refuse{err} }

type refuse struct{ err error }

// Request is refused.
func (r refuse) Request(context.Context, int64, int64, bool) (*http.Request, error) {
	return nil, marked{r.err, errPermanent}
}

// Accept is never called.
func (r refuse) Accept(*http.Response) error { return nil }

// Refused is never called.
func (r refuse) Refused(*http.Response) error { return nil }

var (
	_ Origin = (*Resolved)(nil)
	_ Origin = silent{}
	_ Origin = refuse{}
)
