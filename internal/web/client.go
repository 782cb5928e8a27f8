package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
)

// Options configure a Client. The zero value is usual.
type Options struct {
	// Timeout is how long a reader waits for its bytes, 0 for two minutes.
	Timeout time.Duration
	// Connections is how many requests for bytes a host gets at a time, 0 for 16.
	Connections int
	// Agent is sent as User-Agent.
	Agent string
	// Logger gets problems that no error reports. May be nil.
	Logger *slog.Logger
	// Public reports whether an address belongs to the Internet and not to a private
	// machine or network; nil follows the standards. Tests replace it.
	Public func(netip.Addr) bool
	// Asks receives the host of every request. May be nil.
	Asks func(host string)
	// Proxy selects the proxy of a request; nil follows the environment.
	Proxy func(*http.Request) (*url.URL, error)
	// Plain allows http:// to public addresses, where everybody on the way can change
	// what is read.
	Plain bool
}

// A Client performs requests. It is safe for concurrent use.
type Client struct {
	opts    Options
	open    http.RoundTripper // to any address, or through a proxy
	outside http.RoundTripper // to public addresses only, without a proxy
	gates   gates
	trusted sync.Map // hosts, and the connections to hosts with certificates of their own

	fetched, cached atomic.Int64 // see Traffic
}

// Traffic returns how many bytes of files came from servers, and how many were read of what had come before. Files that
// are mapped, because all of them is there, are not counted.
func (c *Client) Traffic() (fetched, cached int64) { return c.fetched.Load(), c.cached.Load() }

// MaxConnections is how many requests a process makes at a time, to all hosts together.
const MaxConnections = 32

// Limits of concurrency.
const (
	firstOfFile = 8 // parts, see readahead.Pace
	moreOfFile  = 4
	maxOfFile   = 16
	maxOfHost   = 16
)

// Limits of time.
const (
	readTimeout    = 2 * time.Minute
	requestTimeout = 30 * time.Second // of a small request
	briefTimeout   = 10 * time.Second // of one whose answer is known from before
	stall          = 15 * time.Second // without a byte: the attempt has failed
)

// briefTries is how often such a request is made, and any small one without a network.
const briefTries = 3

// NewClient returns a client. Its connections speak HTTP/1.1: with HTTP/2 all
// ranges of a host would share one connection, which is a fourth as fast where
// servers limit each connection.
func NewClient(opts Options) *Client {
	if opts.Timeout == 0 {
		opts.Timeout = readTimeout
	}
	if opts.Connections == 0 {
		opts.Connections = maxOfHost
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Public == nil {
		opts.Public = Public
	}
	if opts.Agent == "" {
		opts.Agent = "tensorfs"
	}
	if opts.Proxy == nil {
		opts.Proxy = http.ProxyFromEnvironment
	}
	c := &Client{opts: opts}
	c.open = c.transport(opts.Proxy, nil)
	c.outside = c.transport(nil, c.refusePrivate)
	c.gates.init(opts.Connections)
	return c
}

// transport returns connections through the proxy that proxy selects. control checks their
// addresses.
func (c *Client) transport(proxy func(*http.Request) (*url.URL, error), control func(network, address string, _ syscall.RawConn) error) *http.Transport {
	d := &net.Dialer{Timeout: requestTimeout, KeepAlive: stall, Control: control}
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            d.DialContext,
		TLSHandshakeTimeout:    requestTimeout,
		ResponseHeaderTimeout:  stall,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    c.opts.Connections,
		DisableCompression:     true, // a range of a compressed body means nothing
		MaxResponseHeaderBytes: 64 << 10,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
}

// Trust has connections to a host, and to hosts below its name, verified by these certificates and not by the
// system's. Where a server there redirects to is not concerned.
func (c *Client) Trust(host string, roots *x509.CertPool) {
	host = strings.ToLower(host)
	if old, ok := c.trusted.Load(host); ok && old.(*http.Transport).TLSClientConfig.RootCAs.Equal(roots) {
		return
	}
	t := c.transport(c.opts.Proxy, nil)
	t.TLSClientConfig = &tls.Config{RootCAs: roots}
	c.trusted.Store(host, t)
}

// openTo returns the connections to the host of a request.
func (c *Client) openTo(req *http.Request) http.RoundTripper {
	for host := strings.ToLower(req.URL.Host); host != ""; _, host, _ = strings.Cut(host, ".") {
		if t, ok := c.trusted.Load(host); ok {
			return t.(*http.Transport)
		}
	}
	return c.open
}

// Close closes idle connections.
func (c *Client) Close() error {
	c.trusted.Range(func(_, t any) bool {
		t.(*http.Transport).CloseIdleConnections()
		return true
	})
	for _, t := range []http.RoundTripper{c.open, c.outside} {
		t.(*http.Transport).CloseIdleConnections()
	}
	return nil
}

// errPrivate is why a redirect was not followed to an address.
var errPrivate = errors.New("a public server redirected to an address that is not public")

// refusePrivate keeps redirects of public servers away from this machine and its
// networks, such as the address at which clouds give out credentials.
func (c *Client) refusePrivate(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if !c.opts.Public(at.Addr()) {
		return notPublic(at.Addr().String())
	}
	return nil
}

func notPublic(host string) error {
	return fmt.Errorf("%w: %s", errPrivate, cut(tensorfs.Printable(host)))
}

// Do performs a small request, at most a few times, and returns the answer and at
// most limit bytes of its body; more are an error. An answer that is an error of
// the server is returned as an answer. again makes the request for each try.
func (c *Client) Do(ctx context.Context, limit int64, again func(ctx context.Context) (*http.Request, error)) (*http.Response, []byte, error) {
	all, cancel := context.WithTimeout(ctx, c.patience(ctx))
	defer cancel()
	return c.persist(all, func() (*http.Response, []byte, error) {
		ctx, end := context.WithCancelCause(all)
		defer end(nil)
		req, err := again(ctx)
		if err != nil {
			return nil, nil, marked{err, errPermanent}
		}
		resp, err := c.send(ctx, req)
		if err != nil {
			return nil, nil, err
		}
		body, err := readAll(resp, limit, end)
		return resp, body, err
	})
}

// brieflyKey marks the context of requests that can be done without.
type brieflyKey struct{}

// Briefly returns a context for small requests whose answers are known from before: few,
// short attempts are enough to learn whether they are still the same.
func Briefly(ctx context.Context) context.Context { return context.WithValue(ctx, brieflyKey{}, true) }

func isBrief(ctx context.Context) bool { return ctx.Value(brieflyKey{}) != nil }

// patience is how long a small request may take, with all its tries.
func (c *Client) patience(ctx context.Context) time.Duration {
	if isBrief(ctx) {
		return min(briefTimeout, c.opts.Timeout)
	}
	return min(requestTimeout, c.opts.Timeout)
}

// Within returns a context for requests that belong together, such as the pages of a list,
// and may together take as long as a reader waits.
func (c *Client) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.opts.Timeout)
}

// persist tries until there is an answer that another try does not change, or no
// time for one.
func (c *Client) persist(ctx context.Context, try func() (*http.Response, []byte, error)) (*http.Response, []byte, error) {
	for tries := 0; ; tries++ {
		resp, body, err := try()
		if err == nil && !transient(resp.StatusCode) {
			return resp, body, nil
		}
		wait, ok := c.wait(ctx, tries, resp, err)
		if !ok || tries+1 == briefTries && (isBrief(ctx) || errors.Is(err, errNoWay)) {
			if err == nil {
				return resp, body, nil
			}
			return nil, nil, err
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, nil, err
		}
	}
}

// maxError is how much of the body of an error is read.
const maxError = 64 << 10

// readAll reads the body of a small answer.
func readAll(resp *http.Response, limit int64, end context.CancelCauseFunc) ([]byte, error) {
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		limit = maxError
	}
	watch := watchdog(end)
	defer watch.Stop()
	body, err := io.ReadAll(io.LimitReader(progress{resp.Body, watch}, limit+1))
	switch {
	case err != nil:
		return nil, failedTo(resp.Request.URL, err)
	case int64(len(body)) > limit && resp.StatusCode >= 400:
		return body[:limit], nil
	case int64(len(body)) > limit:
		return nil, &tensorfs.FormatError{File: Printable(resp.Request.URL), Offset: -1, Problem: fmt.Sprintf("the answer has more than %d bytes", limit), Advice: "check the address", Kind: errPermanent}
	}
	return body, nil
}

// watchdog ends an attempt that receives no data. Its error is a timeout, to tell it from a
// caller that gave up.
func watchdog(end context.CancelCauseFunc) *time.Timer {
	return time.AfterFunc(stall, func() { end(os.ErrDeadlineExceeded) })
}

// progress puts off the end of an attempt with every byte that comes.
type progress struct {
	io.Reader
	watch *time.Timer
}

func (p progress) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if n > 0 {
		p.watch.Reset(stall)
	}
	return n, err
}
