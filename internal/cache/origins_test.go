package cache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// stated is the file of a server that sends the content of r and states the digest of
// "good".
func (r *remote) stated(server string, size int64) ID {
	digest := digestsOf("good", size)["sha256"]
	return ID{Key: digest, Digest: digest, Server: server, Size: size, Source: "test:" + server}
}

// isWhole reports whether an entry is whole, looking now.
func (r *remote) isWhole(t testing.TB) bool {
	t.Helper()
	if d := r.e.disk.Load(); d != nil {
		d.looked.Store(0)
	}
	f, ok := r.e.Whole()
	if ok {
		f.Close()
	}
	return ok
}

// entryDirs returns how many entries are on the disk.
func entryDirs(s *Store) int { return len(s.items()) }

// TestServers keeps apart what servers send that state one digest, until it is known
// to have that digest.
func TestServers(t *testing.T) {
	const size = 5*cell + 7
	for name, same := range map[string]bool{"one process": true, "two processes": false} {
		for disk, budget := range map[string]int64{"disk": 0, "memory": -1} {
			t.Run(name+" "+disk, func(t *testing.T) {
				dir := t.TempDir()
				s := openStore(t, dir, budget)
				other := s
				if !same {
					other = openStore(t, dir, budget)
				}
				good, bad := &remote{key: "good"}, &remote{key: "bad"}
				bad.open(t, other, bad.stated("https://bad", size))
				check(t, bad.read(0, size-cell, cell))
				good.open(t, s, good.stated("https://good", size))
				if n, err := good.local(); n != 0 || err != nil {
					t.Errorf("of another server: %d bytes, %v", n, err)
				}
				// Neither waits for the other.
				release, err := bad.e.Claim(t.Context(), Range{0, size})
				check(t, err)
				testlimit.Return("a read beside another's claim", func() { check(t, good.read(0, 2*cell, cell)) })
				release()
				check(t, bad.read(size-cell, cell, cell))
				if err := bad.e.Verify(t.Context()); !errors.Is(err, tensorfs.ErrChanged) {
					t.Errorf("the wrong bytes: %v", err)
				}
				if n, err := good.local(); n != 2*cell || err != nil {
					t.Errorf("after another's mismatch: %d bytes, %v", n, err)
				}
				check(t, bad.e.Close())
				check(t, good.read(0, size, cell))
				check(t, good.e.Verify(t.Context()))
				if budget < 0 {
					check(t, good.e.Close())
					return
				}
				if !good.isWhole(t) {
					t.Error("it is not whole")
				}
				// What is verified is everybody's, while it is open and later.
				for range 2 {
					third := &remote{key: "good"}
					third.open(t, other, third.stated("https://third", size))
					if n, err := third.local(); n != size || err != nil || !third.isWhole(t) {
						t.Errorf("%d bytes of what is whole, %v", n, err)
					}
					check(t, third.e.Close())
					if good.e != nil {
						check(t, good.e.Close())
						good.e = nil
					}
				}
				if n := entryDirs(s); n != 1 {
					t.Errorf("%d entries", n)
				}
			})
		}
	}
}

// TestShared shares an entry that becomes whole while others have it open, or that
// was not shared when its process ended.
func TestShared(t *testing.T) {
	const size = 3 * cell
	dir := t.TempDir()
	s, other := openStore(t, dir, 0), openStore(t, dir, 0)
	a, b, c := &remote{key: "good"}, &remote{key: "good"}, &remote{key: "good"}
	a.open(t, s, a.stated("https://a", size))
	b.open(t, other, b.stated("https://a", size)) // as a mount that runs
	c.open(t, other, c.stated("https://c", size))
	check(t, a.read(0, cell, cell))
	check(t, c.read(0, cell, cell))
	check(t, a.read(0, size, cell))
	check(t, a.e.Verify(t.Context()))
	_, shared := s.dirs(&a.e.id)
	if d := b.onDisk(t); d.place() != shared || !b.isWhole(t) {
		t.Errorf("it is at %s, and was shared as %s", d.place(), shared)
	}
	if n, err := b.local(); n != size || b.fetched != 0 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	// Another server's goes on as it is, and is not needed any more once it is closed.
	check(t, c.read(0, size, cell))
	check(t, c.e.Verify(t.Context()))
	if !c.isWhole(t) || c.onDisk(t).place() == shared || entryDirs(s) != 2 {
		t.Error(c.onDisk(t).place(), entryDirs(s))
	}
	for _, r := range []*remote{a, b, c} {
		check(t, r.e.Close())
	}
	c.open(t, other, c.stated("https://c", size))
	if d := c.onDisk(t); d.place() != shared || !d.whole.Load() {
		t.Errorf("it opens %s", d.place())
	}
	own, _ := other.dirs(&c.e.id)
	check(t, c.e.Close())
	// One that was whole when its process ended, and one that was not even that.
	check(t, os.RemoveAll(shared))
	c.open(t, other, c.stated("https://c", size))
	if d := c.onDisk(t); d.isAt(own) || d.place() != shared || !c.isWhole(t) {
		t.Errorf("it is at %s", d.place())
	}
	check(t, c.e.Forget())
	check(t, c.e.Close())
	if n := entryDirs(s); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// TestUntrusted never uses an incomplete entry that is known only by its digest: a program that did
// not distinguish servers made it, or the record of servers was lost.
func TestUntrusted(t *testing.T) {
	const size = 3 * cell
	for name, tamper := range map[string]func(dir string) error{
		"not whole":              func(string) error { return nil },
		"whole without a digest": func(dir string) error { return os.WriteFile(filepath.Join(dir, wholeName), []byte("\n"), 0o600) },
		"whole and lacking cells": func(dir string) error {
			digest := digestsOf("good", size)["sha256"]
			return errors.Join(os.WriteFile(filepath.Join(dir, wholeName), []byte(digest+"\n"), 0o600),
				zero(filepath.Join(dir, stateName), headerSize+4, 4))
		},
		"whole is a FIFO": func(dir string) error { return unix.Mkfifo(filepath.Join(dir, wholeName), 0o600) },
		"another key": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, metaName), []byte(`{"version":1,"key":"x","size":1}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, t.TempDir(), 0)
			old := &remote{key: "bad"}
			old.open(t, s, old.stated("https://old", size))
			check(t, old.read(0, size, cell))
			own, shared := s.dirs(&old.e.id)
			check(t, old.onDisk(t).die())
			check(t, errors.Join(os.MkdirAll(filepath.Dir(shared), 0o700), os.Rename(own, shared), tamper(shared)))
			r := &remote{key: "good"}
			testlimit.Return("opening", func() { r.open(t, openStore(t, s.Dir(), 0), r.stated("https://a", size)) })
			if n, err := r.local(); n != 0 || err != nil {
				t.Errorf("%d bytes are trusted, %v", n, err)
			}
			check(t, r.read(0, size, cell))
			check(t, r.e.Verify(t.Context()))
			if d := r.onDisk(t); d.place() != shared || !r.isWhole(t) {
				t.Errorf("it is at %s and not at %s", d.place(), shared)
			}
			check(t, r.e.Close())
			if n := entryDirs(s); n != 1 {
				t.Errorf("%d entries", n)
			}
		})
	}
	// One that such a program has open stays there.
	s := openStore(t, t.TempDir(), 0)
	old := &remote{key: "bad"}
	old.open(t, s, old.stated("https://old", size))
	own, shared := s.dirs(&old.e.id)
	check(t, errors.Join(os.MkdirAll(filepath.Dir(shared), 0o700), os.Rename(own, shared)))
	r := &remote{key: "good"}
	r.open(t, openStore(t, s.Dir(), 0), r.stated("https://a", size))
	check(t, r.read(0, size, cell))
	check(t, r.e.Verify(t.Context()))
	if d := r.onDisk(t); d.place() == shared || !r.isWhole(t) {
		t.Errorf("it is at %s", d.place())
	}
	check(t, r.e.Close())
	check(t, old.e.Close())
}

func zero(path string, at, n int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, n), at)
	return errors.Join(err, f.Close())
}

// TestKeyIsDigest refuses a file that is known by its digest if no server states the digest.
func TestKeyIsDigest(t *testing.T) {
	s := openStore(t, t.TempDir(), 0)
	if _, err := s.Entry((&remote{}).stated("", 1)); err == nil {
		t.Error("it is opened")
	}
}

// TestVerifiedFirst takes nothing of a small file but all of it, and that only if it is
// right.
func TestVerifiedFirst(t *testing.T) {
	const size = 3*cell + 5
	for name, budget := range map[string]int64{"disk": 0, "memory": -1} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, t.TempDir(), budget)
			s.first = size
			r := &remote{key: "good"}
			id := r.stated("https://a", size)
			right, wrong := make([]byte, size), make([]byte, size)
			content("good", right, 0)
			copy(wrong, right)
			wrong[size-1] ^= 1
			r.open(t, s, id)
			if !r.e.VerifiedFirst() {
				t.Fatal("it is not")
			}
			if _, err := r.e.WriteAt(right[:cell], 0); err == nil || len(r.e.Missing(0, size)) == 0 {
				t.Errorf("a part is taken: %v", err)
			}
			if _, err := r.e.WriteAt(wrong, 0); !errors.Is(err, tensorfs.ErrChanged) {
				t.Errorf("the wrong bytes: %v", err)
			}
			if n, err := r.e.ReadAt(make([]byte, 1), 0); n != 0 || !errors.Is(err, tensorfs.ErrChanged) {
				t.Errorf("%d bytes are read, %v", n, err)
			}
			check(t, r.e.Close())
			r.open(t, s, id)
			if got := r.e.Missing(cell, 1); len(got) != 1 || got[0] != (Range{0, size}) {
				t.Errorf("missing: %v", got)
			}
			if _, err := r.e.WriteAt(right, 0); err != nil {
				t.Error(err)
			}
			if n, err := r.local(); n != size || err != nil || !r.e.Verified() {
				t.Errorf("%d bytes, %v", n, err)
			}
			if stored := r.e.Stored(1, size-2); stored != map[int64]int64{0: size - 2}[budget] {
				t.Errorf("%d bytes are on the disk", stored)
			}
			check(t, r.e.Close())
			if budget < 0 {
				return
			}
			r.open(t, s, id)
			if !r.isWhole(t) {
				t.Error("it is not whole when it is opened again")
			}
			check(t, r.e.Close())
		})
	}
}

// FuzzServers has several servers that state one digest, but one server sends wrong bytes, and
// processes that come and go. No process reads a byte of another server before the digest is
// checked.
//
// Two bytes are a step: which process and server, and what it does where.
func FuzzServers(f *testing.F) {
	const size = 3*cell + 9
	const servers, processes = 3, 2 // of servers the last lies
	f.Add([]byte{0, 1, 2, 1, 0, 2, 2, 2, 2, 8, 0, 8, 2, 4, 0, 4})
	f.Add([]byte{0, 1, 5, 1, 0, 9, 0, 17, 0, 25, 0, 4, 2, 1, 2, 33, 1, 1, 4, 1})
	f.Add([]byte{2, 1, 2, 9, 2, 17, 2, 25, 2, 4, 2, 6, 0, 1, 2, 7, 3, 1})
	f.Add(bytes.Repeat([]byte{0, 1, 0, 9, 0, 17, 0, 25, 0, 5, 5, 1, 5, 3, 5, 6}, 2))
	sent := map[string][]byte{"good": make([]byte, size), "bad": make([]byte, size)}
	for key, p := range sent {
		content(key, p, 0)
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		dir := t.TempDir()
		var stores [processes]*Store
		var open [processes][servers]*remote
		defer func() {
			for p := range open {
				for _, r := range open[p] {
					if r != nil {
						check(t, r.e.Close())
					}
				}
			}
		}()
		for len(steps) >= 2 && len(steps) <= 200 {
			p, n := int(steps[0])/servers%processes, int(steps[0])%servers
			what, i := steps[1]%8, int64(steps[1]/8)%4
			steps = steps[2:]
			if stores[p] == nil {
				stores[p] = openStore(t, dir, 0)
			}
			r := open[p][n]
			if r == nil {
				r = &remote{key: "good"}
				if n == servers-1 {
					r.key = "bad"
				}
				r.open(t, stores[p], r.stated(fmt.Sprintf("https://server%d", n), size))
				open[p][n] = r
			}
			switch what {
			case 0, 1, 2: // a cell comes
				for _, m := range r.e.Missing(i*cell, 1) {
					if _, err := r.e.WriteAt(sent[r.key][m.Off:m.Off+m.N], m.Off); err != nil && !errors.Is(err, tensorfs.ErrChanged) {
						t.Fatal(err)
					}
				}
			case 3:
				r.e.disk.Load().settleNow()
			case 4:
				if err := r.e.Verify(t.Context()); err != nil && !errors.Is(err, tensorfs.ErrChanged) && !errors.Is(err, ErrAbsent) {
					t.Fatal(err)
				}
			case 5:
				check(t, r.e.Close())
				open[p][n] = nil
				continue
			case 6:
				_, err := stores[p].Prune(PruneOptions{Size: i * cell})
				check(t, err)
			case 7: // the process is killed
				for k, r := range open[p] {
					if r == nil {
						continue
					}
					if d := r.e.opened; d != nil {
						check(t, d.die())
					}
					open[p][k] = nil
				}
				stores[p] = nil
				continue
			}
			if b := make([]byte, min(cell, size-i*cell)); r.readsWrong(b, i*cell, sent) {
				t.Fatalf("server %d of process %d: wrong bytes of cell %d", n, p, i)
			}
		}
	})
}

// settleNow makes the entry whole if it is complete, as time does.
func (d *disk) settleNow() {
	if d != nil {
		d.finishIfComplete(true)
	}
}

// readsWrong reads a cell and reports whether it has bytes of another server that are
// not right.
func (r *remote) readsWrong(p []byte, off int64, sent map[string][]byte) bool {
	if _, err := r.e.ReadAt(p, off); err != nil {
		return false
	}
	ours := bytes.Equal(p, sent[r.key][off:off+int64(len(p))])
	return !ours && !bytes.Equal(p, sent["good"][off:off+int64(len(p))])
}
