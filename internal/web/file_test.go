package web

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

const mib = 1 << 20

// A section is Data like any other, also when all of the file has come.
func TestSection(t *testing.T) {
	s := newServer(t, 3*mib+12345)
	f, _ := testFile(t, s, Options{})
	d := f.Section(mib-300, 700) // of two blocks
	want := make([]byte, 700)
	fill(want, mib-300)
	datatest.Check(t, d, want)
	if err := f.Fetch(context.Background(), 0, f.Size()); err != nil {
		t.Fatal(err)
	}
	readRight(t, f, 0, 0, s.size)
	datatest.Check(t, d, want)
}

// Row 6: each cell is fetched once, for any number of readers in any order.
func TestOnce(t *testing.T) {
	s := newServer(t, 40*mib)
	f, _ := testFile(t, s, Options{})
	var wg sync.WaitGroup
	for reader := range int64(16) {
		wg.Go(func() {
			d := f.Section(mib, 32*mib)
			for off := int64(0); off < d.Size(); off += mib {
				readRight(t, d, mib, (off+reader%4*mib)%d.Size(), mib)
			}
		})
	}
	wg.Wait()
	cells := map[int64]int{}
	for _, ask := range s.requests() {
		var first, last int64
		fmt.Sscanf(ask, "bytes=%d-%d", &first, &last)
		for c := first / cache.CellSize; c <= last/cache.CellSize; c++ {
			if cells[c]++; cells[c] > 1 {
				t.Errorf("cell %d was asked for again", c)
			}
		}
	}
	if got := s.sent.Load(); got < 32*mib || got > s.size {
		t.Errorf("%d bytes were sent of a file of %d", got, s.size)
	}
	if most := s.most.Load(); most > maxOfHost {
		t.Errorf("%d requests at the same time", most)
	}
}

// Row 5: small reads here and there fetch a block each.
func TestRandom(t *testing.T) {
	s := newServer(t, 512*mib)
	f, _ := testFile(t, s, Options{})
	d := f.Section(0, s.size)
	const reads = 50
	var wg sync.WaitGroup
	for reader := range uint64(5) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(reader, 1))
			for range reads / 5 {
				readRight(t, d, 0, r.Int64N(s.size/4096)*4096, 4096)
			}
		})
	}
	wg.Wait()
	if got := s.sent.Load(); got > reads*block {
		t.Errorf("%d bytes were sent for %d reads", got, reads)
	}
}

// A parser goes through a header of 5.6 MB, and little more comes than that.
func TestHeader(t *testing.T) {
	s := newServer(t, 200*mib)
	f, _ := testFile(t, s, Options{})
	const header = 5_600_000
	for off := int64(0); off < header; off += 64 << 10 {
		readRight(t, f, 0, off, 64<<10)
	}
	if got, n := s.sent.Load(), len(s.requests()); got > 12*mib || n > 8 {
		t.Errorf("%d requests for %d bytes, of a header of %d", n, got, header)
	}
}

// What is fetched comes in parts, several at a time, and each byte once.
func TestFetchParts(t *testing.T) {
	s := newServer(t, 100*mib)
	all := make(chan struct{}) // closed when as many ask as are allowed
	s.setFault(func(i int, _ http.ResponseWriter, _ *http.Request) bool {
		if i == maxOfHost-1 {
			close(all)
		}
		testlimit.Receive(t, "request at the same time", all)
		return false
	})
	f, _ := testFile(t, s, Options{})
	if err := f.Fetch(context.Background(), mib, 90*mib); err != nil {
		t.Fatal(err)
	}
	readRight(t, f.Section(mib, 90*mib), mib, 0, 90*mib)
	if n, most, sent := len(s.requests()), s.most.Load(), s.sent.Load(); n > 48 || most < maxOfHost || most > maxOfHost+1 || sent > 90*mib {
		t.Errorf("%d requests, %d at a time, %d bytes", n, most, sent)
	}
}

// A server that has too many requests gets half as many, and all of the file comes.
func TestTooMany(t *testing.T) {
	s := newServer(t, 40*mib)
	s.setFault(func(i int, w http.ResponseWriter, _ *http.Request) bool {
		if i < maxOfHost {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		return i < maxOfHost
	})
	f, _ := testFile(t, s, Options{})
	if err := f.Fetch(context.Background(), 0, s.size); err != nil {
		t.Fatal(err)
	}
	readRight(t, f, 0, 0, s.size)
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.connections(); n > maxOfHost/2 || n < maxOfHost/4 {
		t.Errorf("%d connections, want half or a quarter of %d", n, maxOfHost)
	}
}

// A client has as many requests under way as it may.
func TestConnections(t *testing.T) {
	s := newServer(t, 40*mib)
	f, _ := testFile(t, s, Options{Connections: 3})
	if err := f.Fetch(context.Background(), 0, s.size); err != nil {
		t.Fatal(err)
	}
	readRight(t, f, 0, 0, s.size)
	if most := s.most.Load(); most > 3 {
		t.Errorf("%d requests at the same time", most)
	}
}

// Parts of a file are as long as their connections need to end together, and no part of a slow server is too late.
func TestPartOf(t *testing.T) {
	f := &File{c: &Client{opts: Options{Connections: 16}}}
	for _, c := range []struct {
		off, end, n int64
		took        time.Duration
		want        int64
	}{
		{0, 100, 0, 0, 100},
		{0, 16 * mib, 0, 0, mib},
		{0, 32 * mib, 0, 0, 2 * mib},
		{0, 1 << 40, 0, 0, 4 * mib},
		{64 * mib, 1 << 40, 64 * mib, 60 * time.Second, 4 * mib},
		{64 * mib, 1 << 40, 64 * mib, time.Second, part},
		{1 << 39, 1<<39 + 64*mib, 1 << 39, time.Second, 4 * mib},
		{100, 32 * mib, 0, 0, 2*mib + cache.CellSize - 100},
	} {
		if got := f.partOf(c.off, c.end, c.n, c.took); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// Rows 8 and 9: what goes wrong on the way costs time and no byte.
func TestFaults(t *testing.T) {
	for name, fault := range map[string]func(i int, w http.ResponseWriter, r *http.Request) bool{
		"reset": func(i int, w http.ResponseWriter, r *http.Request) bool {
			if i%3 != 0 {
				return false
			}
			part := content(20 * mib)
			first, last := asked(r)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, int64(part)))
			w.Header().Set("Content-Length", fmt.Sprint(last-first+1))
			w.WriteHeader(http.StatusPartialContent)
			b := make([]byte, min(300_000, last-first))
			fill(b, first)
			w.Write(b)
			panic(http.ErrAbortHandler)
		},
		"unavailable": func(i int, w http.ResponseWriter, r *http.Request) bool {
			if i%3 == 2 {
				return false
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		},
		"another start": func(i int, w http.ResponseWriter, r *http.Request) bool {
			if i%2 == 1 {
				return false
			}
			first, last := asked(r)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first+1, last+1, 20*mib))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(make([]byte, last-first+1))
			return true
		},
		"no range said": func(i int, w http.ResponseWriter, r *http.Request) bool {
			if i%2 == 1 {
				return false
			}
			w.WriteHeader(http.StatusPartialContent)
			w.Write(make([]byte, 1000))
			return true
		},
		"too long": func(i int, w http.ResponseWriter, r *http.Request) bool {
			if i%2 == 1 {
				return false
			}
			first, last := asked(r)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, 20*mib))
			w.Header().Set("Content-Length", fmt.Sprint(last-first+10))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(make([]byte, last-first+10))
			return true
		},
		"the whole file": func(i int, w http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("Range")
			return false
		},
		"forbidden once": func(i int, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.RawQuery == "fresh" {
				return false
			}
			w.WriteHeader(http.StatusForbidden)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, 20*mib)
			s.setFault(fault)
			f, o := testFile(t, s, Options{})
			readRight(t, f.Section(0, s.size), 0, 5*mib, 2*mib)
			if n := o.resolved.Load(); (n > 0) != (name == "forbidden once") {
				t.Errorf("the address was resolved again %d times", n)
			}
		})
	}
}

// What is refused with a new address too is refused, without more attempts.
func TestRefused(t *testing.T) {
	for status, want := range map[int]error{http.StatusUnauthorized: syscall.EACCES, http.StatusForbidden: syscall.EACCES, http.StatusGone: syscall.ESTALE} {
		s := newServer(t, mib)
		s.setFault(func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			return true
		})
		f, o := testFile(t, s, Options{})
		_, err := f.ReadAt(make([]byte, 10), 0)
		if !errors.Is(err, want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d: %v", status, err)
		}
		if n := len(s.requests()); n != 2 || o.resolved.Load() != 1 {
			t.Errorf("%d: %d requests", status, n)
		}
	}
}

// asked returns the range of a request.
func asked(r *http.Request) (first, last int64) {
	fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last)
	return first, last
}

// Row 8: after a reset the next request asks for what is missing and no more.
func TestResumes(t *testing.T) {
	s := newServer(t, 20*mib)
	s.setFault(func(i int, w http.ResponseWriter, r *http.Request) bool {
		if i > 0 {
			return false
		}
		first, last := asked(r)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, s.size))
		w.Header().Set("Content-Length", fmt.Sprint(last-first+1))
		w.WriteHeader(http.StatusPartialContent)
		b := make([]byte, 3*cache.CellSize+1000)
		fill(b, first)
		w.Write(b)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	f, _ := testFile(t, s, Options{})
	readRight(t, f.Section(0, s.size), 0, 0, 4096)
	if err := f.Fetch(context.Background(), 0, mib); err != nil {
		t.Fatal(err)
	}
	asks := s.requests()
	if want := fmt.Sprintf("bytes=%d-%d", 3*cache.CellSize, mib-1); len(asks) != 2 || asks[1] != want {
		t.Errorf("asked for %q, want the second to be %s", asks, want)
	}
}

// Rows 9 and 13: a file that changed on its server, or has another size there, can be
// read as far as it came before.
func TestChanged(t *testing.T) {
	for name, change := range map[string]func(s *server){
		"another version": func(s *server) { s.etag.Store(`"two"`) },
		"another size":    func(s *server) { s.size += 10 },
		"gone": func(s *server) {
			s.setFault(func(_ int, w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(http.StatusNotFound)
				return true
			})
		},
		"precondition": func(s *server) {
			s.setFault(func(_ int, w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(http.StatusPreconditionFailed)
				return true
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, 20*mib)
			f, _ := testFile(t, s, Options{})
			d := f.Section(0, 20*mib)
			readRight(t, d, 0, 0, 4096)
			change(s)
			for range 2 {
				if _, err := d.ReadAt(make([]byte, 10), 10*mib); !errors.Is(err, tensorfs.ErrChanged) || !errors.Is(err, syscall.ESTALE) {
					t.Errorf("%v", err)
				}
			}
			readRight(t, d, 0, 0, 4096)
			n := len(s.requests())
			if _, err := d.ReadAt(make([]byte, 10), 15*mib); !errors.Is(err, tensorfs.ErrChanged) || len(s.requests()) > n {
				t.Errorf("%v, and it was asked again", err)
			}
		})
	}
}

// A reader that gives up does not end what others wait for.
func TestGivesUp(t *testing.T) {
	s := newServer(t, 4*mib)
	going := make(chan struct{})
	s.setFault(func(i int, w http.ResponseWriter, r *http.Request) bool {
		<-going
		return false
	})
	f, _ := testFile(t, s, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	d := f.Section(0, s.size)
	go func() {
		_, err := d.(tensorfs.ContextReaderAt).ReadAtContext(ctx, make([]byte, 10), 0)
		done <- err
	}()
	other := make(chan struct{})
	go func() {
		readRight(t, d, 0, 0, 10)
		close(other)
	}()
	testlimit.Wait(t, "request", func() bool { return len(s.requests()) > 0 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(going)
	<-other
}

// Row 7: two processes, here two clients, share a cache and fetch each cell once.
func TestShared(t *testing.T) {
	s := newServer(t, 30*mib)
	dir := t.TempDir() + "/cache"
	var wg sync.WaitGroup
	for range 2 {
		store, err := cache.Open(cache.Options{Dir: dir, Budget: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		f, _ := fileIn(t, store, s, Options{})
		wg.Go(func() {
			if err := f.Fetch(context.Background(), 0, s.size); err != nil {
				t.Error(err)
			}
			readRight(t, f, 0, 0, s.size)
		})
	}
	wg.Wait()
	if got := s.sent.Load(); got > s.size+s.size/20 {
		t.Errorf("%d bytes were sent of a file of %d", got, s.size)
	}
}

// Close ends everything.
func TestClose(t *testing.T) {
	s := newServer(t, 400*mib)
	f, _ := testFile(t, s, Options{})
	readRight(t, f.Section(0, s.size), 0, 0, 2*mib)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
