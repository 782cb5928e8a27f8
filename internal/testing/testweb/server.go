package testweb

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Content is a file. *bytes.Reader is one.
type Content interface {
	io.ReaderAt
	Size() int64
}

// Request is what a server was asked.
type Request struct {
	Path   string // with the query
	Range  string
	Header http.Header
}

// Behaviour is how a server answers.
type Behaviour struct {
	ETag     string    // of all files, with quotes; "" for none
	Modified time.Time // of all files; zero for none
	Whole    bool      // it sends only whole files
	Careless bool      // it does not look at If-Match and the like
	Fault    Fault     // may be nil
}

// Fault answers request i, from 0 on, and returns true, or leaves it to the server.
type Fault func(i int, w http.ResponseWriter, r *http.Request) bool

// Server serves files.
type Server struct {
	URL string

	mu       sync.Mutex
	is       Behaviour
	files    map[string]Content // by path
	requests []Request
	sent     int64
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	s := &Server{is: Behaviour{ETag: `"one"`, Modified: time.Unix(1_700_000_000, 0)}, files: map[string]Content{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// Put serves a file at a path, such as /dir/model.gguf.
func (s *Server) Put(path string, c Content) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[path] = c
}

// Requests returns what was asked since the last Reset.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Sent returns how many bytes of files were sent since the last Reset.
func (s *Server) Sent() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// Reset forgets what was asked and sent.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.sent = nil, 0
}

// Change changes how the server answers from the next request on.
func (s *Server) Change(change func(*Behaviour)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.is)
}

// Break lets fault see each request first; nil ends that.
func (s *Server) Break(fault Fault) { s.Change(func(b *Behaviour) { b.Fault = fault }) }

// counted counts the bytes of an answer.
type counted struct {
	http.ResponseWriter
	s *Server
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

// ServeHTTP answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	i := len(s.requests)
	s.requests = append(s.requests, Request{r.URL.RequestURI(), r.Header.Get("Range"), r.Header.Clone()})
	c, is := s.files[r.URL.Path], s.is
	s.mu.Unlock()
	w = counted{w, s}
	if c == nil {
		http.NotFound(w, r)
		return
	}
	if is.ETag != "" {
		w.Header().Set("ETag", is.ETag)
	}
	if is.Fault != nil && is.Fault(i, w, r) {
		return
	}
	if is.Careless {
		r.Header.Del("If-Match")
		r.Header.Del("If-Unmodified-Since")
	}
	if is.Whole {
		if !is.Modified.IsZero() {
			w.Header().Set("Last-Modified", is.Modified.UTC().Format(http.TimeFormat))
		}
		w.Header().Set("Content-Length", fmt.Sprint(c.Size()))
		_, _ = io.Copy(w, io.NewSectionReader(c, 0, c.Size())) // who has seen enough goes away
		return
	}
	http.ServeContent(w, r, "", is.Modified, io.NewSectionReader(c, 0, c.Size()))
}

// Asked returns the range that a request asks for.
func Asked(r *http.Request) (first, last int64) {
	_, _ = fmt.Sscanf(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "%d-%d", &first, &last)
	return first, last
}

// Part begins an answer with the part that was asked for of a file of size bytes.
func Part(w http.ResponseWriter, r *http.Request, size int64) (first, last int64) {
	first, last = Asked(r)
	last = min(last, size-1)
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, size))
	w.Header().Set("Content-Length", fmt.Sprint(last-first+1))
	w.WriteHeader(http.StatusPartialContent)
	return first, last
}
