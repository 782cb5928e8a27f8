package testhub

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Request is what a server was asked.
type Request struct {
	Data          bool // of the server with the data
	Path          string
	Range         string
	Authorization string
	Agent         string
}

// Fault answers a request instead of the servers and returns true, or leaves it to them.
type Fault func(w http.ResponseWriter, r *http.Request, data bool) bool

// Servers are the two of a service: one with names, and one that has the data at
// addresses which end.
type Servers struct {
	URL string // of the first

	dataURL string

	mu       sync.Mutex
	delay    time.Duration
	uses     int
	fault    Fault
	blobs    map[string][]byte // by SHA-256 or git's id
	used     map[string]int    // ranges of each signature
	signed   int
	requests []Request
	sent     int64 // bytes of bodies
	now      int
	most     int
}

// start starts both servers.
func (s *Servers) start(t testing.TB, names http.HandlerFunc) {
	s.blobs, s.used = map[string][]byte{}, map[string]int{}
	one, two := httptest.NewServer(s.wrap(false, names)), httptest.NewServer(s.wrap(true, s.serveData))
	t.Cleanup(one.Close)
	t.Cleanup(two.Close)
	s.URL, s.dataURL = one.URL, two.URL
}

// Break lets fault see each request first; nil ends that.
func (s *Servers) Break(fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Delay sets how long each answer takes.
func (s *Servers) Delay(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// Expire sets after how many ranges an address of data ends; 0 is never.
func (s *Servers) Expire(ranges int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses = ranges
}

// Requests returns what was asked.
func (s *Servers) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Reset forgets what was asked and sent.
func (s *Servers) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.sent, s.most = nil, 0, 0
}

// Sent is how many bytes of bodies were sent.
func (s *Servers) Sent() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// Most is how many requests were delayed at a time.
func (s *Servers) Most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Count is how many requests had a text in their path.
func (s *Servers) Count(in string) (n int) {
	for _, r := range s.Requests() {
		if strings.Contains(r.Path, in) {
			n++
		}
	}
	return n
}

// counted is an answer whose bytes are counted.
type counted struct {
	http.ResponseWriter
	s *Servers
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.s.mu.Lock()
	c.s.sent += int64(n)
	c.s.mu.Unlock()
	return n, err
}

// Flush sends what was written.
func (c counted) Flush() { c.ResponseWriter.(http.Flusher).Flush() }

func (s *Servers) wrap(data bool, h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, Request{data, r.URL.RequestURI(), r.Header.Get("Range"), r.Header.Get("Authorization"), r.UserAgent()})
		s.now++
		s.most = max(s.most, s.now)
		delay := s.delay
		s.mu.Unlock()
		time.Sleep(delay)
		s.mu.Lock()
		s.now-- // before the last byte has left, after which the next request may come
		fault := s.fault
		s.mu.Unlock()
		w = counted{w, s}
		if fault != nil && fault(w, r, data) {
			return
		}
		h(w, r)
	})
}

// sign returns an address of data that is good for a while.
func (s *Servers) sign(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signed++
	return fmt.Sprintf("%s/%s?X-Amz-Expires=3600&sig=secret%d", s.dataURL, id, s.signed)
}

func (s *Servers) blob(id string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.blobs[id]
	return b, ok
}

// serveData is the second server. As S3 it wants one kind of authorization.
func (s *Servers) serveData(w http.ResponseWriter, r *http.Request) {
	b, ok := s.blob(strings.TrimPrefix(r.URL.Path, "/"))
	sig := r.URL.Query().Get("sig")
	s.mu.Lock()
	s.used[sig]++
	ended := sig == "" || s.uses > 0 && s.used[sig] > s.uses
	s.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "":
		http.Error(w, "Only one auth mechanism allowed", http.StatusBadRequest)
	case ended:
		http.Error(w, "Request has expired", http.StatusForbidden)
	case !ok:
		http.NotFound(w, r)
	default:
		w.Header().Set("ETag", `"its own"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	}
}

// text sends a small file or JSON, compressed unless it is not wanted so.
func text(w http.ResponseWriter, r *http.Request, etag string, b []byte) {
	w.Header().Set("Content-Type", "application/octet-stream")
	if etag != "" {
		w.Header().Set("ETag", `"`+etag+`"`)
	}
	if r.Header.Get("Accept-Encoding") != "identity" {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		z.Write(b)
		z.Close()
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
}
