package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/conceal"
)

// maxRedirects is how many redirects one request follows.
const maxRedirects = 10

// travelling are the headers that go along to wherever a request is redirected.
// All others, credentials before all, are for the server that they were made for:
// net/http would send some of them to any other.
var travelling = []string{"Accept", "Accept-Encoding", "Range", "User-Agent"}

// redirectsKey marks the context of a request whose redirects are answers.
type redirectsKey struct{}

// WithoutRedirects returns req such that a redirect is returned as the answer, for
// protocols in which a redirect means something else.
func WithoutRedirects(req *http.Request) *http.Request {
	return req.WithContext(context.WithValue(req.Context(), redirectsKey{}, true))
}

// send performs one request and follows redirects. The caller closes the body.
func (c *Client) send(ctx context.Context, req *http.Request) (*http.Response, error) {
	resp, _, err := c.follow(ctx, req, false)
	return resp, err
}

// outsideKey marks the context of a request that a public server redirected to.
type outsideKey struct{}

// follow performs one request and follows redirects; with stay only redirects to the same
// server. to is a request for the address of another redirect, if any.
func (c *Client) follow(ctx context.Context, req *http.Request, stay bool) (resp *http.Response, to *http.Request, err error) {
	req.Header.Set("Accept-Encoding", "identity") // a compressed text has no length and no ranges
	req.Header.Set("User-Agent", c.opts.Agent)
	header := req.Header
	answers := req.Context().Value(redirectsKey{}) != nil
	outside := req.Context().Value(outsideKey{}) != nil
	for hop := 0; ; hop++ {
		if err := c.plain(req.URL); err != nil {
			return nil, nil, err
		}
		resp, public, err := c.roundTrip(ctx, req, outside)
		if err != nil {
			return nil, nil, failedTo(req.URL, err)
		}
		var next *url.URL
		if !answers {
			next, err = target(resp)
		}
		if err != nil {
			resp.Body.Close()
			return nil, nil, err
		}
		resp.Request = req
		if next == nil {
			return resp, nil, nil
		}
		io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
		resp.Body.Close()
		if hop == maxRedirects {
			return nil, nil, refused(req.URL, fmt.Sprintf("it was redirected %d times", maxRedirects), "check the address")
		}
		outside = outside || public // for all that follows
		follow := &http.Request{Method: req.Method, URL: next, Host: next.Host, Header: header.Clone(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
		if outside {
			follow = follow.WithContext(context.WithValue(context.Background(), outsideKey{}, true))
		}
		if !SameOrigin(req.URL, next) {
			for name := range header {
				if !slices.Contains(travelling, name) {
					follow.Header.Del(name)
				}
			}
			if stay {
				return resp, follow, nil
			}
			header = follow.Header // what is lost on the way stays lost
		}
		req = follow
	}
}

// roundTrip performs one request. outside is set after a redirect by a public server: then
// the address has to be public, too. public reports whether this server's address is.
//
// A proxy belongs to the user, wherever it is; its target is what counts. Only the proxy
// knows a name's address, so a server behind a proxy is treated as public, and may redirect
// to any server that the proxy reaches.
func (c *Client) roundTrip(ctx context.Context, req *http.Request, outside bool) (resp *http.Response, public bool, err error) {
	if c.opts.Asks != nil {
		c.opts.Asks(req.URL.Hostname())
	}
	proxy, err := c.opts.Proxy(req)
	if err != nil || proxy != nil {
		public = c.publicHost(req.URL.Hostname())
		if outside && !public {
			return nil, false, notPublic(req.URL.Hostname())
		}
		resp, err = c.openTo(req).RoundTrip(req.WithContext(ctx))
		return resp, public, err
	}
	transport := c.openTo(req)
	if outside {
		transport = c.outside
	}
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if at, err := netip.ParseAddrPort(i.Conn.RemoteAddr().String()); err == nil {
			public = c.opts.Public(at.Addr())
		}
	}}
	resp, err = transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	return resp, public, err
}

// publicHost reports whether a host that a proxy is to ask may be one of the Internet:
// it is such an address, or a name other than localhost. Names that end
// in a number are addresses to some proxies, in one of their older forms.
func (c *Client) publicHost(host string) bool {
	if at, err := netip.ParseAddr(host); err == nil {
		return c.opts.Public(at)
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last != "localhost" && strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x")
}

// target returns where an answer redirects to, nil if it does not.
func target(resp *http.Response) (*url.URL, error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	from := resp.Request.URL
	next, err := resp.Location()
	switch {
	case err != nil:
		return nil, refused(from, "it redirects to nowhere", "check the address")
	case next.Scheme != "https" && next.Scheme != "http" || next.Host == "":
		return nil, refused(from, "it redirects to an address that is not of the web", "check the address")
	case from.Scheme == "https" && next.Scheme == "http":
		return nil, refused(from, "it redirects from https to http, to "+Printable(next), "what comes from there cannot be trusted")
	}
	next.Fragment = ""
	return next, nil
}

// SameOrigin reports whether two addresses belong to one server.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// plain refuses http:// to hosts that are not surely on this machine or network.
func (c *Client) plain(u *url.URL) error {
	if u.Scheme == "https" || c.opts.Plain || u.Hostname() == "localhost" {
		return nil
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && !public(a) {
		return nil
	}
	return refused(u, "http:// is not protected on its way", "use https://, or --plain-http if the network is trusted")
}

// Printable is an address for a message, without what must not be shown, and cut: a
// server may have made it.
func Printable(u *url.URL) string { return cut(conceal.URL(u)) }

// refused is an error about an address.
func refused(u *url.URL, problem, advice string) error {
	return &tensorfs.FormatError{File: Printable(u), Offset: -1, Problem: problem, Advice: advice, Kind: errPermanent}
}
