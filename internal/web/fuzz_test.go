package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
)

// oneLine holds that an error is one line of bounded length, without secrets.
func oneLine(t *testing.T, err error, secrets ...string) {
	t.Helper()
	text := err.Error()
	if strings.ContainsAny(text, "\n\r\x1b\x00") || len(text) > 2000 {
		t.Errorf("%q", text)
	}
	for _, s := range secrets {
		if strings.Contains(text, s) {
			t.Errorf("it has %s: %q", s, text)
		}
	}
}

// FuzzContentRange reads what may stand before a part: one that is believed is
// inside of a file, and is written so.
func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-9/10", "bytes 5-5/10", "bytes 0-9/*", "bytes */10", "bytes  0-9/10", "bytes +0-9/10", "bytes 0-9/99999999999999999999", "bytes 00-09/010", "bytes 0-9/10, bytes 0-9/10"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, last, total, ok := ContentRange(s)
		if !ok {
			return
		}
		if first < 0 || last < first || total <= last || total > maxSize {
			t.Errorf("%q is %d to %d of %d", s, first, last, total)
		}
		if a, b, c, ok := ContentRange(fmt.Sprintf("bytes %d-%d/%d", first, last, total)); !ok || a != first || b != last || c != total {
			t.Errorf("%q is %d to %d of %d, and then %d to %d of %d", s, first, last, total, a, b, c)
		}
	})
}

// answering is a network in which every server gives one answer.
type answering func(req *http.Request) *http.Response

func (a answering) RoundTrip(req *http.Request) (*http.Response, error) { return a(req), nil }

// FuzzRedirect follows any Location from a public server that is reached through a
// proxy: credentials go nowhere else, nor does anything to an address that is not
// public; https stays https, and it ends.
func FuzzRedirect(f *testing.F) {
	for _, s := range []string{"/x", "https://home.test/x", "https://home.test:444/", "https://b.test/?a=SECRET", "http://home.test/", "//c.test", "https://10.0.0.1/", "https://[::1]/", "https://localhost",
		"https://2130706433/", "https://0x7f.1/", "https://u:SECRET@home.test/", "file:///etc/passwd", "", "https:opaque", "https://\x00", "https://" + strings.Repeat("a", 60_000), "?" + strings.Repeat("b", 60_000), "https://%31%30.0.0.1/", "https://[::ffff:127.0.0.1]/", "https://HOME.test./", "https://us://u:SECRET"} {
		f.Add(s, http.StatusFound, "x", false)
	}
	f.Add("", http.StatusNotFound, strings.Repeat("c", 60_000), false)
	f.Add("https://b.test", http.StatusPermanentRedirect, "x\r\ny", true)
	f.Fuzz(func(t *testing.T, location string, status int, said string, stay bool) {
		proxy, _ := url.Parse("http://192.168.0.1")
		c := NewClient(Options{Proxy: func(*http.Request) (*url.URL, error) { return proxy, nil }})
		asked := 0
		c.open = answering(func(req *http.Request) *http.Response {
			asked++
			u := req.URL
			host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
			if at, err := netip.ParseAddr(host); u.Scheme != "https" || err == nil && !public(at) || host == "localhost" || strings.HasSuffix(host, ".localhost") {
				t.Errorf("%q leads to %s", location, u)
			}
			home, _ := url.Parse("https://home.test")
			if secret := req.Header.Get("Authorization") + req.Header.Get("If-Match"); secret != "" && !SameOrigin(home, u) {
				t.Errorf("%q takes %q to %s", location, secret, u)
			}
			return &http.Response{StatusCode: status, Status: fmt.Sprint(status, " ", said), Header: http.Header{"Location": {location}}, Body: http.NoBody, Request: req}
		})
		c.outside = answering(func(req *http.Request) *http.Response {
			t.Errorf("%q avoids the proxy", location)
			return &http.Response{StatusCode: 404, Body: http.NoBody, Header: http.Header{}}
		})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://home.test/m", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer TOKEN")
		req.Header.Set("If-Match", `"TOKEN"`)
		resp, to, err := c.follow(t.Context(), req, stay)
		if asked > maxRedirects+1 {
			t.Errorf("%d requests", asked)
		}
		switch {
		case err != nil:
			secrets := []string{"TOKEN", "SECRET"}
			if u, err := url.Parse(location); err == nil && strings.Contains(u.Host+u.EscapedPath(), "SECRET") {
				secrets = secrets[:1] // hosts and paths are no secrets
			}
			oneLine(t, err, secrets...)
		case resp == nil:
			t.Error("no answer and no error")
		case to != nil && (!stay || to.Header.Get("Authorization") != "" || to.URL.Scheme != "https"):
			t.Errorf("%q leads to %v", location, to)
		default:
			oneLine(t, Status("m", resp, "advice"), "TOKEN")
		}
	})
}

// FuzzAnswer reads a file of a server that gives any answers: what is read is what
// the server's file has, or it is an error.
func FuzzAnswer(f *testing.F) {
	const size = 3*cache.CellSize + 100
	whole := make([]byte, size)
	fill(whole, 0)
	f.Add(206, fmt.Sprintf("bytes 0-%d/%d", size-1, size), "", int64(size), []byte(nil), 0)
	f.Add(206, fmt.Sprintf("bytes 0-%d/%d", size-1, size), "gzip", int64(size), []byte(nil), 0)
	f.Add(200, "", "", int64(size), []byte(nil), 0)
	f.Add(200, "", "", int64(-1), []byte("short"), 1)
	f.Add(206, "bytes 1-99/100", "", int64(99), []byte("other"), 3)
	f.Add(503, "", "identity", int64(0), []byte("busy"), 2)
	f.Add(416, "bytes */5", "", int64(0), []byte(nil), 0)
	f.Fuzz(func(t *testing.T, status int, span, encoding string, length int64, body []byte, right int) {
		store, err := cache.Open(cache.Options{Budget: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		entry, err := store.Entry(cache.ID{Key: "test", Size: size})
		if err != nil {
			t.Fatal(err)
		}
		c := NewClient(Options{})
		n := 0
		c.open = answering(func(req *http.Request) *http.Response {
			first, last := asked(req)
			resp := &http.Response{StatusCode: status, Status: strconv.Itoa(status), Header: http.Header{"Content-Range": {span}}, ContentLength: length, Request: req}
			if encoding != "" {
				resp.Header.Set("Content-Encoding", encoding)
			}
			switch n++; {
			case n <= right&3 || n > 3: // what is asked for
				last = min(last, size-1)
				resp.StatusCode, resp.ContentLength = http.StatusPartialContent, last-first+1
				resp.Header = http.Header{"Content-Range": {fmt.Sprintf("bytes %d-%d/%d", first, last, int64(size))}}
				resp.Body = io.NopCloser(io.NewSectionReader(bytes.NewReader(whole), first, last-first+1))
				return resp
			case body == nil: // as its header declares, from the file
				from, to, _, ok := ContentRange(span)
				if !ok || status == http.StatusOK {
					from, to = 0, size-1
				}
				resp.Body = io.NopCloser(io.NewSectionReader(bytes.NewReader(whole), from, to-from+1))
			default: // less than the file, so that none of it is a right answer
				from, _, _, _ := ContentRange(span)
				resp.Body = io.NopCloser(io.LimitReader(bytes.NewReader(body), max(0, min(size-1-from, first))))
			}
			return resp
		})
		fl := c.File(always{}, entry, "test", "test/m", "m.safetensors")
		defer fl.Close()
		for _, at := range []int64{0, cache.CellSize - 1, size - 10} {
			got := make([]byte, 10)
			ctx, cancel := context.WithTimeout(t.Context(), firstWait/10) // without the waits
			_, err := fl.ReadAtContext(ctx, got, at)
			cancel()
			if err != nil {
				oneLine(t, err)
				if !errors.Is(err, tensorfs.ErrChanged) && !slices.ContainsFunc([]error{syscall.EIO, syscall.ETIMEDOUT, syscall.EACCES, syscall.ESTALE}, func(e error) bool { return errors.Is(err, e) }) {
					t.Errorf("%v", err)
				}
			} else if !bytes.Equal(got, whole[at:at+10]) {
				t.Errorf("%d bytes at %d are %x", len(got), at, got)
			}
		}
	})
}

// always is the origin of a file with one version.
type always struct{}

func (always) Request(ctx context.Context, _, _ int64, _ bool) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/m", nil)
}
func (always) Accept(*http.Response) error  { return nil }
func (always) Refused(*http.Response) error { return nil }
