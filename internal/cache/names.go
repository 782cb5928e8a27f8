package cache

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// pin is the content of a file of names.
type pin struct {
	Name  string          `json:"name"`
	Time  time.Time       `json:"time"`
	Value json.RawMessage `json:"value"`
}

// maxPin bounds what is kept for a name: listings have up to 64 MiB.
const maxPin = 80 << 20

// Pin keeps a value, as JSON, under a name: what "hf:ORG/NAME@main" was when it was
// asked for last. Where the disk takes nothing it is kept in memory.
func (s *Store) Pin(name string, v any) error {
	name = s.scoped(name)
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text, err := json.Marshal(pin{name, time.Now(), value})
	if err != nil {
		return err
	}
	if len(text) > maxPin {
		return fmt.Errorf("%s: %d bytes are too many to keep for a name", tensorfs.Printable(name), len(text))
	}
	if s.root != "" {
		if err = writeFile(s.path(tmpDir), s.pinPath(name), text); err == nil {
			return nil
		}
		s.logOnce("pin", "the cache keeps a name in memory only", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins[name] = text
	return nil
}

// Pinned sets v to the value that was kept under a name and returns when it was kept. ok is
// false if the name has no value, or one that does not fit v.
func (s *Store) Pinned(name string, v any) (at time.Time, ok bool) {
	name = s.scoped(name)
	s.mu.Lock()
	text := s.pins[name]
	s.mu.Unlock()
	if text == nil && s.root != "" {
		text, _ = readRegular(s.pinPath(name), maxPin) // an unreadable file counts as missing
	}
	var p pin
	if json.Unmarshal(text, &p) != nil || p.Name != name || json.Unmarshal(p.Value, v) != nil {
		return time.Time{}, false
	}
	return p.Time, true
}

// scoped adds Options.Scope to a name.
func (s *Store) scoped(name string) string {
	if s.scope == "" {
		return name
	}
	return name + "\n" + s.scope
}

func (s *Store) pinPath(name string) string { return s.path(namesDir, nameOf(name)+".json") }

// pinFiles returns the files of names.
func (s *Store) pinFiles() (list []item) {
	names, _ := os.ReadDir(s.path(namesDir))
	for _, n := range names {
		var st unix.Stat_t
		path := s.path(namesDir, n.Name())
		if unix.Lstat(path, &st) == nil {
			list = append(list, item{dir: path, bytes: st.Blocks * 512, lastUse: time.Unix(st.Mtim.Unix())})
		}
	}
	return list
}

// removePins removes the oldest files of names until no more than limit bytes are
// left, and returns how many bytes it freed. A file that cannot be removed stays.
func (s *Store) removePins(limit int64) (freed int64) {
	list := s.pinFiles()
	swept, _ := sweepItems(list, diskBytes(list), PruneOptions{Size: limit}, nil, func(path string) (bool, error) { return os.Remove(path) == nil, nil })
	return swept.Bytes
}
