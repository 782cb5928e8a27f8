package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// Transport returns a way to make small requests for libraries that take an
// http.RoundTripper: credentials go where Client sends them and nowhere else,
// redirects are followed by its rules, and an answer has at most limit bytes.
func (c *Client) Transport(limit int64) http.RoundTripper { return transport{c, limit} }

type transport struct {
	c     *Client
	limit int64
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	resp, body, err := t.c.Do(req.Context(), t.limit, func(ctx context.Context) (*http.Request, error) {
		again := req.Clone(ctx)
		again.RequestURI = ""
		if req.GetBody == nil {
			return again, nil
		}
		var err error
		again.Body, err = req.GetBody()
		return again, err
	})
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}
