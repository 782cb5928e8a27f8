package fs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// stored is Data with a descriptor.
type stored struct {
	tensorfs.Bytes
	fd int
}

func (s stored) Descriptor() int { return s.fd }

// fakeKernel notes which descriptors are registered.
type fakeKernel struct {
	next   int32
	live   map[int32]int
	refuse error
}

func (k *fakeKernel) register(fd int) (int32, error) {
	if k.refuse != nil {
		return 0, k.refuse
	}
	k.next++
	k.live[k.next] = fd
	return k.next, nil
}

func (k *fakeKernel) unregister(id int32) {
	if _, ok := k.live[id]; !ok {
		panic(fmt.Sprintf("backing %d is unregistered twice", id))
	}
	delete(k.live, id)
}

// TestStoredFiles holds that a file has one backing as long as it is open, and
// that after a refusal nothing is passed through any more.
func TestStoredFiles(t *testing.T) {
	k := &fakeKernel{live: map[int32]int{}}
	s := &storedFiles{log: slog.New(slog.NewTextHandler(io.Discard, nil)), kernel: k, open: map[uint64]*openStored{}}
	if _, passed := s.opened(1, tensorfs.Bytes("text")); passed || s.released(1) {
		t.Error("a text was passed through")
	}
	a, b := stored{fd: 7}, stored{fd: 8}
	var ids []int32
	for range 3 {
		id, passed := s.opened(2, a)
		if !passed {
			t.Fatal("a file was not passed through")
		}
		ids = append(ids, id)
	}
	if len(slices.Compact(ids)) != 1 || k.live[ids[0]] != 7 {
		t.Errorf("backings %v, %v", ids, k.live)
	}
	k.refuse = errors.New("too deep")
	if _, passed := s.opened(3, b); passed || s.released(3) {
		t.Error("a refused file was passed through")
	}
	k.refuse = nil
	if _, passed := s.opened(3, b); passed {
		t.Error("a file was passed through after one was refused: another open of it may be plain")
	}
	if id, passed := s.opened(2, a); !passed || id != ids[0] {
		t.Error("an open file is no longer passed through")
	}
	for i := range 4 {
		if !s.released(2) || len(k.live) != btoi(i < 3) {
			t.Errorf("release %d: %v", i, k.live)
		}
	}
	var none *storedFiles
	if _, passed := none.opened(2, a); passed || none.released(2) {
		t.Error("passed through where that is not possible")
	}
}

func TestStoredFilesAtOnce(t *testing.T) {
	k := &fakeKernel{live: map[int32]int{}}
	s := &storedFiles{log: slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)), kernel: k, open: map[uint64]*openStored{}}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for range 200 {
				if _, passed := s.opened(uint64(i%2), stored{fd: i % 2}); !passed || !s.released(uint64(i%2)) {
					t.Error("not passed through, or not released")
				}
			}
		})
	}
	wait.Wait()
	if len(k.live) != 0 || len(s.open) != 0 {
		t.Errorf("%v, %v are left", k.live, s.open)
	}
}
