package plain

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/tensorfs/tensorfs/internal/web"
)

// fileOrigin is how a file is asked for.
type fileOrigin struct {
	name    string // for people
	version version
	from    *url.URL // that told the version
	ask     func(ctx context.Context) (*http.Request, error)
	moved   *web.Resolved // nil if from is the server itself
}

// newOrigin returns the origin of a file that was asked for, and came from an
// address.
func newOrigin(client *web.Client, name string, v version, asked, from *url.URL, ask func(ctx context.Context) (*http.Request, error)) *fileOrigin {
	o := &fileOrigin{name: name, version: v, from: from, ask: ask}
	if !web.SameOrigin(asked, from) {
		o.moved = &web.Resolved{Client: client, Ask: ask, Check: o.checkMove}
	}
	return o
}

// checkMove looks at where the file is.
func (o *fileOrigin) checkMove(resp *http.Response, _ []byte) error {
	switch s := resp.StatusCode; {
	case s == http.StatusNotFound, s == http.StatusGone:
		return web.ErrVersion(o.name, "it is not there any more")
	case s >= 400:
		return refusal(o.name, resp)
	}
	return nil
}

// Request returns a GET for this version.
func (o *fileOrigin) Request(ctx context.Context, off, n int64, fresh bool) (*http.Request, error) {
	var req *http.Request
	var err error
	if o.moved != nil {
		req, err = o.moved.Request(ctx, off, n, fresh)
	} else {
		req, err = o.ask(ctx)
	}
	// Only the server that gave an ETag knows it.
	if err == nil && web.SameOrigin(req.URL, o.from) {
		o.version.require(req.Header)
	}
	return req, err
}

// Accept compares an answer with the version.
func (o *fileOrigin) Accept(resp *http.Response) error { return o.version.check(o.name, resp.Header) }

// Refused forgets an address that is not good any more.
func (o *fileOrigin) Refused(resp *http.Response) error {
	if o.moved != nil {
		return o.moved.Refused(resp)
	}
	return nil
}

var _ web.Origin = (*fileOrigin)(nil)

// advices say what to do about a status.
var advices = map[int]string{
	http.StatusUnauthorized: "give a user and password as https://USER:PASSWORD@HOST/..., or in ~/.netrc",
	http.StatusForbidden:    "check the permission to read it; a signed address may have expired",
	http.StatusNotFound:     "check the address",
	http.StatusGone:         "check the address; a signed address may have expired",
}

// refusal is the error of an unusable answer.
func refusal(name string, resp *http.Response) error {
	advice, ok := advices[resp.StatusCode]
	switch {
	case resp.StatusCode == http.StatusUnauthorized && strings.HasPrefix(name, "http:"):
		advice = "give a user and password as http://USER:PASSWORD@HOST/...; passwords of ~/.netrc are sent only over https"
	case ok:
	case resp.StatusCode == http.StatusTooManyRequests:
		advice = "try again " + web.When(resp.Header)
	case resp.StatusCode >= 500:
		advice = "try again later"
	default:
		advice = "check the address"
	}
	return web.Status(name, resp, advice)
}
