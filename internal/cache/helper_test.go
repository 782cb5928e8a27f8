package cache

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// asFiller makes the test binary a process that fills and reads entries: a
// fillerSpec as JSON.
const asFiller = "TENSORFS_TEST_CACHE"

func TestMain(m *testing.M) {
	if spec := os.Getenv(asFiller); spec != "" {
		os.Exit(fillerMain(spec))
	}
	os.Exit(m.Run())
}

// content is what a remote file holds: byte i is a function of i and its name.
func content(key string, p []byte, off int64) {
	seed := uint64(len(key))
	for _, c := range key {
		seed = seed*131 + uint64(c)
	}
	for i := range p {
		x := uint64(off+int64(i)) + seed<<40
		x ^= x >> 31
		x *= 0x9e3779b97f4a7c15
		p[i] = byte(x>>56) | 1 // never zero, as a hole is
	}
}

// remote is a file elsewhere: it counts what is fetched.
type remote struct {
	e       *Entry
	key     string
	fetched int64
}

func (r *remote) id(size int64) ID {
	return ID{Key: r.key, Size: size, Source: "test:" + r.key, ModTime: time.Unix(1e9, 0)}
}

// fetch fetches what is missing of a range, a cell at a time or more.
func (r *remote) fetch(off, n, most int64) error {
	for _, m := range r.e.Missing(off, n) {
		for m.N > 0 {
			part := Range{m.Off, min(m.N, most)}
			if err := r.fetchPart(part); err != nil {
				return err
			}
			m.Off, m.N = m.Off+part.N, m.N-part.N
		}
	}
	return nil
}

func (r *remote) fetchPart(part Range) error {
	release, err := r.e.Claim(context.Background(), part)
	if err != nil {
		return err
	}
	defer release()
	for _, m := range r.e.Missing(part.Off, part.N) {
		p := make([]byte, m.N)
		content(r.key, p, m.Off)
		r.fetched += m.N
		if n, err := r.e.WriteAt(p, m.Off); n != len(p) || err != nil {
			return fmt.Errorf("WriteAt %d bytes at %d: %d, %v", len(p), m.Off, n, err)
		}
	}
	return nil
}

// read reads a range, fetching what is missing, and compares it.
func (r *remote) read(off, n, most int64) error {
	p := make([]byte, n)
	for range 1000 {
		if _, err := r.e.ReadAt(p, off); err == nil {
			return r.compare(p, off)
		} else if err != ErrAbsent {
			return err
		}
		if err := r.fetch(off, n, most); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d bytes at %d are fetched again and again", n, off)
}

func (r *remote) compare(p []byte, off int64) error {
	want := make([]byte, len(p))
	content(r.key, want, off)
	if i := different(p, want); i >= 0 {
		return fmt.Errorf("wrong bytes of %s: byte %d is %#x instead of %#x", r.key, off+int64(i), p[i], want[i])
	}
	return nil
}

func different(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// local compares all that is local, and returns how many bytes that is.
func (r *remote) local() (n int64, err error) {
	size := r.e.Size()
	p := make([]byte, CellSize)
	for off := int64(0); off < size; off += CellSize {
		b := p[:min(CellSize, size-off)]
		if len(r.e.Missing(off, int64(len(b)))) > 0 {
			continue
		}
		if _, err := r.e.ReadAt(b, off); err == ErrAbsent { // it is not what was stored
			continue
		} else if err != nil {
			return n, err
		}
		if err := r.compare(b, off); err != nil {
			return n, err
		}
		n += int64(len(b))
	}
	return n, nil
}

// logs are the lines that a Store logs.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) lines() (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		list = append(list, line)
	}
	return list
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func openStore(t testing.TB, dir string, budget int64) *Store {
	t.Helper()
	s, err := Open(Options{Dir: dir, Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.first = 0 // the files of tests are small
	return s
}

func openRemote(t testing.TB, s *Store, key string, size int64) *remote {
	t.Helper()
	r := &remote{key: key}
	return r.open(t, s, r.id(size))
}

func (r *remote) open(t testing.TB, s *Store, id ID) *remote {
	t.Helper()
	var err error
	if r.e, err = s.Entry(id); err != nil {
		t.Fatal(err)
	}
	return r
}

// onDisk returns the files of an entry, which must be on the disk.
func (r *remote) onDisk(t testing.TB) *disk {
	t.Helper()
	d := r.e.disk.Load()
	if d == nil {
		t.Fatalf("%s is not on the disk", r.key)
	}
	return d
}

// die leaves the files as the end of the process does.
func (d *disk) die() error {
	d.stop()
	return d.closeFiles()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fillerSpec describes a filler.
type fillerSpec struct {
	Dir    string
	Budget int64
	Keys   []string
	Size   int64
	Seed   uint64
	Most   int64 // fetched at a time
	Reads  int   // random ones; 0: front to back, Twice as often
	Rounds int
	Close  bool // closes all after each round
	Say    bool // a line after every read
}

// fillerMain fills and reads, and prints how many bytes it fetched.
func fillerMain(text string) int {
	var spec fillerSpec
	err := json.Unmarshal([]byte(text), &spec)
	if err == nil {
		err = spec.fill()
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

func (spec *fillerSpec) fill() error {
	s, err := Open(Options{Dir: spec.Dir, Budget: spec.Budget, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	defer s.Close()
	random := rand.New(rand.NewPCG(spec.Seed, 1))
	fetched := int64(0)
	list := make([]*remote, len(spec.Keys))
	open := func() (err error) {
		for i, key := range spec.Keys {
			r := &remote{key: key}
			if r.e, err = s.Entry(r.id(spec.Size)); err != nil {
				return err
			}
			list[i] = r
		}
		return nil
	}
	shut := func() error {
		for _, r := range list {
			fetched += r.fetched
			if err := r.e.Close(); err != nil {
				return err
			}
		}
		return nil
	}
	read := func(r *remote, off, n int64) error {
		if err := r.read(off, min(n, spec.Size-off), spec.Most); err != nil {
			return err
		}
		if spec.Say {
			fmt.Println("read")
		}
		return nil
	}
	if err := open(); err != nil {
		return err
	}
	for range spec.Rounds {
		for range spec.Reads {
			off := random.Int64N(spec.Size)
			if err := read(list[random.IntN(len(list))], off, 1+random.Int64N(3*CellSize)); err != nil {
				return err
			}
		}
		if spec.Reads == 0 {
			for off := int64(0); off < spec.Size; off += 1 << 20 {
				for _, r := range list {
					if err := read(r, off, 1<<20); err != nil {
						return err
					}
				}
			}
		}
		if spec.Close {
			if err := shut(); err != nil {
				return err
			}
			if err := open(); err != nil {
				return err
			}
		}
	}
	if err := shut(); err != nil {
		return err
	}
	fmt.Println("fetched", fetched)
	return nil
}

// filler is a running process.
type filler struct {
	cmd   *exec.Cmd
	out   *bufio.Scanner
	errs  bytes.Buffer
	ended bool
}

func startFiller(t testing.TB, spec fillerSpec) *filler {
	t.Helper()
	text, err := json.Marshal(spec)
	check(t, err)
	self, err := os.Executable()
	check(t, err)
	f := &filler{cmd: exec.Command(self)}
	f.cmd.Env = append(os.Environ(), asFiller+"="+string(text))
	f.cmd.Stderr = &f.errs
	out, err := f.cmd.StdoutPipe()
	check(t, err)
	f.out = bufio.NewScanner(out)
	check(t, f.cmd.Start())
	t.Cleanup(f.kill)
	return f
}

func (f *filler) kill() {
	if !f.ended {
		f.ended = true
		_ = f.cmd.Process.Kill()
		_ = f.cmd.Wait()
	}
}

// after lets it do some reads. ok is false where it did not come so far.
func (f *filler) after(reads int) (ok bool) {
	for range reads {
		if !f.out.Scan() || f.out.Text() != "read" {
			return false
		}
	}
	return true
}

// wait waits for its end and returns what it fetched.
func (f *filler) wait(t testing.TB) (fetched int64) {
	t.Helper()
	last := ""
	testlimit.Return("a filler", func() {
		for f.out.Scan() {
			if last = f.out.Text(); strings.HasPrefix(last, "error:") {
				break
			}
		}
		f.ended = true
		if err := f.cmd.Wait(); err != nil {
			last += " " + err.Error()
		}
	})
	if _, err := fmt.Sscanf(last, "fetched %d", &fetched); err != nil || strings.Contains(last, "exit") {
		t.Fatalf("a filler ended with %q, %s", last, &f.errs)
	}
	return fetched
}

// diskUse is what du reports for a directory.
func diskUse(t testing.TB, dir string) int64 {
	t.Helper()
	out, err := exec.Command("du", "-s", "-k", dir).Output()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	n := int64(0)
	_, err = fmt.Sscan(string(out), &n)
	check(t, err)
	return n << 10
}
