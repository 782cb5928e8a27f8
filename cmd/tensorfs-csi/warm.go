package main

import (
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
)

// warmth is how far a model was read.
type warmth struct {
	done  bool
	total int64  // bytes
	ended string // why before all was read
}

// warmth asks a server. One that was started for a volume that did not want it read has no --warm: its files are read from here.
func (f *fleet) warmth(s *server) (warmth, error) {
	st, err := f.status(s.key)
	if err != nil {
		return warmth{}, err
	}
	if w := st.Warm; w != nil {
		return warmth{w.Done >= w.Total, w.Total, w.Ended}, nil
	}
	files, err := sourceFiles(filepath.Join(f.dir.mount(s.key), "source"))
	if err != nil {
		return warmth{}, err
	}
	var w warmth
	for _, size := range files {
		w.total += size
	}
	s.warming.Do(func() {
		go func() {
			defer close(s.warmed)
			for path := range files {
				if s.warmErr = readAll(path); s.warmErr != nil {
					return
				}
			}
		}()
	})
	select {
	case <-s.warmed:
		if w.done = s.warmErr == nil; !w.done {
			w.ended = s.warmErr.Error()
		}
	default:
	}
	return w, nil
}

// sourceFiles returns the model's own files as a mount shows them, with their sizes.
func sourceFiles(dir string) (map[string]int64, error) {
	files := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, e iofs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		st, err := e.Info()
		if err == nil {
			files[path] = st.Size()
		}
		return err
	})
	return files, err
}

// readAll reads a file, for the caches that it passes.
func readAll(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 4<<20))
	return err
}
