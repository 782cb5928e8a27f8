package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/libdir"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/server"
)

// openAs looks through libraries that are to be shown in the form of --as.
func (o *mountOptions) openAs(names []string, mountpoint string) (*server.Content, error) {
	if err := o.modelFlags.check(); err != nil { // no model is opened here
		return nil, err
	}
	switch {
	case o.spec.Backend != mounts.BackendFUSE:
		return nil, cli.UsageError{Err: errors.New("over NFS only a single model is served, and --as shows libraries; --backend fuse mounts them")}
	case len(o.LoRA) > 0:
		return nil, errManyAdapted
	case o.warm != "":
		return nil, cli.UsageError{Err: errors.New("--warm is for one model, and --as shows libraries")}
	}
	s := &libdir.Forms{Form: o.library.as, Open: o.openListed, Tower: o.checked.TowerFile, Rewrites: o.checked.Tree.Whole.Rewrites()}
	var modified time.Time
	for _, name := range names {
		l, err := library.Open(name, library.Options{Skip: isOurs, Missing: true})
		if err != nil {
			return nil, err
		}
		for _, place := range l.Places {
			if inside(place, mountpoint) {
				return nil, fmt.Errorf("%s is inside %s, a library that is to be mounted there; choose another directory", tensorfs.Printable(mountpoint), tensorfs.Printable(place))
			}
		}
		if l.Now().Modified.After(modified) {
			modified = l.Now().Modified
		}
		s.Libraries = append(s.Libraries, l)
	}
	return &server.Content{
		Library:  &fs.Library{Root: s.Root, Idle: o.library.idle, MaxOpen: o.library.maxOpen},
		Options:  fs.Options{FsName: strings.Join(names, ","), ModTime: modified},
		Warnings: s.Warnings,
		Close:    func() error { return nil },
	}, nil
}
