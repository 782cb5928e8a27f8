package source

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Record is what "hf download --local-dir" noted of a file that it put into a directory:
//
//	DIR/config.json
//	DIR/.cache/huggingface/download/config.json.metadata    commit, digest and time, in lines
type Record struct {
	Commit string // of the repository, whose name is not noted
	Digest string // "sha256:HEX" or "git:HEX", "" if it is neither
}

const (
	recordsIn    = ".cache/huggingface/download"
	recordSuffix = ".metadata"
	maxRecord    = 4096 // bytes; one has some 130
)

// RecordOf returns the record of a file. It reports false if the record is missing, or if the file was written to since.
func RecordOf(path string) (Record, bool) {
	st, err := os.Stat(path)
	if err != nil {
		return Record{}, false
	}
	dir, name := filepath.Split(path)
	for range 3 { // a file may be in a folder of the repository
		b, err := ReadRegular(filepath.Join(dir, recordsIn, name+recordSuffix), maxRecord)
		if err != nil {
			dir, name = filepath.Dir(filepath.Clean(dir)), filepath.Join(filepath.Base(dir), name)
			continue
		}
		fields := strings.Fields(string(b))
		if len(fields) != 3 {
			return Record{}, false
		}
		seconds, err := strconv.ParseFloat(fields[2], 64)
		if written := float64(st.ModTime().UnixNano()) / 1e9; err != nil || written > seconds+1 { // as huggingface_hub has it
			return Record{}, false
		}
		return Record{fields[0], ParseDigest(fields[1])}, true
	}
	return Record{}, false
}

// maxRecorded bounds the files of a directory that are looked for.
const maxRecorded = 100_000

// Recorded returns the records of the files in a directory, by their paths below it.
func Recorded(dir string) (map[string]Record, error) {
	all := map[string]Record{}
	top := filepath.Join(dir, recordsIn)
	err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, ok := strings.CutSuffix(path, recordSuffix)
		if !ok || !e.Type().IsRegular() {
			return nil
		}
		if len(all) == maxRecorded {
			return fmt.Errorf("%s: it has records of more than %d files", dir, maxRecorded)
		}
		below, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		if r, ok := RecordOf(filepath.Join(dir, below)); ok {
			all[filepath.ToSlash(below)] = r
		}
		return nil
	})
	if os.IsNotExist(err) {
		err = nil
	}
	return all, err
}
