package demand

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// server is what tests open models of, without any network.
type server struct {
	*Lookups
	log bytes.Buffer

	mu    sync.Mutex
	asked []string
	now   int // under way, and the most of them
	most  int
	fail  error
	hold  chan struct{} // nil: nothing waits
	clock time.Time
}

func newServer(t *testing.T) *server {
	names, err := NewNames("hf:", nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{clock: time.Unix(1e9, 0)}
	s.Lookups = New(Options{Names: names, Open: s.open, Now: func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.clock
	}})
	s.LogTo(slog.New(slog.NewTextHandler(&s.log, nil)))
	return s
}

func (s *server) open(ctx context.Context, at, call string) (Opened, error) {
	s.mu.Lock()
	s.asked = append(s.asked, call)
	s.now++
	s.most = max(s.most, s.now)
	hold, fail := s.hold, s.fail
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return Opened{}, ctx.Err()
		}
	}
	return Opened{Name: call + "@c"}, fail
}

func (s *server) set(fail error, hold chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.hold = fail, hold
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// wait waits until so many models were asked for.
func (s *server) wait(t *testing.T, n int) {
	t.Helper()
	testlimit.Wait(t, fmt.Sprintf("request %d", n), func() bool { return s.count() >= n })
}

// either is an error about a name that is wrong or private.
type either struct{ syscall.Errno }

func (either) MayNotExist() bool { return true }

// TestErrors gives programs the number of each failure, asks again after its time, and logs a reason
// once.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		fail error
		want syscall.Errno
		hold time.Duration
	}{
		{syscall.ENOENT, syscall.ENOENT, time.Minute},
		{syscall.EACCES, syscall.EACCES, time.Minute},
		{either{syscall.EACCES}, syscall.ENOENT, time.Minute},
		{tensorfs.Unsupported("x", "it has two models", "name one"), syscall.EIO, time.Minute},
		{syscall.ECONNREFUSED, syscall.EIO, 5 * time.Second},
		{context.DeadlineExceeded, syscall.EIO, 5 * time.Second},
	} {
		s := newServer(t)
		s.set(fmt.Errorf("hf:a/b: it cannot be had:\nno: %w", tt.fail), nil)
		open := func(count int) {
			t.Helper()
			err := s.Open(t.Context(), "a/b")
			var no syscall.Errno
			if !errors.As(err, &no) || no != tt.want || strings.Contains(err.Error(), "\n") || s.count() != count {
				t.Errorf("%v: %v after %d requests, want %v after %d", tt.fail, err, s.count(), tt.want, count)
			}
		}
		open(1)
		open(1)
		s.clock = s.clock.Add(tt.hold - time.Nanosecond)
		open(1)
		s.clock = s.clock.Add(time.Nanosecond)
		open(2)
		if n := strings.Count(s.log.String(), "it cannot be had"); n != 1 {
			t.Errorf("%v: logged %d times: %s", tt.fail, n, &s.log)
		}
		var about map[string]struct{ Model, Reason string }
		if err := json.Unmarshal(s.About(), &about); err != nil || about["a/b"].Model != "hf:a/b" || !strings.Contains(about["a/b"].Reason, "it cannot be had") {
			t.Errorf("%s: %v", s.About(), err)
		}
		s.set(nil, nil)
		s.clock = s.clock.Add(time.Minute)
		if err := s.Open(t.Context(), "a/b"); err != nil || s.Open(t.Context(), "a/b") != nil || s.count() != 3 {
			t.Errorf("%v after %d requests", err, s.count())
		}
		if l := s.Opened(0); len(l) != 1 || l[0].At != "a/b" || l[0].Name != "hf:a/b@c" || len(s.Opened(1)) != 0 {
			t.Errorf("%+v", l)
		}
	}
}

// TestNoRequest asks for nothing if a name is not a model's.
func TestNoRequest(t *testing.T) {
	s := newServer(t)
	for _, at := range []string{"", "a", ".git", "a/.git", "a/package.json", "a/b/c", "HEAD", "a/libc.so.6"} {
		s.Dir(at)
		if err := s.Open(t.Context(), at); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("%q: %v", at, err)
		}
	}
	if s.count() != 0 || s.log.Len() > 0 || string(s.About()) != "{}\n" {
		t.Errorf("asked for %q, logged %s", s.asked, &s.log)
	}
}

// TestAtOnce looks up a name once for several programs, and at most four names at a time.
func TestAtOnce(t *testing.T) {
	s := newServer(t)
	hold := make(chan struct{})
	s.set(nil, hold)
	const names, programs = 9, 3
	results := make(chan error, names*programs)
	for i := range names * programs {
		go func() { results <- s.Open(t.Context(), fmt.Sprintf("a/n%d", i%names)) }()
	}
	s.wait(t, atOnce)
	testlimit.Wait(t, "programs that wait", func() bool {
		s.Lookups.mu.Lock()
		defer s.Lookups.mu.Unlock()
		n := 0
		for _, f := range s.flights {
			n += f.waiting
		}
		return n == names*programs
	})
	close(hold)
	for range names * programs {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if s.count() != names || s.most != 4 || len(s.Opened(0)) != names {
		t.Errorf("%d requests, %d at a time", s.count(), s.most)
	}
}

// TestInterrupt ends a look-up when the last program that waits for it was interrupted, and looks the
// name up for the next one.
func TestInterrupt(t *testing.T) {
	s := newServer(t)
	hold := make(chan struct{})
	s.set(nil, hold)
	interrupted := func(at string) (cancel func(), result chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		result = make(chan error)
		go func() { result <- s.Open(ctx, at) }()
		return cancel, result
	}
	waiting := func(n int) {
		t.Helper()
		testlimit.Wait(t, "programs", func() bool {
			s.Lookups.mu.Lock()
			defer s.Lookups.mu.Unlock()
			f := s.flights["a/b"]
			return f != nil && f.waiting == n
		})
	}
	end := func(cancel func(), result chan error) {
		t.Helper()
		cancel()
		if err := <-result; !errors.Is(err, syscall.EINTR) {
			t.Error(err)
		}
	}
	one, first := interrupted("a/b")
	waiting(1)
	two, second := interrupted("a/b")
	waiting(2)
	end(one, first) // the second still waits
	waiting(1)
	end(two, second)
	testlimit.Wait(t, "the end of the look-up", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now == 0
	})
	if s.log.Len() > 0 || string(s.About()) != "{}\n" {
		t.Errorf("an interrupted look-up left %s%s", &s.log, s.About())
	}
	// All places are taken: who waits for one is interrupted as well.
	for i := range atOnce {
		cancel, result := interrupted(fmt.Sprintf("a/n%d", i))
		defer end(cancel, result)
	}
	s.wait(t, 1+atOnce)
	three, third := interrupted("a/b")
	waiting(1)
	end(three, third)
	if s.count() != 1+atOnce {
		t.Errorf("%d requests", s.count())
	}
}

// TestManyNames bounds what is remembered.
func TestManyNames(t *testing.T) {
	s := newServer(t)
	s.set(syscall.ENOENT, nil)
	for i := range maxFailed + 10 {
		s.clock = s.clock.Add(time.Millisecond)
		if err := s.Open(t.Context(), fmt.Sprintf("a/n%d", i)); !errors.Is(err, syscall.ENOENT) {
			t.Fatal(err)
		}
	}
	if n := len(s.failed); n != maxFailed || s.failed["a/n9"] != nil || s.failed["a/n10"] == nil {
		t.Errorf("%d names are remembered", n)
	}
	s.set(nil, nil)
	for i := range maxOpened {
		s.opened[fmt.Sprintf("b/n%d", i)] = true
		s.list = append(s.list, Found{})
	}
	if err := s.Open(t.Context(), "a/one"); !errors.Is(err, syscall.ENFILE) {
		t.Error(err)
	}
}
