package stores

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/export"
)

// LMStudio writes files of a model into LM Studio's folder at dir, as PUBLISHER/NAME/FILE,
// the last one last. name is PUBLISHER/NAME.
func LMStudio(ctx context.Context, dir, name string, files []export.File, o Options) (_ *Report, err error) {
	publisher, model, ok := strings.Cut(name, "/")
	if !ok || !tensorfs.ValidName(publisher) || !tensorfs.ValidName(model) || publisher[0] == '.' || model[0] == '.' {
		return nil, fmt.Errorf("%s is not the name of a model in LM Studio; write it as PUBLISHER/NAME", tensorfs.Quote(name))
	}
	at := filepath.Join(dir, publisher, model)
	for _, f := range files { // before anything is written
		path := filepath.Join(at, f.Path)
		if st, err := os.Lstat(path); err == nil && !o.Force && (!st.Mode().IsRegular() || st.Size() != f.Data.Size()) {
			return nil, fmt.Errorf("%s %w, with other bytes", tensorfs.Printable(path), ErrExists)
		}
	}
	s, err := openStage(filepath.Join(at, ".tensorfs"), o)
	if err != nil {
		return nil, err
	}
	defer func() { s.close(err) }()
	list, err := s.write(ctx, files, func(int64, string) string { return "" })
	if err != nil {
		return nil, err
	}
	r := &Report{}
	for i := range list {
		f := &list[i]
		r.Path = filepath.Join(at, f.name)
		if err := s.place(ctx, f, r.Path); err != nil {
			return nil, err
		}
		r.Files = append(r.Files, Placed{r.Path, f.size, f.digest(), f.how, f.origin})
	}
	if err := syncDir(at); err != nil {
		return nil, err
	}
	return r, s.done()
}
