package hf

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// The cache, as the Python package huggingface_hub lays it out:
//
//	models--ORG--NAME/
//	  refs/main                     commit id
//	  blobs/<id>                    contents
//	  snapshots/<commit>/FILE    -> ../../blobs/<id>

// maxRef bounds a file below refs/, which has 40 bytes.
const maxRef = 1 << 16

// OpenName opens the model that the local Hugging Face cache has as ORG/NAME,
// optionally followed by @REVISION: a branch, a tag or a commit. The cache is
// $HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub. links says how far
// the links of its files are followed.
func OpenName(name string, links source.Links) (*tensorfs.Model, error) {
	repo, revision, pinned := strings.Cut(name, "@")
	parts := strings.Split(repo, "/")
	if len(parts) > 2 || strings.Contains(repo, "--") || !plainPath(repo) || pinned && !plainPath(revision) {
		return nil, fmt.Errorf("%s: the name is not of the form ORG/NAME or ORG/NAME@REVISION; write it as the hub does, or leave out hf: to name a path", tensorfs.Printable("hf:"+name))
	}
	cache, err := source.HuggingFaceCache()
	if err != nil {
		return nil, err
	}
	folder := "models--" + strings.Join(parts, "--")
	src, err := source.Dir(path.Join(cache, folder), links)
	if err != nil {
		return nil, notCached(name, repo, cache, folder, err)
	}
	defer src.Close()
	snap, warning, err := snapshot(src, ".", revision)
	if err != nil {
		return nil, err
	}
	return openDir(src, snap, ".", warning)
}

// notCached says what was sought in the cache and what is there.
func notCached(name, repo, cache, folder string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	e := &tensorfs.FormatError{File: "hf:" + name, Offset: -1, Kind: fs.ErrNotExist,
		Advice: fmt.Sprintf("download it with \"hf download %s\", or set HF_HOME to where it is", tensorfs.Printable(repo))}
	var entries []fs.DirEntry
	src, err := source.Dir(cache, source.Anywhere)
	if err == nil {
		defer src.Close()
		entries, err = src.ReadDir(".")
	}
	if err != nil {
		e.Problem = fmt.Sprintf("looked for it in the cache %s, which cannot be read: %s", tensorfs.Printable(path.Clean(cache)), problem(err))
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
	e.Problem = fmt.Sprintf("looked for %s in the cache %s; found other models (%d), not this one", tensorfs.Printable(folder), tensorfs.Printable(path.Clean(cache)), models)
	return e
}

// problem is what an error says about a path, without the path and the advice.
func problem(err error) string {
	if e, ok := errors.AsType[*tensorfs.FormatError](err); ok {
		return e.Problem
	}
	return err.Error()
}

// plainPath reports whether s is a path that leads only downwards.
func plainPath(s string) bool {
	for p := range strings.SplitSeq(s, "/") {
		if !tensorfs.ValidName(p) {
			return false
		}
	}
	return true
}

// isCacheFolder reports whether dir is a model's folder in the cache.
func isCacheFolder(src source.FS, dir string) bool {
	has := func(name string) bool { return source.IsDir(src, path.Join(dir, name)) }
	return has("snapshots") && (has("refs") || has("blobs"))
}

// snapshot returns the directory of a revision, by default main. Without refs it
// is the only snapshot.
func snapshot(src source.FS, folder, revision string) (dir, warning string, err error) {
	at := src.Location(folder)
	shown := tensorfs.Printable(at)
	ref := revision
	if ref == "" {
		ref = "main"
	}
	commit := ""
	refPath := path.Join(folder, "refs", ref)
	b, err := source.ReadSmall(src, refPath, maxRef)
	switch {
	case err == nil:
		if commit = strings.TrimSpace(string(b)); !tensorfs.ValidName(commit) {
			return "", "", &tensorfs.FormatError{File: src.Location(refPath), Offset: 0, Problem: "it holds no commit id but " + tensorfs.Quote(commit)}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", "", err
	case revision != "":
		commit = revision
	}
	if commit != "" {
		if dir := path.Join(folder, "snapshots", commit); path.Dir(dir) == path.Join(folder, "snapshots") && source.IsDir(src, dir) {
			return dir, "", nil
		}
		if revision != "" {
			return "", "", &tensorfs.FormatError{File: at, Offset: -1, Kind: fs.ErrNotExist, Problem: "it has no snapshot of revision " + tensorfs.Printable(revision), Advice: "download that revision"}
		}
		warning = fmt.Sprintf("%s: refs/main names the snapshot %s, which is missing; the only snapshot is shown", shown, tensorfs.Printable(commit))
	}
	entries, err := src.ReadDir(path.Join(folder, "snapshots"))
	if err != nil {
		return "", "", err
	}
	var found []string
	for _, e := range entries {
		if dir := path.Join(folder, "snapshots", e.Name()); source.IsDir(src, dir) {
			found = append(found, dir)
		}
	}
	switch len(found) {
	case 0:
		return "", "", &tensorfs.FormatError{File: at, Offset: -1, Kind: fs.ErrNotExist, Problem: "it has no snapshot", Advice: "download the model again"}
	case 1:
		return found[0], warning, nil
	}
	return "", "", fmt.Errorf("%s: it has %d snapshots, and refs/main names none of them; give the path of one, such as %s", shown, len(found), tensorfs.Printable(src.Location(found[0])))
}
