package main

import (
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A record describes a volume that is, or is about to be, published.
type record struct {
	Volume     string     `json:"volume"`
	Target     string     `json:"target"`
	Key        string     `json:"key"`               // of its server
	Secrets    string     `json:"secrets,omitempty"` // SHA-256 of the secrets that it was last published with
	Attributes attributes `json:"attributes"`
}

// layout is where things are below --dir.
type layout string

func (d layout) volumes() string           { return filepath.Join(string(d), "volumes") }
func (d layout) mounts() string            { return filepath.Join(string(d), "mounts") }
func (d layout) run() string               { return filepath.Join(string(d), "run") }
func (d layout) cache() string             { return filepath.Join(string(d), "cache") }
func (d layout) empty() string             { return filepath.Join(string(d), "empty") } // has the files of the node that a server may read without --local
func (d layout) mount(key string) string   { return filepath.Join(d.mounts(), key) }
func (d layout) secrets(key string) string { return filepath.Join(d.run(), key+".secrets") }
func (d layout) log(key string) string     { return filepath.Join(d.run(), key+".log") }
func (d layout) notify(key string) string  { return filepath.Join(d.run(), key+".notify") }

// maxSocket is how long the path of a socket may be, see unix(7).
const maxSocket = 107

// prepare makes the directories.
func (d layout) prepare() error {
	if n := len(d.notify(strings.Repeat("0", keyLength))); n > maxSocket {
		return fmt.Errorf("--dir %s: sockets in it would have names of %d bytes; choose one that is %d shorter", string(d), n, n-maxSocket)
	}
	for _, dir := range []string{string(d), d.volumes(), d.mounts(), d.run(), d.cache(), d.empty()} {
		mode := os.FileMode(0o700)
		if dir == string(d) || dir == d.mounts() {
			mode = 0o755
		}
		if err := os.MkdirAll(dir, mode); err != nil {
			return err
		}
	}
	return nil
}

func (d layout) record(volume, target string) string {
	return filepath.Join(d.volumes(), shortSum([]byte(volume+"\x00"+target))+".json")
}

// readRecord returns the record of a volume, nil without one.
func (d layout) readRecord(volume, target string) (*record, error) {
	r, err := readRecord(d.record(volume, target))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (r.Volume != volume || r.Target != target) {
		err = fmt.Errorf("%s: %w: it is of another volume", d.record(volume, target), errDamaged)
	}
	return r, err
}

// errDamaged is the error that a record differs from what was written.
var errDamaged = errors.New("the record is damaged")

func readRecord(path string) (*record, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(record)
	err = json.Unmarshal(b, r)
	if err == nil && (r.Volume == "" || r.Target == "" || r.Key == "") {
		err = errors.New("something is missing in it")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; it goes when its volume is published again or taken away: %w", path, errDamaged, err)
	}
	return r, nil
}

// write makes a record durable, replacing an older one.
func (d layout) write(r *record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := d.record(r.Volume, r.Target)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		os.Remove(path + ".new")
	}
	return err
}

// forget removes a record, if there is one.
func (d layout) forget(volume, target string) error {
	err := os.Remove(d.record(volume, target))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	return err
}

// records returns all readable records; err names the rest.
func (d layout) records() (all []record, err error) {
	names, err := filepath.Glob(filepath.Join(d.volumes(), "*.json"))
	for _, name := range names {
		r, rerr := readRecord(name)
		switch {
		case errors.Is(rerr, iofs.ErrNotExist): // removed in between
		case rerr != nil:
			err = errors.Join(err, rerr)
		default:
			all = append(all, *r)
		}
	}
	return all, err
}

// recordsOf returns the records of a server.
func recordsOf(all []record, key string) (some []record) {
	for _, r := range all {
		if r.Key == key {
			some = append(some, r)
		}
	}
	return some
}
