package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// Get performs a request as Do does, and returns the answer before its body, which
// the caller reads, as long as it may be, and closes. A body of which nothing comes
// for 15 s ends with an error. Of an answer that is an error of the server it has
// the beginning.
func (c *Client) Get(ctx context.Context, again func(ctx context.Context) (*http.Request, error)) (*http.Response, error) {
	answers, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	resp, _, err := c.persist(answers, func() (*http.Response, []byte, error) {
		ctx, end := context.WithCancelCause(ctx)
		keep := context.AfterFunc(answers, func() { end(context.Cause(answers)) })
		req, err := again(ctx)
		if err == nil {
			var resp *http.Response
			if resp, err = c.send(ctx, req); err == nil {
				return c.begun(resp, keep, end)
			}
		} else {
			err = marked{err, errPermanent}
		}
		end(nil)
		return nil, nil, err
	})
	return resp, err
}

// begun returns an answer whose body is read later, or, if it is an error, was.
func (c *Client) begun(resp *http.Response, keep func() bool, end context.CancelCauseFunc) (*http.Response, []byte, error) {
	if resp.StatusCode >= 400 {
		defer end(nil)
		b, err := readAll(resp, maxError, end)
		resp.Body = io.NopCloser(bytes.NewReader(b))
		return resp, nil, err
	}
	keep()
	watch := watchdog(end)
	resp.Body = body{progress{resp.Body, watch}, resp.Body, end}
	return resp, nil, nil
}

// body is a body that does not stall.
type body struct {
	progress
	io.Closer
	end context.CancelCauseFunc
}

// Close ends the request.
func (b body) Close() error {
	b.watch.Stop()
	b.end(nil)
	return b.Closer.Close()
}
