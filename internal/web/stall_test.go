package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tensorfs/tensorfs/internal/cache"
)

// paper is a server without a network, for tests with simulated time: the clock stops while any
// goroutine can run.
type paper struct {
	size int64
	mu   sync.Mutex
	asks []time.Time
	// answer describes the reply to request i: how many bytes, and how long each takes. The rest
	// never arrives. An answer without bytes has the status and the header.
	answer func(i int) (bytes int64, each time.Duration, status int, h http.Header)
}

// RoundTrip implements http.RoundTripper.
func (p *paper) RoundTrip(req *http.Request) (*http.Response, error) {
	p.mu.Lock()
	i := len(p.asks)
	p.asks = append(p.asks, time.Now())
	p.mu.Unlock()
	n, each, status, h := p.answer(i)
	resp := &http.Response{StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)), Header: http.Header{}, Request: req, ContentLength: -1}
	for name := range h {
		resp.Header.Set(name, h.Get(name))
	}
	if status != http.StatusPartialContent {
		resp.Body = http.NoBody
		return resp, nil
	}
	if n == 0 && each == 0 {
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	}
	first, last := asked(req)
	last = min(last, p.size-1)
	resp.Header.Set("ETag", `"one"`)
	resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, p.size))
	resp.Body = &slowly{ctx: req.Context(), at: first, end: last + 1, left: n, each: each}
	return resp, nil
}

// slowly is a body.
type slowly struct {
	ctx     context.Context
	at, end int64
	left    int64
	each    time.Duration
}

func (s *slowly) Close() error { return nil }

func (s *slowly) Read(p []byte) (int, error) {
	if s.at == s.end {
		return 0, io.EOF
	}
	if s.left == 0 {
		<-s.ctx.Done()
		return 0, context.Cause(s.ctx)
	}
	n := min(int64(len(p)), s.left, s.end-s.at)
	if s.each > 0 {
		n = 1
		select {
		case <-time.After(s.each):
		case <-s.ctx.Done():
			return 0, context.Cause(s.ctx)
		}
	}
	fill(p[:n], s.at)
	s.at, s.left = s.at+n, s.left-n
	return int(n), nil
}

// file is a file of such a server.
func (p *paper) file(t *testing.T) *File {
	t.Helper()
	store, err := cache.Open(cache.Options{Budget: -1})
	if err != nil {
		t.Fatal(err)
	}
	entry, err := store.Entry(cache.ID{Key: "test", Size: p.size})
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(Options{})
	c.open = p
	f := c.File(&origin{url: "http://127.0.0.1/model.gguf", etag: `"one"`}, entry, "test", "test/model.gguf", "model.gguf")
	t.Cleanup(func() { f.Close(); store.Close() })
	return f
}

// requests is how long each came after the first.
func (p *paper) requests() (after []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.asks {
		after = append(after, at.Sub(p.asks[0]))
	}
	return after
}

// readAll reads all of a file of such a server, and compares it. It returns how long
// that took.
func (p *paper) readAll(t *testing.T) (took time.Duration, err error) {
	t.Helper()
	f, began := p.file(t), time.Now()
	got, want := make([]byte, p.size), make([]byte, p.size)
	_, err = f.ReadAt(got, 0)
	fill(want, 0)
	if err == nil && string(got) != string(want) {
		t.Error("wrong bytes")
	}
	return time.Since(began), err
}

// Row 12: an attempt ends after 15 s without a byte, and goes on as long as any
// come. What is resumed begins where it ended, and a server that stays silent is an
// error when the deadline comes.
func TestStall(t *testing.T) {
	const silence = time.Duration(0)
	all := func(int) (int64, time.Duration, int, http.Header) { return 1 << 30, 0, http.StatusPartialContent, nil }
	after := func(n int64, each time.Duration) func(int) (int64, time.Duration, int, http.Header) {
		return func(i int) (int64, time.Duration, int, http.Header) {
			if i == 0 {
				return n, each, http.StatusPartialContent, nil
			}
			return all(i)
		}
	}
	for _, tt := range []struct {
		name     string
		size     int64
		answer   func(i int) (int64, time.Duration, int, http.Header)
		requests int           // 0: some
		took     time.Duration // at least, and at most a wait more
		kind     error
	}{
		{"at once", mib, all, 1, 0, nil},
		{"1 byte a second", 90, after(90, time.Second), 1, 90 * time.Second, nil},
		{"1 byte in 14 seconds", 7, after(7, stall-time.Second), 1, 7 * (stall - time.Second), nil},
		{"1 byte in 16 seconds", 7, after(7, stall+time.Second), 2, stall, nil},
		{"silence", mib, after(0, silence), 2, stall, nil},
		{"silence midway", mib, after(3*cache.CellSize+10, silence), 2, stall, nil},
		{"silence for ever", mib, func(int) (int64, time.Duration, int, http.Header) { return 0, silence, http.StatusPartialContent, nil }, 0, readTimeout - stall - 2*maxWait, syscall.ETIMEDOUT},
		{"silence after a byte, for ever", mib, func(int) (int64, time.Duration, int, http.Header) { return 1, silence, http.StatusPartialContent, nil }, 0, readTimeout - stall - 2*maxWait, syscall.ETIMEDOUT},
		{"1 byte a second, for ever", mib, func(int) (int64, time.Duration, int, http.Header) {
			return mib, time.Second, http.StatusPartialContent, nil
		}, 1, readTimeout, syscall.ETIMEDOUT},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 20 { // how long it waits is left to chance
				synctest.Test(t, func(t *testing.T) {
					p := &paper{size: tt.size, answer: tt.answer}
					took, err := p.readAll(t)
					if tt.kind == nil && err != nil || !errors.Is(err, tt.kind) || err != nil && (strings.Contains(err.Error(), "context") || !strings.HasPrefix(err.Error(), "test/model.gguf: ")) {
						t.Errorf("%v", err)
					}
					if asked := p.requests(); tt.requests > 0 && len(asked) != tt.requests {
						t.Errorf("asked after %v", asked)
					}
					if most := min(tt.took+2*maxWait+stall, readTimeout); took < tt.took || took > most {
						t.Errorf("it took %v, want %v to %v", took, tt.took, most)
					}
				})
			}
		})
	}
}

// Row 10: a server that states how long to wait is not asked earlier, and a server that is only
// busy is asked soon.
func TestWaits(t *testing.T) {
	told := func(name, value string) http.Header {
		h := http.Header{}
		h.Set(name, value)
		return h
	}
	for _, tt := range []struct {
		name   string
		status int
		h      http.Header
		times  int
		wait   time.Duration // exactly, 0: the client's own
	}{
		{"Retry-After", http.StatusTooManyRequests, told("Retry-After", "2"), 1, 2 * time.Second},
		{"RateLimit", http.StatusTooManyRequests, told("RateLimit", `"resolvers";r=0;t=55`), 1, 56 * time.Second},
		{"unavailable", http.StatusServiceUnavailable, nil, 2, 0},
		{"at once", http.StatusServiceUnavailable, told("Retry-After", "0"), 6, 0},
		{"long ago", http.StatusTooManyRequests, told("Retry-After", "Mon, 01 Jan 1990 00:00:00 GMT"), 6, 0},
		{"unavailable for a time", http.StatusServiceUnavailable, told("Retry-After", "30"), 2, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &paper{size: mib, answer: func(i int) (int64, time.Duration, int, http.Header) {
					if i < tt.times {
						return 0, 0, tt.status, tt.h
					}
					return mib, 0, http.StatusPartialContent, nil
				}}
				_, err := p.readAll(t)
				asked := p.requests()
				if err != nil || len(asked) != tt.times+1 {
					t.Fatalf("asked after %v: %v", asked, err)
				}
				for i := range tt.times {
					wait := asked[i+1] - asked[i]
					if own := min(firstWait<<i, maxWait); tt.wait == 0 && (wait < own/2 || wait > own*3/2) || tt.wait > 0 && wait != tt.wait {
						t.Errorf("asked after %v", asked)
					}
				}
			})
		})
	}
	// What would come after the deadline is not waited for.
	synctest.Test(t, func(t *testing.T) {
		p := &paper{size: mib, answer: func(int) (int64, time.Duration, int, http.Header) {
			return 0, 0, http.StatusTooManyRequests, told("Retry-After", "3600")
		}}
		took, err := p.readAll(t)
		if !errors.Is(err, syscall.EIO) || took != 0 {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// A small answer that stops midway is requested again, and finally gives an error that explains it.
func TestDoStalls(t *testing.T) {
	for stops, ok := range map[int]bool{0: true, 1: true, 10: false} {
		synctest.Test(t, func(t *testing.T) {
			c := NewClient(Options{})
			c.open = &paper{size: 100, answer: func(i int) (int64, time.Duration, int, http.Header) {
				if i < stops {
					return 50, 0, http.StatusPartialContent, nil
				}
				return 100, 0, http.StatusPartialContent, nil
			}}
			_, b, err := c.Do(t.Context(), mib, func(ctx context.Context) (*http.Request, error) {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/list?secret", nil)
				if err == nil {
					req.Header.Set("Range", "bytes=0-99")
				}
				return req, err
			})
			if ok != (err == nil) || ok && len(b) != 100 || !ok && !strings.Contains(err.Error(), `http://127.0.0.1/list?...: "127.0.0.1" does not answer`) {
				t.Errorf("%d times: %d bytes, %v", stops, len(b), err)
			}
		})
	}
}

// Row 11: a server that is broken fails reads and nothing else, until it is
// repaired. What did not come a moment ago is not asked for again.
func TestBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		p := &paper{size: 20 * mib, answer: func(int) (int64, time.Duration, int, http.Header) {
			if broken.Load() {
				return 0, 0, http.StatusInternalServerError, nil
			}
			return mib, 0, http.StatusPartialContent, nil
		}}
		d := p.file(t).Section(0, p.size)
		readRight(t, d, 0, 0, 4096)
		broken.Store(true)
		began := time.Now()
		_, err := d.ReadAt(make([]byte, 10), 10*mib)
		if !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ETIMEDOUT) || strings.Contains(err.Error(), "\n") || time.Since(began) > readTimeout {
			t.Errorf("%v", err)
		}
		readRight(t, d, 0, 100, 4096) // it is here
		n := len(p.requests())
		if _, again := d.ReadAt(make([]byte, 10), 10*mib); again == nil || again.Error() != err.Error() || len(p.requests()) > n {
			t.Errorf("at once it fails with %v, and was asked %d times more", again, len(p.requests())-n)
		}
		broken.Store(false)
		time.Sleep(failedFor)
		readRight(t, d, 0, 10*mib, 10)
	})
}

// A body that its reader goes through may be as long as it is, but it has to come.
func TestGetStalls(t *testing.T) {
	for _, tt := range []struct {
		name string
		size int64
		left int64
		each time.Duration
		took time.Duration
		ok   bool
	}{
		{"all at once", 3 * mib, 3 * mib, 0, 0, true},
		{"a byte a second, that are few", 100, 100, time.Second, 100 * time.Second, true},
		{"a byte a second", mib, mib, time.Second, readTimeout, false},
		{"silence midway", mib, 200_000, 0, stall, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := NewClient(Options{})
				c.open = &paper{size: tt.size, answer: func(int) (int64, time.Duration, int, http.Header) {
					return tt.left, tt.each, http.StatusPartialContent, nil
				}}
				began := time.Now()
				resp, err := c.Get(t.Context(), func(ctx context.Context) (*http.Request, error) {
					req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/m", nil)
					if err == nil {
						req.Header.Set("Range", fmt.Sprintf("bytes=0-%d", tt.size-1))
					}
					return req, err
				})
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				n, err := io.Copy(io.Discard, resp.Body)
				if ok := err == nil && n == tt.size; ok != tt.ok || !ok && !timedOut(err) || time.Since(began) != tt.took {
					t.Errorf("%d bytes after %v: %v", n, time.Since(began), err)
				}
			})
		})
	}
}
