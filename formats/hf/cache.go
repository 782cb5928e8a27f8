package hf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// The cache, as the Python package huggingface_hub lays it out:
//
//	models--ORG--NAME/
//	  refs/main                     commit id
//	  blobs/<id>                    contents
//	  snapshots/<commit>/FILE    -> ../../blobs/<id>

// hub returns the directory of the cache.
func hub() (string, error) {
	if dir := os.Getenv("HF_HUB_CACHE"); dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return filepath.Join(dir, "hub"), nil
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "huggingface", "hub"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("where is the Hugging Face cache? %w; set HF_HOME", err)
	}
	return filepath.Join(home, ".cache", "huggingface", "hub"), nil
}

// OpenName opens the model that the local Hugging Face cache has as ORG/NAME,
// optionally followed by @REVISION: a branch, a tag or a commit. The cache is
// $HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub.
func OpenName(name string) (*tensorfs.Model, error) {
	repo, revision, pinned := strings.Cut(name, "@")
	parts := strings.Split(repo, "/")
	if len(parts) > 2 || strings.Contains(repo, "--") || !plainPath(repo) || pinned && !plainPath(revision) {
		return nil, fmt.Errorf("%s: the name is not of the form ORG/NAME or ORG/NAME@REVISION; write it as the hub does, or leave out hf: to name a path", tensorfs.Printable("hf:"+name))
	}
	dir, err := hub()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(dir, "models--"+strings.Join(parts, "--"))
	if _, err := os.Stat(folder); err != nil {
		return nil, notCached(name, repo, folder, err)
	}
	snap, warning, err := snapshot(folder, revision)
	if err != nil {
		return nil, err
	}
	return openDir(snap, folder, warning)
}

// notCached says what was looked for in the cache, and what is there.
func notCached(name, repo, folder string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return tensorfs.PathError(folder, err)
	}
	dir, folder := filepath.Split(folder)
	e := &tensorfs.FormatError{File: "hf:" + name, Offset: -1, Kind: fs.ErrNotExist,
		Advice: fmt.Sprintf("download it with \"hf download %s\", or set HF_HOME to where it is", tensorfs.Printable(repo))}
	entries, err := os.ReadDir(dir)
	if err != nil {
		e.Problem = fmt.Sprintf("looked for it in the cache %s, which cannot be read: %v", tensorfs.Printable(filepath.Clean(dir)), reason(err))
		return e
	}
	models := 0
	for _, entry := range entries {
		is, isModel := strings.CutPrefix(entry.Name(), "models--")
		if !isModel {
			continue
		}
		models++
		if strings.EqualFold(entry.Name(), folder) {
			e.Advice = "write it as hf:" + tensorfs.Printable(strings.Replace(is, "--", "/", 1))
		}
	}
	e.Problem = fmt.Sprintf("looked for %s in the cache %s; found other models (%d), not this one", tensorfs.Printable(folder), tensorfs.Printable(filepath.Clean(dir)), models)
	return e
}

// plainPath reports whether s is a path that leads nowhere but down.
func plainPath(s string) bool {
	for p := range strings.SplitSeq(s, "/") {
		if !tensorfs.ValidName(p) {
			return false
		}
	}
	return true
}

// isCacheFolder reports whether dir is a model's folder in the cache.
func isCacheFolder(dir string) bool {
	return isDir(filepath.Join(dir, "snapshots")) && (isDir(filepath.Join(dir, "refs")) || isDir(filepath.Join(dir, "blobs")))
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// snapshot returns the directory of a revision, by default main. Without refs
// the only snapshot is meant.
func snapshot(folder, revision string) (dir, warning string, err error) {
	shown := tensorfs.Printable(folder)
	ref := revision
	if ref == "" {
		ref = "main"
	}
	commit := ""
	b, err := readSmall(filepath.Join(folder, "refs", filepath.FromSlash(ref)))
	switch {
	case err == nil:
		if commit = strings.TrimSpace(string(b)); !tensorfs.ValidName(commit) {
			return "", "", &tensorfs.FormatError{File: filepath.Join(folder, "refs", ref), Offset: 0, Problem: "it holds no commit id but " + tensorfs.Quote(commit)}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", "", err
	case revision != "":
		commit = revision
	}
	if commit != "" {
		if dir := filepath.Join(folder, "snapshots", commit); filepath.Dir(dir) == filepath.Join(folder, "snapshots") && isDir(dir) {
			return dir, "", nil
		}
		if revision != "" {
			return "", "", &tensorfs.FormatError{File: folder, Offset: -1, Kind: fs.ErrNotExist, Problem: "it has no snapshot of revision " + tensorfs.Printable(revision), Advice: "download that revision"}
		}
		warning = fmt.Sprintf("%s: refs/main names the snapshot %s, which is not there; the only one is shown", shown, tensorfs.Printable(commit))
	}
	entries, err := readDir(filepath.Join(folder, "snapshots"))
	if err != nil {
		return "", "", err
	}
	var found []string
	for _, e := range entries {
		if dir := filepath.Join(folder, "snapshots", e.Name()); isDir(dir) {
			found = append(found, dir)
		}
	}
	switch len(found) {
	case 0:
		return "", "", &tensorfs.FormatError{File: folder, Offset: -1, Kind: fs.ErrNotExist, Problem: "it has no snapshot", Advice: "download the model again"}
	case 1:
		return found[0], warning, nil
	}
	return "", "", fmt.Errorf("%s: %d snapshots and refs/main names none of them; give the path of one, such as %s", shown, len(found), tensorfs.Printable(found[0]))
}
