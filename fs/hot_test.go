package fs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// fakeStore is a hotStore without a kernel.
type fakeStore struct {
	t         *testing.T
	mu        sync.Mutex
	next      int32
	live      map[int32]*os.File
	createErr error
	refuse    error
	made      map[int]*os.File // by descriptor, the newest of each
}

func (s *fakeStore) create() (*os.File, error) {
	if s.createErr != nil {
		return nil, s.createErr
	}
	f, err := os.CreateTemp(s.t.TempDir(), "hot")
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.made[int(f.Fd())] = f
	}
	return f, err
}

func (s *fakeStore) register(fd int) (int32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return 0, s.refuse
	}
	s.next++
	s.live[s.next] = s.made[fd]
	return s.next, nil
}

func (s *fakeStore) unregister(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[id] == nil {
		s.t.Errorf("backing %d is unregistered twice", id)
	}
	delete(s.live, id)
}

func (s *fakeStore) close() {}

// content returns what the kernel would read.
func (s *fakeStore) content(id int32, size int64) ([]byte, error) {
	s.mu.Lock()
	f := s.live[id]
	s.mu.Unlock()
	if f == nil {
		return nil, errors.New("not registered")
	}
	b := make([]byte, size)
	_, err := f.ReadAt(b, 0)
	return b, err
}

func testHot(t *testing.T, budget int64) (*hotFiles, *fakeStore) {
	s := &fakeStore{t: t, live: make(map[int32]*os.File), made: make(map[int]*os.File)}
	return newHotFiles(budget, slog.New(slog.DiscardHandler), s), s
}

// pattern is Data of the model's bytes from an offset on.
type pattern struct{ off, n int64 }

func (p pattern) Size() int64 { return p.n }

func (p pattern) ReadAt(b []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(p.n, b, off)
	fill(b[:n], p.off+off)
	return n, eof
}

func TestHotOpen(t *testing.T) {
	h, s := testHot(t, 8<<20)
	d := pattern{3, 3<<20 + 17}
	backing, hot, err := h.open(5, d)
	if err != nil || !hot {
		t.Fatal(hot, err)
	}
	want := make([]byte, d.n)
	fill(want, d.off)
	if got, err := s.content(backing, d.n); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("wrong bytes, %v", err)
	}
	again, hot, err := h.open(5, d)
	if again != backing || !hot || err != nil {
		t.Errorf("the second open has backing %d, hot %v, %v", again, hot, err)
	}
	small, hot, err := h.open(6, pattern{0, minHot - 1})
	if small != 0 || hot || err != nil {
		t.Errorf("a small file is hot")
	}
	h.release(6)
	h.release(5)
	h.release(5)
	// Closed files stay, and the same backing serves the next open.
	if third, hot, _ := h.open(5, d); third != backing || !hot {
		t.Errorf("opened again: backing %d, hot %v", third, hot)
	}
}

func TestHotEviction(t *testing.T) {
	h, s := testHot(t, 6<<20) // three huge pages
	d := pattern{0, 2 << 20}
	open := func(id uint64, want bool) {
		t.Helper()
		if _, hot, err := h.open(id, d); hot != want || err != nil {
			t.Fatalf("file %d: hot %v, %v", id, hot, err)
		}
	}
	for id := uint64(1); id <= 3; id++ {
		open(id, true)
	}
	open(4, false) // all is open
	h.release(2)
	h.release(1)
	open(5, true)  // evicts 2, closed first
	open(4, false) // it is open as a plain file
	open(1, true)  // still there
	h.release(4)
	h.release(4)
	h.release(3)
	open(4, true) // evicts 3
	open(2, false)
	if len(s.live) != 3 || h.used != 6<<20 {
		t.Errorf("%d files registered, %d bytes used", len(s.live), h.used)
	}
	// A file that can never fit evicts nobody.
	h.release(1)
	if _, hot, _ := h.open(9, pattern{0, 7 << 20}); hot {
		t.Error("a file larger than the budget is hot")
	}
	if len(s.live) != 3 {
		t.Errorf("%d files registered", len(s.live))
	}
	st := h.status(func(id uint64) string { return fmt.Sprint(id) })
	if len(st.Files) != 3 || st.Used != 6<<20 || st.Files[0] != (HotFile{"1", 2 << 20, 0}) {
		t.Errorf("%+v", st)
	}
}

func TestHotFailures(t *testing.T) {
	h, s := testHot(t, 100<<20)
	if _, hot, err := h.open(1, broken{2 << 20, tensorfs.ErrChanged}); hot || !errors.Is(err, tensorfs.ErrChanged) {
		t.Errorf("a source that changed: hot %v, %v", hot, err)
	}
	s.createErr = syscall.ENOMEM
	d := pattern{0, 2 << 20}
	if _, hot, err := h.open(2, d); hot || err != nil {
		t.Errorf("no memory: hot %v, %v", hot, err)
	}
	s.createErr = nil
	if _, hot, _ := h.open(2, d); hot {
		t.Error("a file that is open as a plain one became hot")
	}
	h.release(2)
	h.release(2)
	if _, hot, _ := h.open(2, d); !hot {
		t.Error("closed, it does not become hot")
	}
	s.refuse = syscall.EPERM
	if _, hot, err := h.open(3, d); hot || err != nil {
		t.Errorf("refused: hot %v, %v", hot, err)
	}
	s.refuse = nil
	if _, hot, _ := h.open(4, d); hot {
		t.Error("it goes on trying after the kernel refused")
	}
	if h.used != 2<<20 {
		t.Errorf("%d bytes used", h.used)
	}
}

// slow is Data whose first read waits, and fails if told so.
type slow struct {
	pattern
	gate  chan struct{}
	err   error
	reads *atomic.Int64
}

func (s slow) ReadAt(b []byte, off int64) (int, error) {
	s.reads.Add(1)
	<-s.gate
	if s.err != nil {
		return 0, s.err
	}
	return s.pattern.ReadAt(b, off)
}

// TestHotTogether: opens at the same time share one filling and its outcome.
func TestHotTogether(t *testing.T) {
	for _, fail := range []error{nil, io.ErrUnexpectedEOF} {
		h, _ := testHot(t, 10<<20)
		d := slow{pattern{0, 2 << 20}, make(chan struct{}), fail, new(atomic.Int64)}
		var wg sync.WaitGroup
		var hots, errs atomic.Int64
		for range 5 {
			wg.Go(func() {
				_, hot, err := h.open(1, d)
				if hot {
					hots.Add(1)
				}
				if err != nil {
					errs.Add(1)
				}
			})
		}
		// A file that nobody fills is not kept waiting.
		if _, hot, err := h.open(2, pattern{0, 2 << 20}); !hot || err != nil {
			t.Errorf("another file: hot %v, %v", hot, err)
		}
		testlimit.Wait(t, "five opens", func() bool { return h.opensOf(1) == 5 })
		close(d.gate)
		wg.Wait()
		if fail == nil && (hots.Load() != 5 || d.reads.Load() != 8) { // in units
			t.Errorf("%d hot, %d reads", hots.Load(), d.reads.Load())
		}
		if fail != nil && errs.Load() != 5 {
			t.Errorf("%d errors", errs.Load())
		}
		if fail != nil && h.opensOf(1) != 0 {
			t.Error("something is left of a file that failed")
		}
	}
}

func (h *hotFiles) opensOf(id uint64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.files[id]; f != nil {
		return f.opens
	}
	return 0
}

// TestHotStorm opens and closes files at random and checks the invariants.
func TestHotStorm(t *testing.T) {
	h, s := testHot(t, 10<<20)
	var wg sync.WaitGroup
	var mu sync.Mutex
	kind := map[uint64]map[bool]int{} // opens of a file by hot
	for w := range uint64(4) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, w))
			var open []uint64
			var hots []bool
			for range 200 {
				if len(open) > 0 && r.IntN(2) == 0 {
					i := r.IntN(len(open))
					mu.Lock()
					kind[open[i]][hots[i]]--
					mu.Unlock()
					h.release(open[i])
					open = append(open[:i], open[i+1:]...)
					hots = append(hots[:i], hots[i+1:]...)
					continue
				}
				id := r.Uint64N(8) + 1
				_, hot, err := h.open(id, pattern{int64(id), minHot + int64(id)<<19})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if kind[id] == nil {
					kind[id] = map[bool]int{}
				}
				kind[id][hot]++
				if kind[id][!hot] > 0 {
					t.Errorf("file %d is open as hot and as plain", id)
				}
				mu.Unlock()
				open, hots = append(open, id), append(hots, hot)
			}
			for i, id := range open {
				mu.Lock()
				kind[id][hots[i]]--
				mu.Unlock()
				h.release(id)
			}
		})
	}
	wg.Wait()
	if h.used > h.budget || h.used != h.closed || len(h.plain) != 0 || h.lru.Len() != len(h.files) || len(s.live) != len(h.files) {
		t.Errorf("used %d, closed %d, plain %d, in the list %d, files %d, registered %d", h.used, h.closed, len(h.plain), h.lru.Len(), len(h.files), len(s.live))
	}
	h.close()
}
