package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/opendir"
)

// LMStudio writes files of a model into LM Studio's folder at dir, as PUBLISHER/NAME/FILE,
// the last one last. name is PUBLISHER/NAME.
func LMStudio(ctx context.Context, dir, name string, files []export.File, o Options) (_ *Report, err error) {
	publisher, model, ok := strings.Cut(name, "/")
	if !ok || !tensorfs.ValidName(publisher) || !tensorfs.ValidName(model) || publisher[0] == '.' || model[0] == '.' {
		return nil, fmt.Errorf("%s is not the name of a model in LM Studio; write it as PUBLISHER/NAME", tensorfs.Quote(name))
	}
	folder, err := opendir.Make(dir, dirMode, true)
	if err != nil {
		return nil, tensorfs.NoDirectory(dir, err)
	}
	defer release(folder, &err)
	if at, err := folder.Follow(name, 0); err == nil { // before anything is written
		err = checkFiles(at, files, o.Force)
		at.Close()
		if err != nil {
			return nil, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, tensorfs.NoDirectory(dir, err)
	}
	at, err := folder.Follow(name, dirMode)
	if err != nil {
		return nil, tensorfs.NoDirectory(dir, err)
	}
	defer release(at, &err)
	s, err := openStage(at, ".tensorfs", o)
	if err != nil {
		return nil, err
	}
	defer func() { s.close(err) }()
	list, err := s.write(ctx, files, nil)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	for i := range list {
		f := &list[i]
		r.Path = filepath.Join(dir, publisher, model, f.name)
		if err := s.placeBelow(ctx, f, at); err != nil {
			return nil, err
		}
		r.Files = append(r.Files, Placed{r.Path, f.size, f.digest(), f.how, f.origin})
	}
	if err := at.Sync(); err != nil {
		return nil, err
	}
	return r, s.done()
}

// placeBelow gives a staged file its path below a directory.
func (s *stage) placeBelow(ctx context.Context, f *file, at *opendir.Dir) (err error) {
	dir, base := path.Split(f.name)
	if dir != "" {
		if at, err = at.Follow(path.Clean(dir), dirMode); err != nil {
			return err
		}
		defer release(at, &err)
	}
	return s.place(ctx, f, at, base)
}

// checkFiles refuses files that would certainly be in the way.
func checkFiles(at *opendir.Dir, files []export.File, force bool) error {
	for _, f := range files {
		if st, err := at.Lstat(f.Path); err == nil && !force && (!st.Mode().IsRegular() || st.Size() != f.Data.Size()) {
			return fmt.Errorf("%s %w, with other bytes", tensorfs.Printable(at.Join(f.Path)), ErrExists)
		}
	}
	return nil
}
