package s3

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// objectOrigin asks for the bytes of an object.
type objectOrigin struct {
	b    *bucket
	o    object
	path string
	// latest leaves the version out: reading one by its number takes a permission that
	// reading the object does not. The ETag is requested all the same.
	latest atomic.Bool
}

// Request returns a signed GET for the pinned object.
func (origin *objectOrigin) Request(ctx context.Context, _, _ int64, fresh bool) (*http.Request, error) {
	if fresh {
		origin.latest.Store(true)
	}
	query := url.Values{}
	if origin.o.Version != "" && !origin.latest.Load() {
		query.Set("versionId", origin.o.Version)
	}
	return origin.b.request(ctx, http.MethodGet, origin.o.Key, query, origin.o.ETag)
}

// Accept compares the ETag: some servers ignore If-Match.
func (origin *objectOrigin) Accept(resp *http.Response) error {
	if remote.QuotedETag(resp.Header.Get("ETag")) != origin.o.ETag {
		return web.ErrVersion(origin.path, "it has another ETag")
	}
	return nil
}

// Refused explains a refusal, and renews credentials that are no longer accepted. AWS
// reports expired ones with 400.
func (origin *objectOrigin) Refused(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
	default:
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // an unreadable body counts as empty
	err := origin.b.refused(resp.Request.Context(), origin.path, origin.o.Key, resp, body)
	if resp.StatusCode != http.StatusBadRequest || expired(resp, body) {
		origin.b.keys.ended(resp.Request.Context(), resp.Request)
		return web.Again(err)
	}
	return err
}

var _ web.Origin = (*objectOrigin)(nil)
