package s3

import (
	"context"
	"encoding/xml"
	"net/http"
	"net/url"
	"sync"

	"github.com/minio/minio-go/v7/pkg/signer"
	"github.com/tensorfs/tensorfs/internal/web"
)

// bucket is a bucket of a server, and the credentials to ask it with.
type bucket struct {
	client *web.Client
	at     endpoint
	name   string
	keys   *keys

	mu     sync.Mutex
	region string
}

func (b *bucket) where() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.region
}

// request returns a signed request for a key, or for the bucket. A range may be
// added, nothing else.
func (b *bucket) request(ctx context.Context, method, key string, query url.Values, ifMatch string) (*http.Request, error) {
	v, err := b.keys.get(ctx)
	if err != nil {
		return nil, err
	}
	region := b.where()
	u := b.at.address(region, b.name, key)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, "", nil)
	if err != nil {
		return nil, err
	}
	req.URL, req.Host = u, u.Host
	if ifMatch != "" {
		req.Header.Set("If-Match", ifMatch)
	}
	req.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	// A redirect tells of another region, whose signature would be another.
	return web.WithoutRedirects(signer.SignV4(*req, v.AccessKeyID, v.SecretAccessKey, v.SessionToken, region)), nil
}

// do performs a small request, and repeats it if the server reports that the bucket is in
// another region, or that the credentials have expired. more is a header to add, a range.
func (b *bucket) do(ctx context.Context, limit int64, method, key string, query url.Values, more string) (resp *http.Response, body []byte, err error) {
	for range 2 {
		resp, body, err = b.client.Do(ctx, limit, func(ctx context.Context) (*http.Request, error) {
			req, err := b.request(ctx, method, key, query, "")
			if err == nil && more != "" {
				req.Header.Set("Range", more)
			}
			return req, err
		})
		switch {
		case err != nil:
			return nil, nil, err
		case expired(resp, body):
			b.keys.ended(ctx, resp.Request)
		case !b.elsewhere(resp, body):
			return resp, body, nil
		}
	}
	return resp, body, nil
}

// elsewhere reports whether an answer names another region, and moves there.
func (b *bucket) elsewhere(resp *http.Response, body []byte) bool {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusBadRequest:
	default:
		return false
	}
	region := resp.Header.Get("X-Amz-Bucket-Region")
	if region == "" {
		region = readFailure(body).Region
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !regionName().MatchString(region) || region == b.region {
		return false
	}
	b.region = region
	return true
}

// failure is the body of an error.
type failure struct {
	Code   string
	Region string
}

// readFailure reads the body of an error, as far as it can be read.
func readFailure(body []byte) (f failure) {
	if xml.Unmarshal(body, &f) != nil {
		return failure{}
	}
	return f
}
