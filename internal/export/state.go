package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/opendir"
	"golang.org/x/sys/unix"
)

// Forget removes a directory's record of an export to it, and the file that was written
// last: the next export compares all existing files with the model.
func Forget(dir, last string) error {
	at, err := opendir.Open(dir)
	if err != nil {
		return err
	}
	defer at.Close()
	own, err := at.Private(stateDir)
	if err != nil {
		return err
	}
	defer own.Close()
	if err := errors.Join(own.Clear(), at.RemoveDir(stateDir)); err != nil {
		return err
	}
	if err := at.Remove(last); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

const (
	stateDir  = ".tensorfs-export"
	stateName = "state.json" // in stateDir
	logName   = "log"        // there too
)

// state records the files in the directory: the facts, and a log of finished work, one
// record a line. A line that was cut short by the end of the program is not a record, and
// its work is done again.
type state struct {
	mu        sync.Mutex
	log       *os.File
	done      map[string]record         // complete files, by tensorfs.Printable of their paths
	stretches map[string]map[int64]bool // of files that are not complete
}

// record is a line of the log.
type record struct {
	Kind    string `json:"kind"`
	Path    string `json:"path"`              // printable, because JSON takes no other bytes than UTF-8
	Number  int64  `json:"number"`            // of a stretch; the size of a complete file
	ModTime int64  `json:"modtime,omitempty"` // of a complete file, as the file system keeps it, in ns
}

// The kinds of records.
const (
	recordStart   = "start"   // a large file starts from its first byte: earlier stretches are gone
	recordStretch = "stretch" // a stretch of it is on the disk
	recordDone    = "done"    // a file is whole, and about to get its name
)

type facts struct {
	Version int    `json:"version"`
	Facts   []Fact `json:"facts"`
}

const stateVersion = 1

// openState locks the directory and reads its state, or starts a new one.
func (x *exporter) openState() (_ *state, err error) {
	f, err := x.own.OpenFile(logName, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, x.failed(stateDir+"/"+logName, err)
	}
	s := &state{log: f, done: map[string]record{}, stretches: map[string]map[int64]bool{}}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) { // others: a file system without locks
		return nil, fmt.Errorf("%s: %w", tensorfs.Printable(x.at.Path()), ErrBusy)
	}
	if err := s.read(); err != nil {
		return nil, x.failed(stateDir+"/"+logName, err)
	}
	text, err := x.readState()
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, x.failed(stateDir+"/"+stateName, err)
	default:
		why := differs(text, x.Facts)
		if why == "" {
			return s, nil
		}
		if !x.Force {
			return nil, fmt.Errorf("%s: %w: %s", tensorfs.Printable(x.at.Path()), ErrOther, why)
		}
		if err := x.removeOld(s); err != nil {
			return nil, err
		}
	}
	if err := x.begin(s); err != nil {
		return nil, err
	}
	return s, nil
}

// readState returns the content of stateName.
func (x *exporter) readState() ([]byte, error) {
	f, _, err := x.own.OpenRegular(stateName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// differs names the fact in which a state differs, "" if it does not.
func differs(text []byte, want []Fact) string {
	var have facts
	if json.Unmarshal(text, &have) != nil || have.Version != stateVersion {
		return "its state cannot be read"
	}
	is := func(list []Fact, what string) string {
		for _, f := range list {
			if f.What == what {
				return f.Is
			}
		}
		return "nothing"
	}
	for _, f := range slices.Concat(want, have.Facts) {
		if a, b := is(have.Facts, f.What), is(want, f.What); a != b {
			return fmt.Sprintf("its %s is %s, not %s", f.What, a, b)
		}
	}
	return ""
}

// removeOld removes the files of an earlier export, so that the directory never mixes files
// of two models. A file that was changed since it was written is the user's and stays.
func (x *exporter) removeOld(s *state) error {
	for shown, r := range s.done {
		name := unprintable(shown)
		if !filepath.IsLocal(name) || path.Clean(name) != name {
			continue // no path of an export
		}
		if st, err := x.lstat(name); err == nil && r.is(st) && !x.never(st) {
			if err := x.remove(name); err != nil {
				return err
			}
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// begin forgets what is known, removes files that are not complete, and writes the
// facts.
func (x *exporter) begin(s *state) error {
	names, err := x.own.Names()
	if err != nil {
		return x.failed(stateDir, err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, partialSuffix) || strings.HasSuffix(n, linkSuffix) {
			if err := x.own.Remove(n); err != nil {
				return x.failed(stateDir+"/"+n, err)
			}
		}
	}
	// The log first: it must not apply to the new facts.
	clear(s.done)
	clear(s.stretches)
	if err := errors.Join(s.log.Truncate(0), s.log.Sync()); err != nil {
		return x.failed(stateDir+"/"+logName, err)
	}
	text, err := json.MarshalIndent(facts{stateVersion, x.Facts}, "", "  ")
	if err != nil {
		return err
	}
	const fresh = stateName + ".new"
	f, err := x.own.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return x.failed(stateDir+"/"+fresh, err)
	}
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return x.failed(stateDir+"/"+fresh, err)
	}
	if err := x.own.Rename(fresh, x.own, stateName); err != nil {
		return x.failed(stateDir+"/"+stateName, err)
	}
	return nil
}

// read reads the log, and ends a line that was cut short.
func (s *state) read() error {
	text, err := io.ReadAll(s.log)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		var r record
		if json.Unmarshal(line, &r) == nil {
			s.apply(r)
		}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		_, err = s.log.Write([]byte{'\n'})
	}
	return err
}

func (s *state) apply(r record) {
	switch r.Kind {
	case recordStart:
		s.stretches[r.Path] = map[int64]bool{}
	case recordStretch:
		if m := s.stretches[r.Path]; m != nil {
			m[r.Number] = true
		}
	case recordDone:
		delete(s.stretches, r.Path)
		s.done[r.Path] = r
	}
}

// add appends a record to the log.
func (s *state) add(r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = s.log.Write(append(line, '\n'))
	return err
}

func (s *state) close() error { return s.log.Close() }

// is reports whether a file is the one that was recorded as complete.
func (r record) is(st os.FileInfo) bool {
	return st.Mode().IsRegular() && st.Size() == r.Number && st.ModTime().UnixNano() == r.ModTime
}

// doneRecord is the record of a complete file.
func doneRecord(name string, st os.FileInfo) record {
	return record{Kind: recordDone, Path: tensorfs.Printable(name), Number: st.Size(), ModTime: st.ModTime().UnixNano()}
}
