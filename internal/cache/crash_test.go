package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// sum returns the checksum of a cell in the state of an entry.
func (d *disk) sum(t testing.TB, i int64) uint32 {
	t.Helper()
	var list [1]uint32
	check(t, d.sums(list[:], i))
	return list[0]
}

// TestOtherBoot (row 23) opens a copy of a cache as a power failure may leave it: the state lists
// cells that never reached the disk.
func TestOtherBoot(t *testing.T) {
	dir := t.TempDir()
	const size = 6*cell + 1
	s := openStore(t, dir, 0)
	r := openRemote(t, s, "k", size)
	defer r.e.Close()
	d := r.onDisk(t)
	check(t, r.read(0, 3*cell, cell))
	check(t, r.read(4*cell, 2*cell+1, cell))
	clone := filepath.Join(t.TempDir(), "copy")
	check(t, os.CopyFS(clone, os.DirFS(dir)))
	check(t, os.Chmod(clone, 0o700))
	lost := filepath.Join(clone, version, strings.TrimPrefix(d.place(), s.root), dataName)
	f, err := os.OpenFile(lost, os.O_WRONLY, 0)
	check(t, err)
	_, err = f.WriteAt(make([]byte, 3*cell-100), 2*cell+100) // what the disk never got
	check(t, errors.Join(err, f.Close()))

	other := openStore(t, clone, 0)
	c := openRemote(t, other, "k", size)
	if n, err := c.local(); n != 3*cell+1 || err != nil {
		t.Errorf("%d bytes are local, %v", n, err)
	}
	if got := c.e.Missing(0, size); len(got) != 1 || got[0] != (Range{2 * cell, 3 * cell}) {
		t.Error("missing:", got)
	}
	check(t, c.read(0, size, cell))
	if want := int64(3 * cell); c.fetched != want {
		t.Errorf("%d bytes were fetched again, want %d", c.fetched, want)
	}
	check(t, c.e.Close())
	c = openRemote(t, other, "k", size)
	if n, err := c.local(); n != size || err != nil {
		t.Errorf("closed, it was not kept: %d, %v", n, err)
	}
	check(t, c.e.Close())
}

// TestSameBoot keeps the cells that a killed process stored.
func TestSameBoot(t *testing.T) {
	dir := t.TempDir()
	r := openRemote(t, openStore(t, dir, 0), "k", 3*cell)
	check(t, r.read(0, 2*cell, cell))
	check(t, r.onDisk(t).die())
	again := openRemote(t, openStore(t, dir, 0), "k", 3*cell)
	defer again.e.Close()
	if n, err := again.local(); n != 2*cell || err != nil {
		t.Error(n, err)
	}
}

// TestOldFormat starts over with an entry of an earlier version of the program, complete or not,
// and returns none of its bytes.
func TestOldFormat(t *testing.T) {
	const size = 3 * cell
	for _, whole := range []bool{false, true} {
		s := openStore(t, t.TempDir(), 0)
		r := openRemote(t, s, "k", size)
		check(t, r.read(0, size, size))
		dir := r.onDisk(t).place()
		check(t, r.e.Close())
		old := stateHeader(size)
		copy(old, "tfscell1")
		old = append(old, 0x82, 0x82, 0x82, 0)
		check(t, os.WriteFile(filepath.Join(dir, stateName), old, 0o600))
		if !whole {
			check(t, os.Remove(filepath.Join(dir, wholeName)))
		}
		if list, err := s.List(); len(list) != 0 || err != nil {
			t.Error(list, err)
		}
		r = openRemote(t, s, "k", size)
		if n, err := r.local(); n != 0 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		check(t, r.read(0, size, cell))
		check(t, r.e.Close())
		if list, err := s.List(); len(list) != 1 || !list[0].Whole || err != nil {
			t.Error(list, err)
		}
	}
}

// TestFlippedBits flips a bit in each of many cells: of an entry that is partial, of one
// that is whole, and of one that another process has open and mapped. No wrong byte is
// read, only those cells are absent, and they are fetched again.
func TestFlippedBits(t *testing.T) {
	const cells, flips = 160, 100
	const size = cells*cell + 77
	random := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct {
		name                  string
		whole, digest, others bool
	}{{name: "partial"}, {name: "partial of a digest", digest: true}, {name: "whole", whole: true}, {name: "verified", whole: true, digest: true},
		{name: "mapped by another", whole: true, digest: true, others: true}} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			s := openStore(t, dir, 0)
			r := &remote{key: "k"}
			id := r.id(size)
			if test.digest {
				digest := digestsOf("k", size)["sha256"]
				id.Key, id.Digest, id.Server = digest, digest, "https://a"
			}
			r.open(t, s, id)
			last := int64(cells * cell)
			if test.whole {
				last = size
			}
			check(t, r.fetch(0, last, mib))
			if test.whole {
				check(t, r.e.Verify(t.Context()))
			}
			path := filepath.Join(r.onDisk(t).place(), dataName)
			check(t, r.e.Close())
			var other *remote
			if test.others {
				other = (&remote{key: "k"}).open(t, openStore(t, dir, 0), id)
				defer other.e.Close()
			}
			data, err := os.ReadFile(path)
			check(t, err)
			flipped := map[int64]bool{}
			for len(flipped) < flips {
				at := random.Int64N(last)
				if !flipped[at/cell] {
					flipped[at/cell] = true
					data[at] ^= 1 << random.IntN(8)
				}
			}
			check(t, os.WriteFile(path, data, 0o600))
			r.fetched = 0
			r.open(t, s, id)
			if r.isWhole(t) != test.whole || r.e.Proven(0, size) {
				t.Error("whole, or proven, from the beginning")
			}
			if n, err := r.local(); err != nil || n > last-flips*cell+cell || n < last-flips*cell {
				t.Errorf("%d bytes are right of %d, %v", n, last, err)
			}
			p := make([]byte, 3*cell)
			for range 1000 {
				off := random.Int64N(last)
				if n, err := r.e.ReadAt(p[:min(1+random.Int64N(3*cell), last-off)], off); err == nil || n > 0 {
					check(t, r.compare(p[:n], off))
				}
			}
			check(t, r.read(0, last, mib))
			if most := int64(flips * cell); r.fetched > most || r.fetched < most-cell {
				t.Errorf("%d bytes were fetched again", r.fetched)
			}
			if other != nil {
				if n, err := other.local(); err != nil || n > last-flips*cell+cell {
					t.Errorf("%d bytes of another, %v", n, err)
				}
			} else if test.whole {
				check(t, r.e.Verify(t.Context()))
				if !r.isWhole(t) {
					t.Error("it does not become whole again")
				}
			}
			check(t, r.e.Close())
		})
	}
}

// TestKilled (row 23) kills processes that fill and read entries, three at a time, and
// compares everything that they say is local. In between the cache is pruned, also while
// they run. TENSORFS_TEST_CACHE_KILLS is how often, 21 by default.
func TestKilled(t *testing.T) {
	const processes = 3
	kills := 21
	if n, err := strconv.Atoi(os.Getenv("TENSORFS_TEST_CACHE_KILLS")); err == nil {
		kills = n
	}
	dir := t.TempDir()
	const size = 64*cell + 17
	keys := []string{"a", "b"}
	found, pruned := int64(0), 0
	for i := range kills / processes {
		budget := int64(1 << 30)
		if i%2 == 1 {
			budget = 4 << 20 // it sweeps all the time
		}
		s := openStore(t, dir, 1<<30)
		prune := func() {
			swept, err := s.Prune(PruneOptions{})
			check(t, err)
			pruned += swept.Entries
		}
		var list [processes]*filler
		for k := range list {
			list[k] = startFiller(t, fillerSpec{Dir: dir, Budget: budget, Keys: keys, Size: size, Seed: uint64(i*processes + k),
				Most: 4 * cell, Reads: 10, Rounds: 1 << 30, Close: i%3 == 0, Say: true})
		}
		for k, f := range list {
			testlimit.Return("reads", func() {
				if !f.after(5 + (i+k)*7%40) {
					t.Errorf("a filler failed: %s %s", f.out.Text(), &f.errs)
				}
			})
			f.kill()
			if i%4 == 3 {
				prune()
			}
		}
		for _, key := range keys {
			r := openRemote(t, s, key, size)
			n, err := r.local()
			check(t, err)
			found += n
			check(t, r.e.Close())
		}
		if i%5 == 4 {
			prune()
		}
		check(t, s.Close())
	}
	if found == 0 {
		t.Error("nothing was ever local")
	}
	t.Logf("%d kills, %d MiB compared, %d entries pruned", kills, found>>20, pruned)
}

// TestHostile opens entries whose files were tampered with. An unusable entry is started over;
// nothing is read beyond its bytes.
func TestHostile(t *testing.T) {
	const size = 5*cell + 1
	write := func(name string, text []byte, at int64) func(string) error {
		return func(dir string) error {
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(text, at)
			return errors.Join(err, f.Close())
		}
	}
	truncate := func(name string, n int64) func(string) error {
		return func(dir string) error { return os.Truncate(filepath.Join(dir, name), n) }
	}
	replace := func(name string, make func(path string) error) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			return errors.Join(os.RemoveAll(path), make(path))
		}
	}
	remove := func(name string) func(string) error {
		return replace(name, func(string) error { return nil })
	}
	fifo := func(path string) error { return unix.Mkfifo(path, 0o600) }
	link := func(path string) error { return os.Symlink("/etc/passwd", path) }
	dir := func(path string) error { return os.Mkdir(path, 0o700) }
	text := func(s string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(s), 0o600) }
	}
	for name, tamper := range map[string]func(dir string) error{
		"state empty":         truncate(stateName, 0),
		"state cut":           truncate(stateName, stateSize(size)-1),
		"state long":          truncate(stateName, stateSize(size)+1),
		"state huge":          truncate(stateName, 1<<40),
		"state of a page":     truncate(stateName, 4096),
		"state gone":          remove(stateName),
		"state fifo":          replace(stateName, fifo),
		"state link":          replace(stateName, link),
		"state directory":     replace(stateName, dir),
		"magic":               write(stateName, []byte("x"), 0),
		"cell size":           write(stateName, []byte{1}, 8),
		"size in state":       write(stateName, binary.LittleEndian.AppendUint64(nil, size+1), 16),
		"size in state huge":  write(stateName, bytes.Repeat([]byte{255}, 8), 16),
		"data cut":            truncate(dataName, size-1),
		"data empty":          truncate(dataName, 0),
		"data long":           truncate(dataName, size+1),
		"data gone":           remove(dataName),
		"data fifo":           replace(dataName, fifo),
		"data link":           replace(dataName, link),
		"meta empty":          truncate(metaName, 0),
		"meta garbage":        replace(metaName, text("\x00\xff{")),
		"meta null":           replace(metaName, text("null")),
		"meta deep":           replace(metaName, text(strings.Repeat("[", 1<<20))),
		"meta of another":     replace(metaName, text(`{"version":1,"key":"other","size":1}`)),
		"meta of other size":  replace(metaName, text(`{"version":1,"key":"k","size":1}`)),
		"meta of version 2":   replace(metaName, text(fmt.Sprintf(`{"version":2,"key":"k","size":%d}`, size))),
		"meta negative":       replace(metaName, text(`{"version":1,"key":"k","size":-1}`)),
		"meta gone":           remove(metaName),
		"meta fifo":           replace(metaName, fifo),
		"a file of that name": func(dir string) error { return errors.Join(os.RemoveAll(dir), text("x")(dir)) },
		"a link of that name": func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Symlink("/nowhere", dir)) },
		"no directory":        os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, t.TempDir(), 0)
			r := openRemote(t, s, "k", size)
			check(t, r.read(0, size, size))
			d := r.onDisk(t)
			check(t, r.e.Close())
			check(t, tamper(d.place()))
			list, err := s.List()
			if len(list) > 1 || err != nil {
				t.Error(list, err)
			}
			testlimit.Return("opening", func() { r = openRemote(t, s, "k", size) })
			r.onDisk(t) // started over on the disk
			if n, err := r.local(); n != 0 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			check(t, r.read(0, size, cell))
			check(t, r.e.Close())
			r = openRemote(t, s, "k", size)
			if n, err := r.local(); n != size || err != nil {
				t.Errorf("not kept afterwards: %d bytes, %v", n, err)
			}
			check(t, r.e.Close())
		})
	}
	// These are sound files: what they say is believed, and no more than that.
	for name, test := range map[string]struct {
		tamper func(dir string) error
		want   int64
	}{
		"no cells":        {write(stateName, make([]byte, 24), headerSize), 0},
		"other sums":      {write(stateName, bytes.Repeat([]byte{0xfd}, 24), headerSize), 0},
		"another sum":     {write(stateName, []byte{1, 2, 3, 4}, headerSize), size - cell},
		"times dropped":   {write(stateName, bytes.Repeat([]byte{255}, 4), droppedAt), size},
		"whole":           {replace(wholeName, text("sha256:x\n")), size},
		"whole directory": {replace(wholeName, dir), size},
		"whole fifo":      {replace(wholeName, fifo), size},
		"whole link":      {replace(wholeName, link), size},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, t.TempDir(), 0)
			r := openRemote(t, s, "k", size)
			check(t, r.read(0, size, size))
			d := r.onDisk(t)
			check(t, r.e.Close())
			check(t, test.tamper(d.place()))
			testlimit.Return("opening", func() { r = openRemote(t, s, "k", size) })
			if n, err := r.local(); n != test.want || err != nil {
				t.Errorf("%d bytes, want %d, %v", n, test.want, err)
			}
			check(t, r.read(0, size, cell))
			check(t, r.e.Verify(t.Context()))
			if !r.onDisk(t).whole.Load() {
				t.Error("it does not become whole")
			}
			check(t, r.e.Close())
		})
	}
}

// TestCutWhileOpen truncates the files of an entry in use: no signal ends the program, no wrong
// byte is read, and the next open starts over.
func TestCutWhileOpen(t *testing.T) {
	const size = 40000*cell + 5 // a state of several pages
	for _, name := range []string{stateName, dataName} {
		t.Run(name, func(t *testing.T) {
			log := &logs{}
			s, err := Open(Options{Dir: t.TempDir(), Logger: log.logger()})
			check(t, err)
			defer s.Close()
			r := openRemote(t, s, "k", size)
			last := int64(39998 * cell)
			check(t, r.read(0, 2*cell, cell))
			check(t, r.read(last, 2*cell, cell))
			d := r.onDisk(t)
			check(t, os.Truncate(filepath.Join(d.place(), name), cell))
			if name == stateName {
				check(t, os.Truncate(filepath.Join(d.place(), name), 100))
			}
			check(t, r.read(last, 2*cell, cell))
			check(t, r.read(cell, 4*cell, cell))
			if n := len(log.lines()); n != 1 {
				t.Errorf("logged %d lines: %s", n, log.lines())
			}
			_ = r.e.Verify(t.Context()) // it lacks nearly all, and must return
			check(t, r.e.Close())
			r = openRemote(t, s, "k", size)
			if n := len(r.e.Missing(0, size)); n != 1 {
				t.Errorf("%d ranges are missing from the next", n)
			}
			r.onDisk(t)
			check(t, r.e.Close())
		})
	}
	// Each operation on a cut state returns.
	for name, use := range map[string]func(r *remote) error{
		"missing": func(r *remote) error { r.e.Missing(0, size); return nil },
		"write":   func(r *remote) error { _, err := r.e.WriteAt(make([]byte, cell), 39990*cell); return err },
		"whole":   func(r *remote) error { r.e.Whole(); return nil },
		"forget":  func(r *remote) error { _ = r.e.Forget(); return nil },
		"sweep":   func(r *remote) error { _, err := r.e.s.sweep(PruneOptions{}); return err },
		"list":    func(r *remote) error { _, err := r.e.s.List(); return err },
		"close":   func(r *remote) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := openRemote(t, openStore(t, t.TempDir(), 0), "k", size)
			d := r.onDisk(t)
			check(t, r.read(0, cell, cell))
			check(t, os.Truncate(filepath.Join(d.place(), stateName), 100))
			check(t, use(r))
			check(t, r.e.Close())
		})
	}
}

// TestFIFO replaces files of the cache by FIFOs without another end while they are in use: nothing
// waits for them.
func TestFIFO(t *testing.T) {
	const size = 3 * cell
	s := openStore(t, t.TempDir(), 0)
	replace := func(path string) {
		t.Helper()
		check(t, errors.Join(os.RemoveAll(path), unix.Mkfifo(path, 0o600)))
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		check(t, err)
		t.Cleanup(func() { f.Close() })
	}
	for _, name := range []string{wholeName, metaName, dataName} {
		r := openRemote(t, s, "k", size)
		check(t, r.read(0, cell, cell))
		replace(filepath.Join(r.onDisk(t).place(), name))
		testlimit.Return("using an entry beside "+name, func() {
			r.isWhole(t)
			check(t, r.read(0, size, cell))
			_ = r.e.Verify(t.Context()) // what cannot be made durable is not kept
			r.isWhole(t)
			check(t, r.read(0, size, cell))
			if _, err := s.List(); err != nil {
				t.Error(err)
			}
			check(t, r.e.Forget())
			check(t, r.e.Close())
		})
	}
	check(t, s.Pin("n", 1))
	replace(s.pinPath("n"))
	testlimit.Return("asking for a name", func() {
		if _, ok := s.Pinned("n", new(int)); ok {
			t.Error("a FIFO has a name's value")
		}
	})
	check(t, s.Pin("n", 1))
	replace(s.path(lockName))
	testlimit.Return("pruning", func() { _, _ = s.Prune(PruneOptions{}) })
	c, err := OpenConverted(s.Dir(), true)
	check(t, err)
	m, err := c.Model("a", "a", true)
	check(t, err)
	replace(filepath.Join(m.dir, recordName))
	check(t, m.Close())
	testlimit.Return("opening a converted model", func() {
		c.List()
		if m, err = c.Model("a", "a", false); m != nil || err != nil {
			t.Error(m, err)
		}
	})
}
