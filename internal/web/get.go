package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/tensorfs/tensorfs/internal/cache"
)

// Get performs a request as Do does, and returns the answer before its body, which the
// caller reads, as long as it may be, and closes. The body ends with an error if no data
// arrives for 15 s, or less than a cell until the deadline of a read. If the server reports
// an error, the body is only its beginning.
func (c *Client) Get(ctx context.Context, again func(ctx context.Context) (*http.Request, error)) (*http.Response, error) {
	answers, cancel := context.WithTimeout(ctx, c.patience(ctx))
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
	b := &body{progress: progress{resp.Body, watch}, Closer: resp.Body, end: end, patience: c.opts.Timeout}
	b.cell = time.AfterFunc(b.patience, func() { end(os.ErrDeadlineExceeded) })
	resp.Body = b
	return resp, nil, nil
}

// body is a body that neither stalls nor goes on for ever.
type body struct {
	progress
	io.Closer
	end context.CancelCauseFunc

	cell     *time.Timer // ends it where a cell takes too long
	patience time.Duration
	came     int // of a cell
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.progress.Read(p)
	if b.came += n; b.came >= cache.CellSize {
		b.came = 0
		b.cell.Reset(b.patience)
	}
	return n, err
}

// Close ends the request.
func (b *body) Close() error {
	b.watch.Stop()
	b.cell.Stop()
	b.end(nil)
	return b.Closer.Close()
}
