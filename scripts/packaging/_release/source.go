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

// tracked lists the files that git knows, sorted by name; paths narrows them, as arguments of git ls-files.
// Their content is the directory's, so that changes can be tried before they are a commit.
func tracked(paths ...string) ([]string, error) {
	out, err := exec.Command("git", append([]string{"ls-files", "-z", "--"}, paths...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var names []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if _, err := os.Lstat(name); err == nil { // a removed file may still be listed
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// source writes an archive of the tracked files below one directory. Like git archive, it leaves out what
// .gitattributes marks with export-ignore.
func source(f facts, to string, _ []string) error {
	names, err := tracked(".", ":(exclude,attr:export-ignore)")
	if err != nil {
		return err
	}
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
