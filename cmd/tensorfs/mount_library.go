package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/libdir"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/views/tree"
)

// libraryOptions are the flags of mount that are only for libraries.
type libraryOptions struct {
	maxOpen int
	idle    time.Duration
	as      string // one of library.Forms, "" for a tree for each model
	demand  bool   // models of the store's server are opened, too
	orgs    []string
}

// asks reports whether a flag about models on demand is given.
func (o *libraryOptions) asks() bool { return o.demand || len(o.orgs) > 0 }

// openContent opens the model, or looks through the library.
func (o *mountOptions) openContent(name, mountpoint string) (*server.Content, error) {
	if o.library.maxOpen < 1 || o.library.idle <= 0 {
		return nil, cli.UsageError{Err: fmt.Errorf("--max-open %d --idle %s: want a number and a time above 0", o.library.maxOpen, o.library.idle)}
	}
	if o.library.asks() {
		return o.openOnDemand(name, mountpoint)
	}
	if o.library.as != "" {
		return o.openAs(append([]string{name}, o.spec.More...), mountpoint)
	}
	isStore := slices.Contains(library.Stores, name)
	mayBe := o.inside == "" // which is for a single model
	if mayBe {
		if p := pipelineOf(name); p != nil {
			return o.openLibrary(p.Library, name, mountpoint)
		}
	}
	if mayBe && (isStore || !formats.IsName(name) && source.HasDir(name) && !library.Single(name, library.Options{Skip: isOurs})) {
		l, err := library.Open(name, library.Options{Skip: isOurs, Missing: true})
		if err != nil {
			return nil, err
		}
		if isStore || len(l.Now().Models) > 0 {
			return o.openLibrary(l, name, mountpoint)
		} // opening it as a model reports what it is
	}
	t, err := o.open(name)
	if err != nil {
		return nil, err
	}
	var warming *tree.Warming
	if o.warm != "" {
		if warming, err = t.Warming(o.warm); err != nil {
			t.Model.Close()
			return nil, cli.UsageError{Err: errors.New("--warm: " + err.Error())}
		}
	}
	shown, waits := conceal.Name(name), describe.IsRemote(t.Model)
	if waits && t.Model.Name != "" { // a recipe has no name of its own
		shown = t.Model.Name
	}
	options := fs.Options{FsName: describe.WithAdapters(shown, t.Model), Waits: waits, Check: t.Model.Check, ModTime: t.Model.ModTime}
	if waits {
		options.Traffic = o.remote.open().Traffic
	}
	return &server.Content{
		Root: t.Root, Options: options, View: o.warm, Warming: warming,
		Warnings: func() []string { return t.Model.Warnings },
		Identity: func() (string, error) { return o.identity(t) },
		Facts:    func() (string, error) { return o.nfsFacts(t) },
		Close:    t.Model.Close,
	}, nil
}

// isOurs reports whether a device belongs to a mount of tensorfs.
func isOurs(device string) bool {
	all, err := mounts.List()
	return err == nil && slices.ContainsFunc(all, func(m mounts.Mount) bool { return m.Device == device })
}

func (o *mountOptions) openLibrary(l *library.Library, name, mountpoint string) (*server.Content, error) {
	if err := o.checkLibrary(l, mountpoint); err != nil {
		return nil, err
	}
	return o.libraryContent(l, name, treesOf(l, "library", o.openListed).Root), nil
}

// libraryContent returns what a server serves of a library, laid out by root.
func (o *mountOptions) libraryContent(l *library.Library, name string, root func() tensorfs.Dir) *server.Content {
	return &server.Content{
		Library:  &fs.Library{Root: root, Idle: o.library.idle, MaxOpen: o.library.maxOpen},
		Options:  fs.Options{FsName: name, ModTime: l.Now().Modified},
		Warnings: func() []string { return l.Now().Warnings },
		Close:    func() error { return nil },
	}
}

// checkLibrary refuses what a mount of a library cannot do.
func (o *mountOptions) checkLibrary(l *library.Library, mountpoint string) error {
	if err := o.modelFlags.check(); err != nil { // no model is opened here
		return err
	}
	if len(o.LoRA) > 0 {
		return errManyAdapted
	}
	if o.spec.Backend != mounts.BackendFUSE {
		return cli.UsageError{Err: errors.New("over NFS only a single model is served, and this is a library; --backend fuse mounts libraries")}
	}
	for _, place := range l.Places {
		if inside(place, mountpoint) {
			return fmt.Errorf("%s is inside %s, the library that is to be mounted there; choose another directory", tensorfs.Printable(mountpoint), tensorfs.Printable(place))
		}
	}
	if o.warm != "" {
		return cli.UsageError{Err: errors.New("--warm is for one model, and this is a library")}
	}
	if o.spec.Takeover != "" && o.spec.Takeover != server.BySystemd { // a service reports that for every model
		return cli.UsageError{Err: errors.New("--takeover is for one model, and this is a library, whose numbers of files depend on who looked into it")}
	}
	return nil
}

// inside reports whether path is dir or below it, links followed.
func inside(dir, path string) bool {
	for _, p := range []*string{&dir, &path} {
		if real, err := filepath.EvalSymlinks(*p); err == nil {
			*p = real
		}
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// treesOf lays a library out with a tree for each model. text is the name of README's text.
func treesOf(l *library.Library, text string, open func(*library.Model) (*tree.Tree, error)) *libdir.Trees {
	return &libdir.Trees{Library: l, Open: open, Readme: libraryReadme(text, l)}
}

func libraryReadme(text string, l *library.Library) string {
	return strings.ReplaceAll(system(runtime.GOOS).text(text), "{name}", tensorfs.Printable(l.Name))
}
