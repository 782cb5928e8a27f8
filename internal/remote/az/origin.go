package az

import (
	"context"
	"io"
	"net/http"

	"github.com/tensorfs/tensorfs/internal/web"
)

// blobOrigin asks for the bytes of a blob.
type blobOrigin struct {
	s *store
	b blob
	p place
}

// Request returns a GET for a range of the pinned blob. The range is signed.
func (origin *blobOrigin) Request(ctx context.Context, off, n int64, _ bool) (*http.Request, error) {
	return origin.s.request(ctx, http.MethodGet, origin.b.Key, nil, map[string]string{"If-Match": origin.b.ETag, "Range": web.Range(off, n)})
}

// Accept compares the ETag: a server may ignore If-Match.
func (origin *blobOrigin) Accept(resp *http.Response) error {
	if etag := resp.Header.Get("ETag"); etag != origin.b.ETag {
		return web.ErrVersion(origin.p.String(), "it has another ETag")
	}
	return nil
}

// Refused explains a refusal, and has the next attempt renew a token that was refused.
func (origin *blobOrigin) Refused(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		return nil // it changed
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // an unreadable body counts as empty
	switch code := codeOf(resp, body); {
	case resp.StatusCode >= http.StatusInternalServerError:
		return nil
	case code == "BlobNotFound" || code == "ContainerNotFound" || code == "" && resp.StatusCode == http.StatusNotFound:
		return web.ErrVersion(origin.p.String(), "it was deleted")
	}
	err := origin.s.refused(origin.p, resp, body)
	if resp.StatusCode == http.StatusUnauthorized && origin.s.keys.Ended(resp.Request) {
		return web.Again(err)
	}
	return err
}

var _ web.Origin = (*blobOrigin)(nil)
