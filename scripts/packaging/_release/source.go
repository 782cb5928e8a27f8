package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	modver "golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/zip"
)

// tracked are the files that git knows, in the order of their names. Their content is that
// of the directory, so that changes can be tried before they are a commit.
func tracked() ([]string, error) {
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var names []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if _, err := os.Lstat(name); err == nil { // one may be removed already
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// isTestdata reports whether a file is only for tests of the clone: most bytes of the repository
// are. The formula of Homebrew installs one of them.
func isTestdata(name string) bool {
	return strings.HasPrefix(name, "testdata/") && name != "testdata/gguf/kv.gguf"
}

// source is an archive of the tracked files without those of tests, below one directory.
func source(f facts, to string, _ []string) error {
	names, err := tracked()
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, isTestdata)
	return write(to, func(file *os.File) error {
		z, err := gzip.NewWriterLevel(file, gzip.BestCompression)
		if err != nil {
			return err
		}
		w := tar.NewWriter(z)
		for _, name := range names {
			st, err := os.Lstat(name)
			if err != nil {
				return err
			}
			h := &tar.Header{Name: path.Join("tensorfs-"+f.version, name), ModTime: f.date, Mode: 0o644, Format: tar.FormatPAX}
			var content io.Reader = strings.NewReader("")
			switch {
			case st.Mode()&os.ModeSymlink != 0:
				h.Typeflag, h.Mode = tar.TypeSymlink, 0o777
				if h.Linkname, err = os.Readlink(name); err != nil {
					return err
				}
			default:
				b, err := os.ReadFile(name)
				if err != nil {
					return err
				}
				h.Typeflag, h.Size, content = tar.TypeReg, int64(len(b)), bytes.NewReader(b)
				if st.Mode()&0o100 != 0 {
					h.Mode = 0o755
				}
			}
			if err := w.WriteHeader(h); err != nil {
				return err
			}
			if _, err := io.Copy(w, content); err != nil {
				return err
			}
		}
		if err := w.Close(); err != nil {
			return err
		}
		return z.Close()
	})
}

// proxy makes a directory from which the go command takes this version of the module:
// GOPROXY=file:///DIRECTORY.
func proxy(f facts, to string, _ []string) error {
	if semver.Canonical(f.goVersion) != f.goVersion {
		return fmt.Errorf("%q is not a version of a module", f.goVersion)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	if got := modfile.ModulePath(mod); got != module {
		return fmt.Errorf("go.mod is of %q, and not of %s", got, module)
	}
	names, err := tracked()
	if err != nil {
		return err
	}
	var files []zip.File
	for _, name := range names {
		files = append(files, sourceFile(name))
	}
	dir := filepath.Join(to, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{f.goVersion, f.date})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"list": []byte(f.goVersion + "\n"), f.goVersion + ".info": info, f.goVersion + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	// It checks names and sizes, and leaves out what belongs to another module, as testdata does.
	return write(filepath.Join(dir, f.goVersion+".zip"), func(file *os.File) error {
		return zip.Create(file, modver.Version{Path: module, Version: f.goVersion}, files)
	})
}

// sourceFile is a tracked file by its name, as package zip takes it.
type sourceFile string

func (s sourceFile) Path() string                 { return string(s) }
func (s sourceFile) Lstat() (os.FileInfo, error)  { return os.Lstat(string(s)) }
func (s sourceFile) Open() (io.ReadCloser, error) { return os.Open(string(s)) }
