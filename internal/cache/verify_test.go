package cache

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// digestsOf returns the digests of a file of a remote.
func digestsOf(key string, size int64) map[string]string {
	type file struct {
		key  string
		size int64
	}
	if known, ok := knownDigests.Load(file{key, size}); ok {
		return maps.Clone(known.(map[string]string))
	}
	p := make([]byte, size)
	content(key, p, 0)
	made := map[string]string{
		"sha256": fmt.Sprintf("sha256:%x", sha256.Sum256(p)),
		"git":    fmt.Sprintf("git:%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", size), p...))),
	}
	knownDigests.Store(file{key, size}, maps.Clone(made))
	return made
}

// knownDigests are the digests that were asked for: fuzzing asks for few files very often.
var knownDigests sync.Map

// TestVerify verifies files that came in different orders, on the disk and in
// memory.
func TestVerify(t *testing.T) {
	for _, size := range []int64{0, 1, 5*cell + 3, 8 * cell} {
		for kind, digest := range digestsOf("k", size) {
			for name, budget := range map[string]int64{"disk": 0, "memory": -1} {
				for order, ranges := range map[string][]Range{
					"front to back": {{0, size / 2}, {0, size}},
					"back to front": {{size / 2, size}, {0, size}},
				} {
					t.Run(fmt.Sprint(size, kind, name, order), func(t *testing.T) {
						s := openStore(t, t.TempDir(), budget)
						r := &remote{key: "k"}
						id := r.id(size)
						id.Digest = digest
						r.open(t, s, id)
						for _, x := range ranges {
							check(t, r.fetch(x.Off, x.N, 2*cell))
						}
						check(t, r.e.Verify(t.Context()))
						f, ok := r.e.Whole()
						if ok != (budget == 0) {
							t.Error("whole:", ok)
						}
						if ok {
							f.Close()
						}
						check(t, r.e.Close())
						if budget < 0 {
							return
						}
						r.open(t, s, id)
						defer r.e.Close()
						if f, ok := r.e.Whole(); !ok {
							t.Error("it is not whole when it is opened again")
						} else {
							f.Close()
						}
						check(t, r.e.Verify(t.Context()))
					})
				}
			}
		}
	}
}

// TestVerifyAlone verifies what came without being asked to: hashed while it came,
// or once it is complete, also by the next who opens it.
func TestVerifyAlone(t *testing.T) {
	const size = 6 * cell
	digest := digestsOf("k", size)["sha256"]
	for order, ranges := range map[string][]Range{
		"front to back": {{0, 2 * cell}, {2 * cell, cell}, {3 * cell, 3 * cell}},
		"two at once":   {{2 * cell, 2 * cell}, {0, 2 * cell}, {5 * cell, cell}, {4 * cell, cell}},
	} {
		r := &remote{key: "k"}
		id := r.id(size)
		id.Digest = digest
		r.open(t, openStore(t, t.TempDir(), 0), id)
		v := r.onDisk(t).verify
		local := int64(0)
		for _, x := range ranges {
			check(t, r.fetch(x.Off, x.N, size))
			if local == x.Off {
				local = x.Off + x.N
			}
			testlimit.Wait(t, "hash of "+order, func() bool { return v.pos.Load() >= local })
		}
		r.onDisk(t).late() // as time does
		testlimit.Wait(t, "whole file", func() bool {
			f, ok := r.e.Whole()
			if ok {
				f.Close()
			}
			return ok
		})
		check(t, r.e.Close())
	}
	// One whose process was killed before it verified.
	s := openStore(t, t.TempDir(), 0)
	r := openRemote(t, s, "k", size)
	check(t, r.read(0, size, size))
	check(t, r.onDisk(t).die())
	next := &remote{key: "k"}
	id := next.id(size)
	id.Digest = digest
	next.open(t, openStore(t, s.Dir(), 0), id)
	defer next.e.Close()
	testlimit.Wait(t, "whole file", func() bool { return next.onDisk(t).whole.Load() })
}

// TestMismatch removes bytes that do not match the digest, with one message.
func TestMismatch(t *testing.T) {
	const size = 3*cell + 1
	for name, end := range map[string]func(r *remote) error{
		"verify":     func(r *remote) error { return r.e.Verify(context.Background()) },
		"background": func(r *remote) error { r.e.disk.Load().late(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			log := &logs{}
			s, err := Open(Options{Dir: dir, Logger: log.logger()})
			check(t, err)
			defer s.Close()
			s.first = 0
			r := &remote{key: "k"}
			id := r.id(size)
			id.Digest = digestsOf("other", size)["sha256"]
			r.open(t, s, id)
			d := r.onDisk(t)
			check(t, r.fetch(0, size, cell))
			if err := end(r); err != nil && !errors.Is(err, tensorfs.ErrChanged) {
				t.Error(err)
			}
			testlimit.Wait(t, "mismatch", func() bool { return r.e.failed.Load() != nil })
			for range 2 {
				_, err := r.e.ReadAt(make([]byte, 1), 0)
				if !errors.Is(err, tensorfs.ErrChanged) || !strings.Contains(err.Error(), "test:k") || !strings.Contains(err.Error(), id.Digest) {
					t.Error("reading:", err)
				}
				if _, err := r.e.WriteAt(make([]byte, cell), 0); !errors.Is(err, tensorfs.ErrChanged) {
					t.Error("writing:", err)
				}
				if err := r.e.Verify(t.Context()); !errors.Is(err, tensorfs.ErrChanged) {
					t.Error("verifying:", err)
				}
			}
			if _, ok := r.e.Whole(); ok {
				t.Error("it is whole")
			}
			testlimit.Wait(t, "end of the entry", func() bool { _, err := os.Lstat(d.place()); return errors.Is(err, os.ErrNotExist) })
			check(t, r.e.Close())
			if lines := log.lines(); len(lines) != map[string]int{"background": 1}[name] { // who asks is told
				t.Error(lines)
			}
			r.open(t, s, id)
			if n, err := r.local(); n != 0 || err != nil {
				t.Error("the next finds bytes:", n, err)
			}
			check(t, r.e.Close())
		})
	}
}

// TestVerifyFlipped reads a whole file again when it is opened and verified: what its
// disk changed is absent, and fetched again.
func TestVerifyFlipped(t *testing.T) {
	const size = 3 * cell
	for _, digest := range []string{"", digestsOf("k", size)["git"]} {
		s := openStore(t, t.TempDir(), 0)
		r := &remote{key: "k"}
		id := r.id(size)
		id.Digest = digest
		r.open(t, s, id)
		check(t, r.read(0, size, cell))
		check(t, r.e.Verify(t.Context()))
		_, err := r.onDisk(t).data.WriteAt([]byte{0}, cell+9)
		check(t, err)
		check(t, r.e.Close())
		r.open(t, s, id)
		if err := r.e.Verify(t.Context()); !errors.Is(err, ErrAbsent) {
			t.Error(err)
		}
		if got := r.e.Missing(0, size); len(got) != 1 || got[0] != (Range{cell, cell}) {
			t.Error(got)
		}
		check(t, r.read(0, size, cell))
		check(t, r.e.Verify(t.Context()))
		if !r.isWhole(t) {
			t.Error("it is not whole again")
		}
		check(t, r.e.Close())
	}
}

// TestVerifyDropped hashes cells again that were lost and stored again after they were
// hashed.
func TestVerifyDropped(t *testing.T) {
	const size = 4 * cell
	s := openStore(t, t.TempDir(), 1<<30)
	r := &remote{key: "k"}
	id := r.id(size)
	id.Digest = digestsOf("k", size)["sha256"]
	r.open(t, s, id)
	defer r.e.Close()
	check(t, r.fetch(0, 3*cell, cell))
	d := r.onDisk(t)
	testlimit.Wait(t, "hash", func() bool { return d.verify.pos.Load() == 3*cell })
	check(t, d.drop(0, d.sum(t, 0)))
	wrong := make([]byte, cell)
	_, err := r.e.WriteAt(wrong, 0) // not what was hashed
	check(t, err)
	check(t, r.fetch(0, size, cell))
	if err := r.e.Verify(t.Context()); !errors.Is(err, tensorfs.ErrChanged) {
		t.Error("bytes that were never hashed are verified:", err)
	}
}

// TestVerifyEnds ends with its context.
func TestVerifyEnds(t *testing.T) {
	const size = 4 * cell
	for _, budget := range []int64{0, -1} {
		r := &remote{key: "k"}
		id := r.id(size)
		id.Digest = digestsOf("k", size)["sha256"]
		r.open(t, openStore(t, t.TempDir(), budget), id)
		check(t, r.fetch(cell, size, size))
		check(t, r.fetch(0, cell, size))
		if budget == 0 {
			check(t, r.onDisk(t).verify.take(t.Context()))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.e.Verify(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if budget == 0 {
			r.onDisk(t).verify.give()
		}
		check(t, r.e.Verify(t.Context()))
		check(t, r.e.Close())
	}
}
