package stores

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/opendir"
	"github.com/tensorfs/tensorfs/internal/remote/hub"
)

// HuggingFace writes a directory of a model into the Hugging Face cache at dir, as the
// repository ORG/NAME. Its commit is computed from the content: the first 40 hexadecimal
// digits of the SHA-256 of the lines that sha256sum prints of the files, in the order of
// their names. refs/main is written last and points to it.
func HuggingFace(ctx context.Context, dir, repository string, files []export.File, o Options) (_ *Report, err error) {
	folderName, err := hub.Folder(repository)
	if err != nil {
		return nil, err
	}
	cache, err := opendir.Make(dir, dirMode, true)
	if err != nil {
		return nil, tensorfs.NoDirectory(dir, err)
	}
	defer release(cache, &err)
	folder, err := cache.Follow(folderName, dirMode)
	if err != nil {
		return nil, tensorfs.NoDirectory(dir, err)
	}
	defer release(folder, &err)
	s, err := openStage(folder, ".tensorfs", o)
	if err != nil {
		return nil, err
	}
	defer func() { s.close(err) }()
	if main, err := hub.Main(folder); err != nil {
		return nil, err
	} else if main != "" && !o.Force {
		return nil, fmt.Errorf("%s: the model %s %w there, with the commit %s", tensorfs.Printable(dir), repository, ErrExists, main)
	}
	list, err := s.write(ctx, files, nil)
	if err != nil {
		return nil, err
	}
	blobs := make([]hub.Blob, len(list))
	for i := range list {
		f := &list[i]
		if f.how != Linked { // the model's own keeps its owner
			if err := s.give(f); err != nil {
				return nil, err
			}
		}
		if err := s.checkBlob(ctx, f); err != nil {
			return nil, err
		}
		blobs[i] = hub.Blob{Name: f.name, ID: f.sum, Size: f.size, Dir: f.dir, Base: f.base}
	}
	commit := commitOf(list)
	there, err := hub.KeepBlobs(ctx, cache, repository, commit, blobs)
	if err != nil {
		return nil, err
	}
	r := &Report{Path: filepath.Join(dir, folderName, "snapshots", commit)}
	for i := range list {
		f := &list[i]
		if there[f.name] {
			f.how, f.origin = There, ""
		}
		r.Files = append(r.Files, Placed{filepath.Join(r.Path, filepath.FromSlash(f.name)), f.size, f.digest(), f.how, f.origin})
	}
	return r, s.done()
}

// checkBlob holds that a blob that is there has the bytes of its name, or removes it if told to.
func (s *stage) checkBlob(ctx context.Context, f *file) error {
	blobs, err := s.at.Follow("blobs", 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is made
	}
	if err != nil {
		return err
	}
	defer blobs.Close()
	if _, err := blobs.Lstat(f.sum); err != nil {
		return nil
	}
	old, same, err := hasBytes(ctx, blobs, f.sum, f)
	if old != nil {
		old.Close()
	}
	switch {
	case err != nil || same:
		return err
	case !s.Force:
		return fmt.Errorf("%s %w, with other bytes", tensorfs.Printable(blobs.Join(f.sum)), ErrExists)
	}
	return blobs.Remove(f.sum)
}

// commitOf returns the commit of files.
func commitOf(list []file) string {
	lines := make([]string, len(list))
	for i := range list {
		lines[i] = list[i].sum + "  " + list[i].name + "\n"
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[2*sha256.Size:], b[2*sha256.Size:]) })
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:])[:40]
}

// IsRepository reports whether a text is ORG/NAME.
func IsRepository(s string) bool {
	org, name, ok := strings.Cut(s, "/")
	return ok && org != "" && name != "" && !strings.Contains(s, "--") && !strings.Contains(name, "/")
}
