package testremote

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// Machine is one with a cache of its own, and an environment.
type Machine struct {
	Dir    string            // of the cache
	Env    map[string]string // the result of Getenv
	Client *web.Client
	Store  *cache.Store
}

// NewMachine returns one on which nothing was opened yet.
func NewMachine(t testing.TB) *Machine {
	t.Helper()
	m := &Machine{Dir: filepath.Join(t.TempDir(), "cache"), Env: map[string]string{}}
	m.Restart(t, 20*time.Second)
	return m
}

// Restart is another process on the same machine, whose readers wait so long.
func (m *Machine) Restart(t testing.TB, timeout time.Duration) {
	t.Helper()
	m.Client, m.Store = Client(t, timeout), open(t, m.Dir)
}

// Getenv is os.Getenv there.
func (m *Machine) Getenv(name string) string { return m.Env[name] }

// open opens a cache until the end of the test.
func open(t testing.TB, dir string) *cache.Store {
	t.Helper()
	s, err := cache.Open(cache.Options{Dir: dir, Budget: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Cache is a cache on the disk, with its directory.
func Cache(t testing.TB) (*cache.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cache")
	return open(t, dir), dir
}

// Read reads a file of a listing.
func Read(l *remote.Listing, name string) ([]byte, error) {
	f, err := l.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, f.Size())
	return b, tensorfs.ReadFull(f, b, 0)
}
