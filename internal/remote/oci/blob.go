package oci

import (
	"context"
	"net/http"
	"sync/atomic"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/web"
)

// blob asks for the bytes of a layer: at the registry, or where it redirects to.
type blob struct {
	web.Resolved
	s      *session
	digest string
	path   string
	asked  bool        // only one asks at a time
	denied atomic.Bool // the last time, for want of a token that is still good
}

func newBlob(s *session, digest, path string) *blob {
	b := &blob{s: s, digest: digest, path: path}
	b.Client, b.Ask, b.Check = s.client, b.ask, b.check
	return b
}

// Request returns a request for the layer at its address, which is asked for again,
// with a new token, where the registry does not take the old one.
func (b *blob) Request(ctx context.Context, off, n int64, fresh bool) (*http.Request, error) {
	req, err := b.Resolved.Request(ctx, off, n, fresh)
	if err != nil && b.denied.Swap(false) {
		req, err = b.Resolved.Request(ctx, off, n, fresh)
		b.denied.Store(false)
	}
	return req, err
}

func (b *blob) ask(ctx context.Context) (*http.Request, error) {
	again := b.asked
	b.asked = true
	return b.s.request(ctx, b.digest, again)
}

// check looks at the registry's answer.
func (b *blob) check(resp *http.Response, _ []byte) error {
	switch code := resp.StatusCode; code {
	case http.StatusUnauthorized, http.StatusForbidden:
		b.denied.Store(code == http.StatusUnauthorized)
		return &tensorfs.FormatError{File: b.path, Offset: -1, Problem: "these credentials may not read it", Advice: "run 'docker login " + b.s.ref.registry + "'", Kind: syscall.EACCES}
	case http.StatusNotFound, http.StatusGone:
		return web.ErrVersion(b.path, "the registry does not have it any more")
	default:
		if code < http.StatusBadRequest {
			return nil
		}
		return web.Status(b.path, resp, "try again later")
	}
}

var _ web.Origin = (*blob)(nil)
