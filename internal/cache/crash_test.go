package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// states counts the cells of an entry by state.
func (d *disk) states(t testing.TB) (n [4]int) {
	t.Helper()
	check(t, d.cells.guard(func() error {
		n = [4]int{}
		d.cells.all(func(_ int64, b byte) bool { n[b&stateMask]++; return true })
		return nil
	}))
	return n
}

// TestOtherBoot (row 23) opens a copy of a cache as another boot of the machine does: only
// what was durable counts, whatever the rest of the data holds.
func TestOtherBoot(t *testing.T) {
	dir := t.TempDir()
	const size = 6*cell + 1
	s := openStore(t, dir, 0)
	r := openRemote(t, s, "k", size)
	defer r.e.Close()
	d := r.onDisk(t)
	check(t, r.read(0, 3*cell, cell))
	check(t, d.sync())
	check(t, r.read(4*cell, cell+1, cell)) // not durable
	check(t, d.cells.guard(func() error {  // a sweep was under way
		d.cells.change(1, func(b byte) (byte, bool) { return b | swept, true })
		return nil
	}))
	if got := d.states(t); got != [4]int{2, 2, 2, 1} {
		t.Fatal(got)
	}
	clone := filepath.Join(t.TempDir(), "copy")
	check(t, os.CopyFS(clone, os.DirFS(dir)))
	check(t, os.Chmod(clone, 0o700))
	lost := filepath.Join(clone, version, strings.TrimPrefix(d.dir, s.root), dataName)
	f, err := os.OpenFile(lost, os.O_WRONLY, 0)
	check(t, err)
	_, err = f.WriteAt(make([]byte, 3*cell+1), 3*cell) // what the disk never got
	check(t, errors.Join(err, f.Close()))

	other := openStore(t, clone, 0)
	other.boot = "another"
	c := openRemote(t, other, "k", size)
	if n, err := c.local(); n != 2*cell || err != nil {
		t.Errorf("%d bytes are local, %v", n, err)
	}
	check(t, c.read(0, size, cell))
	check(t, c.e.Close())
	other.boot = "a third"
	c = openRemote(t, other, "k", size)
	if n, err := c.local(); n != size || err != nil {
		t.Errorf("closed, it was not durable: %d, %v", n, err)
	}
	check(t, c.e.Close())
}

// TestSameBoot keeps what was not durable, after the end of its process.
func TestSameBoot(t *testing.T) {
	dir := t.TempDir()
	r := openRemote(t, openStore(t, dir, 0), "k", 3*cell)
	check(t, r.read(0, 2*cell, cell))
	d := r.onDisk(t)
	check(t, d.cells.guard(func() error {
		d.cells.change(0, func(b byte) (byte, bool) { return b | swept, true })
		return nil
	}))
	check(t, d.die())
	again := openRemote(t, openStore(t, dir, 0), "k", 3*cell)
	defer again.e.Close()
	if got := again.onDisk(t).states(t); got != [4]int{2, 1, 0, 0} {
		t.Error(got)
	}
	if n, err := again.local(); n != cell || err != nil {
		t.Error(n, err)
	}
}

// TestSyncedMeanwhile makes no cell durable that was swept and filled again while
// the data were flushed.
func TestSyncedMeanwhile(t *testing.T) {
	needHoles(t)
	r := openRemote(t, openStore(t, t.TempDir(), 1<<30), "k", 3*cell)
	defer r.e.Close()
	check(t, r.read(0, 3*cell, cell))
	d := r.onDisk(t)
	for ok, want := range map[bool][2][4]int{true: {{0, 1, 2, 0}, {0, 0, 3, 0}}, false: {{2, 1, 0, 0}, {3, 0, 0, 0}}} {
		check(t, d.remove()) // all begin absent
		check(t, r.read(0, 3*cell, cell))
		batch := d.cells.present()
		check(t, d.sweepCell(1))
		check(t, r.fetch(0, 3*cell, cell))
		d.cells.synced(batch, ok)
		if got := d.states(t); got != want[0] {
			t.Errorf("%t: %v, want %v", ok, got, want[0])
		}
		d.cells.synced(d.cells.present(), ok)
		if got := d.states(t); got != want[1] {
			t.Errorf("%t: %v, want %v", ok, got, want[1])
		}
	}
}

// TestKilled (row 23) kills processes that fill and read entries, and compares everything
// that they say is local. TENSORFS_TEST_CACHE_KILLS is how often, 20 by default.
func TestKilled(t *testing.T) {
	kills := 20
	if n, err := strconv.Atoi(os.Getenv("TENSORFS_TEST_CACHE_KILLS")); err == nil {
		kills = n
	}
	dir := t.TempDir()
	const size = 64*cell + 17
	keys := []string{"a", "b"}
	found := int64(0)
	for i := range kills {
		budget := int64(1 << 30)
		if i%2 == 1 {
			budget = 4 << 20 // it sweeps all the time
		}
		f := startFiller(t, fillerSpec{Dir: dir, Budget: budget, Keys: keys, Size: size, Seed: uint64(i), Most: 4 * cell, Reads: 10, Rounds: 1 << 30, Close: i%3 == 0, Say: true})
		testlimit.Return("reads", func() {
			if !f.after(5 + i*7%40) {
				t.Errorf("a filler failed: %s %s", f.out.Text(), &f.errs)
			}
		})
		f.kill()
		s := openStore(t, dir, 1<<30)
		if i%5 == 4 {
			s.boot = fmt.Sprint("boot ", i)
		}
		for _, key := range keys {
			r := openRemote(t, s, key, size)
			n, err := r.local()
			check(t, err)
			found += n
			check(t, r.e.Close())
		}
		if i%5 == 4 { // back to this boot
			_, err := s.Prune(PruneOptions{})
			check(t, err)
		}
		check(t, s.Close())
	}
	if found == 0 {
		t.Error("nothing was ever local")
	}
	t.Logf("%d kills, %d MiB compared", kills, found>>20)
}

// TestHostile opens entries whose files were tampered with. What cannot be used is
// begun anew; nothing is read that is not there.
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
			check(t, tamper(d.dir))
			list, err := s.List()
			if len(list) > 1 || err != nil {
				t.Error(list, err)
			}
			testlimit.Return("opening", func() { r = openRemote(t, s, "k", size) })
			r.onDisk(t) // begun anew on the disk
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
		"all being swept": {write(stateName, bytes.Repeat([]byte{3}, 6), headerSize), 0},
		"other bits":      {write(stateName, bytes.Repeat([]byte{0xfc}, 6), headerSize), 0},
		"present":         {write(stateName, bytes.Repeat([]byte{0xfd}, 6), headerSize), size},
		"whole":           {replace(wholeName, text("sha256:x\n")), size},
		"whole directory": {replace(wholeName, dir), size},
		"whole fifo":      {replace(wholeName, fifo), size},
		"whole link":      {replace(wholeName, link), size},
		"tail of state":   {write(stateName, []byte{255, 255}, headerSize+6), size},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, t.TempDir(), 0)
			r := openRemote(t, s, "k", size)
			check(t, r.read(0, size, size))
			d := r.onDisk(t)
			check(t, r.e.Close())
			check(t, test.tamper(d.dir))
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

// TestCutWhileOpen cuts the files of an entry that is in use: no signal ends the
// program, no wrong byte is read, and the next one begins anew.
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
			check(t, os.Truncate(filepath.Join(d.dir, name), cell))
			if name == stateName {
				check(t, os.Truncate(filepath.Join(d.dir, name), 100))
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
		"sweep":   func(r *remote) error { _, err := r.e.s.sweep(sweepOptions{punch: true}); return err },
		"list":    func(r *remote) error { _, err := r.e.s.List(); return err },
		"close":   func(r *remote) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := openRemote(t, openStore(t, t.TempDir(), 0), "k", size)
			d := r.onDisk(t)
			check(t, r.read(0, cell, cell))
			check(t, os.Truncate(filepath.Join(d.dir, stateName), 100))
			check(t, use(r))
			check(t, r.e.Close())
		})
	}
}

// TestFIFO puts FIFOs, whose other ends nobody closes, in the place of files of the cache
// while they are in use: nothing waits for them.
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
		replace(filepath.Join(r.onDisk(t).dir, name))
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
