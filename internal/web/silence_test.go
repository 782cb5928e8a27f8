package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tensorfs/tensorfs/internal/cache"
)

// What has an answer from before is asked for a few times, and not for long.
func TestBriefly(t *testing.T) {
	for name, tt := range map[string]struct {
		status  int // 0: nothing comes
		asked   int
		atMost  time.Duration
		answers bool
	}{
		"busy":   {http.StatusServiceUnavailable, briefTries, briefTries * time.Second, true},
		"silent": {0, 1, briefTimeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &paper{size: 10, answer: func(int) (int64, time.Duration, int, http.Header) {
					if tt.status == 0 {
						return 0, 0, http.StatusPartialContent, nil
					}
					return 0, 0, tt.status, nil
				}}
				c := NewClient(Options{})
				c.open = p
				began := time.Now()
				resp, _, err := c.Do(Briefly(t.Context()), 100, func(ctx context.Context) (*http.Request, error) {
					return http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/x", nil)
				})
				if (err == nil) != tt.answers || err == nil && resp.StatusCode != tt.status || err != nil && !Unanswered(err) {
					t.Errorf("%v", err)
				}
				if took := time.Since(began); took > tt.atMost || len(p.requests()) != tt.asked {
					t.Errorf("%d requests in %v", len(p.requests()), took)
				}
			})
		})
	}
}

// noNetwork is what requests come to without one.
type noNetwork struct{ asked int }

func (n *noNetwork) RoundTrip(*http.Request) (*http.Response, error) {
	n.asked++
	return nil, &net.DNSError{Err: "network is unreachable", Name: "hub.test", IsTemporary: true}
}

// Without a network a small request fails soon.
func TestNoNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &noNetwork{}
		c := NewClient(Options{})
		c.open = n
		_, _, err := c.Do(t.Context(), 100, func(ctx context.Context) (*http.Request, error) {
			return http.NewRequestWithContext(ctx, http.MethodGet, "https://hub.test/x", nil)
		})
		if !Unanswered(err) || n.asked != briefTries {
			t.Errorf("%v after %d requests", err, n.asked)
		}
	})
}

// Which errors mean that no server answered.
func TestUnanswered(t *testing.T) {
	u, _ := url.Parse("https://hub.test/x")
	for err, want := range map[error]bool{
		syscall.ECONNREFUSED: true, syscall.ENETUNREACH: true, io.EOF: true, context.DeadlineExceeded: true, context.Canceled: false, notPublic("10.0.0.1"): false,
	} {
		if got := failedTo(u, err); Unanswered(got) != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	for status, want := range map[int]bool{200: false, 400: false, 401: false, 403: false, 404: false, 408: true, 410: false, 416: false, 429: true, 500: true, 501: true, 503: true, 521: true} {
		err := Status("x", &http.Response{StatusCode: status, Status: fmt.Sprint(status)}, "")
		if Unanswered(err) != want {
			t.Errorf("%d: %v", status, err)
		}
		if status == 503 && !errors.Is(err, syscall.EIO) || status == 403 && !errors.Is(err, syscall.EACCES) {
			t.Errorf("%d is of another kind", status)
		}
	}
}

// A server that did not answer is not asked for a while, and then it is.
func TestSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paper{size: mib, answer: func(int) (int64, time.Duration, int, http.Header) { return mib, 0, http.StatusPartialContent, nil }}
		store, err := cache.Open(cache.Options{Budget: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		entry, err := store.Entry(cache.ID{Key: "test", Size: mib})
		if err != nil {
			t.Fatal(err)
		}
		c := NewClient(Options{})
		c.open = p
		f := c.File(Silent(&origin{url: "http://127.0.0.1/m", etag: `"one"`}, refused(&url.URL{Host: "h"}, "it was silent", "wait")), entry, "h", "test/m", "m.gguf")
		defer f.Close()
		began := time.Now()
		if _, err := f.ReadAt(make([]byte, 10), 0); err == nil || !strings.HasPrefix(err.Error(), "test/m: it was silent; wait") || !errors.Is(err, syscall.EIO) || time.Since(began) > 0 || len(p.requests()) > 0 {
			t.Errorf("%v after %v and %d requests", err, time.Since(began), len(p.requests()))
		}
		time.Sleep(silence)
		readRight(t, f, 0, 0, mib)
	})
}
