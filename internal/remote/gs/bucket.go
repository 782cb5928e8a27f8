package gs

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/remote/bearer"
	"github.com/tensorfs/tensorfs/internal/web"
)

// bucket is a bucket, and the credentials to ask for it with.
type bucket struct {
	client *web.Client
	at     url.URL // of the server
	name   string
	keys   *bearer.Keys // of an emulator: nil
	payer  string       // the project that pays for requests, "" if the bucket's does
}

// request returns a GET for an address, with the credentials.
func (b *bucket) request(ctx context.Context, u *url.URL) (*http.Request, error) {
	token, err := b.keys.Get(ctx)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "", nil)
	if err != nil {
		return nil, err
	}
	req.URL, req.Host = u, u.Host
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if b.payer != "" {
		req.Header.Set("X-Goog-User-Project", b.payer)
	}
	return req, nil
}

// get asks for something small, and again if the token is not accepted: it may have ended.
func (b *bucket) get(ctx context.Context, u *url.URL) (resp *http.Response, body []byte, err error) {
	for range 2 {
		resp, body, err = b.client.Do(ctx, maxPage, func(ctx context.Context) (*http.Request, error) {
			return b.request(ctx, u)
		})
		if err != nil || resp.StatusCode != http.StatusUnauthorized || !b.keys.Ended(resp.Request) {
			break
		}
	}
	return resp, body, err
}

// maxRefusal is how much of the body of an error is read.
const maxRefusal = 64 << 10

// said returns the server's message about an error: of the JSON API, or as plain text.
func said(body []byte) string {
	if o, err := jsonobj.Parse(body); err == nil {
		return o.Raw("error").Member("message").Text()
	}
	return string(body)
}

// refused returns the error of an answer about what p names.
func (b *bucket) refused(p remote.ObjectName, resp *http.Response, body []byte) error {
	e := &tensorfs.FormatError{File: p.String(), Offset: -1}
	text := said(body)
	anonymous := resp.Request.Header.Get("Authorization") == ""
	switch s := resp.StatusCode; {
	case strings.Contains(text, "requester pays"):
		e.Problem, e.Advice, e.Kind = "the readers of this bucket pay for their requests", "set GOOGLE_CLOUD_QUOTA_PROJECT to the project that pays", syscall.EACCES
	case (s == http.StatusUnauthorized || s == http.StatusForbidden) && anonymous:
		e.Problem, e.Advice, e.Kind = "it is not public, or does not exist, and there are no credentials", "check the name, or "+login, syscall.EACCES
	case s == http.StatusUnauthorized:
		e.Problem, e.Advice, e.Kind = "the server does not accept the credentials", "get new ones ("+login+")", syscall.EACCES
	case s == http.StatusForbidden:
		e.Problem, e.Advice, e.Kind = "these credentials may not read it, or it does not exist", "check the name, and that the account may list and read objects (Storage Object Viewer)", syscall.EACCES
	case s == http.StatusNotFound && (p.IsDir() || strings.Contains(text, "bucket does not exist")):
		e.Problem, e.Advice, e.Kind = "there is no such bucket", "check the name", syscall.ENOENT
	case s == http.StatusNotFound:
		e.Problem, e.Advice, e.Kind = "there is no such object", "check the name; one of a directory ends in /", syscall.ENOENT
	case s == http.StatusTooManyRequests:
		e.Problem, e.Advice, e.Kind = "the server limits requests", "try again "+web.When(resp.Header), web.Refusal(resp, syscall.EIO)
	case s >= http.StatusInternalServerError:
		return web.Status(e.File, resp, "try again later")
	default:
		return web.Status(e.File, resp, "check the name")
	}
	return e
}
