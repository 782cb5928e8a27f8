package cache

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tensorfs/tensorfs"
)

// Options say where a cache is and how large it may be.
type Options struct {
	Dir    string       // "": DefaultDir()
	Budget int64        // bytes on the disk; 0: a tenth of the file system, at most 100 GB; negative: no disk, memory only
	OnDisk bool         // a disk that is unfit is an error
	Scope  string       // a name is remembered only for programs with the same scope
	Exists bool         // a directory that does not exist is not made: memory only
	Logger *slog.Logger // nil: discard
}

// Store is a cache. A process has one; several processes may have the same
// directory.
type Store struct {
	scope  string
	root   string // its directory of this version; "": memory only
	log    *slog.Logger
	memory *memory
	keeper *keeper
	first  int64 // the size up to which files with a digest are verified first

	logged   sync.Map // what was logged once
	mismatch atomic.Pointer[error]

	mu      sync.Mutex
	entries map[string]*Entry // open, by name
	pins    map[string][]byte // that could not be written
}

// Open opens the cache in a directory, and makes the directory. If the directory belongs to
// another user, or others may write to it, the error tells what to do. If the disk is unfit
// (a network's, read-only, full), the cache is in memory only, unless Options rule that
// out, and the log records it.
func Open(o Options) (*Store, error) {
	s := &Store{
		scope:   o.Scope,
		log:     o.Logger,
		memory:  newMemory(memoryLimit),
		first:   verifyFirst,
		entries: map[string]*Entry{},
		pins:    map[string][]byte{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if o.Budget < 0 {
		return s, nil
	}
	dir := o.Dir
	if dir == "" {
		var err error
		if dir, err = DefaultDir(); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(dir); o.Exists && errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	root, err := prepare(dir)
	if unfit, ok := errors.AsType[unfitError](err); ok && !o.OnDisk {
		s.logOnce("unfit", "the cache is in memory only", unfit)
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.root = root
	s.keeper = newKeeper(s, o.Budget)
	return s, nil
}

// Close ends the cache. Its entries are closed first.
func (s *Store) Close() error {
	if s.keeper != nil {
		s.keeper.close()
	}
	return nil
}

// Mismatch returns the error of the first file whose bytes did not match its digest, even
// if that was noticed in the background or when it was closed.
func (s *Store) Mismatch() error {
	if err := s.mismatch.Load(); err != nil {
		return *err
	}
	return nil
}

// Dir returns the directory that the cache was opened in, "" if it is in memory only.
func (s *Store) Dir() string {
	if s.root == "" {
		return ""
	}
	return filepath.Dir(s.root)
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.root}, parts...)...)
}

// logOnce logs what happened, the first time.
func (s *Store) logOnce(what, message string, err error) {
	if _, again := s.logged.LoadOrStore(what, true); !again {
		s.log.Warn(message, "error", tensorfs.OneLine(err.Error()))
	}
}

// ID names the content of a remote file.
type ID struct {
	Key     string    // identity of the content: its Digest, or what else tells it from any other; no secrets
	Size    int64     // bytes
	Digest  string    // "sha256:HEX", "git:OID" (of a blob), "md5:HEX" or "crc32c:HEX" if the content's digest is known, else ""
	Server  string    // that states the digest which is the Key; no secrets
	Source  string    // for people, such as "hf:ORG/NAME/model.safetensors"; no secrets
	ModTime time.Time // of the first that made the entry; kept afterwards
	Private bool      // there is no identity: the entry ends when it is closed
}

// names returns the names of a file's entry: own while its bytes may be anything that its
// server sends, shared once they are known to have the digest. They are equal if the key is
// not a digest that a server states.
func (id *ID) names() (own, shared string) {
	text := fmt.Sprintf("%s\n%d", id.Key, id.Size)
	shared = nameOf(text)
	if id.Server == "" {
		return shared, shared
	}
	return nameOf(text + "\n" + id.Server), shared
}

// Entry returns the entry of a file, and makes it if it does not exist. An entry
// that cannot be on the disk is in memory. Every Entry is closed as often as it was
// returned.
func (s *Store) Entry(id ID) (*Entry, error) {
	if id.Size < 0 || id.Size > MaxSize {
		return nil, fmt.Errorf("%s: %d bytes are no size that a cached file can have", tensorfs.Printable(id.Source), id.Size)
	}
	if _, err := NewHash(id.Digest, id.Size); err != nil {
		return nil, fmt.Errorf("%s: %w", tensorfs.Printable(id.Source), err)
	}
	if id.Private {
		id.Key = randomName()
	}
	if id.Key == "" {
		return nil, fmt.Errorf("%s: a file without an identity cannot be shared", tensorfs.Printable(id.Source))
	}
	if id.Key == id.Digest && id.Server == "" { // any server can state a digest
		return nil, fmt.Errorf("%s: a file that is known by its digest needs the server that states it", tensorfs.Printable(id.Source))
	}
	name, _ := id.names()
	s.mu.Lock()
	e := s.entries[name]
	if e == nil {
		e = &Entry{s: s, id: id, name: name, modTime: id.ModTime, first: id.Digest != "" && id.Size <= s.first}
		s.entries[name] = e
	}
	e.users++
	s.mu.Unlock()
	e.open.Do(e.openDisk)
	return e, nil
}

// nameOf returns the file name for a text of any length and form.
func nameOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func randomName() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
